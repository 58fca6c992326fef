"""Tasks and bids for a provider: read by name, each proved. A chain without a task market has none."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.data import training_reads
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.port import BidName
from runtime.frame.runtime import constant_value
from runtime.pallets.system import AccountInfo, System
from runtime.pallets.timestamp import Timestamp
from wallet.client import ChainClient


def sells_tasks(client: ChainClient) -> bool:
    """Return True if the chain has a market of tasks."""
    return TrainingMarket in client.runtime.pallets


async def auctions(client: ChainClient) -> dict[bytes, Task]:
    """Return the tasks with open auctions, while bids are made or opened."""
    return dict(await training_reads.auctions(client)) if sells_tasks(client) else {}


async def tasks(client: ChainClient, task_ids: Sequence[bytes], block_hash: bytes | None) -> dict[bytes, Task]:
    """Return some tasks."""
    if not task_ids or not sells_tasks(client):
        return {}
    found_tasks: list[Task | None] = await client.read_many(TrainingMarket.tasks, list(task_ids), at=block_hash)
    return {task_id: task for task_id, task in zip(task_ids, found_tasks, strict=True) if task is not None}


async def bids(client: ChainClient, names: Sequence[BidName], block_hash: bytes | None) -> dict[BidName, TaskBid]:
    """Return some bids."""
    if not names or not sells_tasks(client):
        return {}
    found_bids: list[TaskBid | None] = await client.read_many(TrainingMarket.bids, list(names), at=block_hash)
    return {bid_name: bid for bid_name, bid in zip(names, found_bids, strict=True) if bid is not None}


async def task_of_claim(client: ChainClient, claim_id: bytes) -> bytes | None:
    """Return the task of an open claim, or None for a claim of another market."""
    if not sells_tasks(client):
        return None
    task_id: bytes | None = await client.read(TrainingMarket.task_of_claim, claim_id)
    return task_id


async def spendable(client: ChainClient, stash: bytes) -> int:
    """Return the grains that an account can lock. Reserves cover its frozen grains first."""
    account_info: AccountInfo = await client.read(System.account, stash)
    # Frozen money may overlap reserved money, so only the part beyond the reserves reduces the free balance.
    return max(0, account_info.data.free - max(0, account_info.data.frozen - account_info.data.reserved))


def slot_ms(client: ChainClient) -> int:
    """Return the milliseconds of a slot of this chain, from its rules, without asking the node."""
    minimum_period: int = constant_value(Timestamp, Timestamp.minimum_period, client.runtime)
    return 2 * minimum_period
