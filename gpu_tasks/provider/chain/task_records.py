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


def sells_tasks(chain_client: ChainClient) -> bool:
    """Return True if the chain has a market of tasks."""
    return TrainingMarket in chain_client.runtime.pallets


async def auctions(chain_client: ChainClient) -> dict[bytes, Task]:
    """Return the tasks with open auctions, while bids are made or opened."""
    return dict(await training_reads.auctions(chain_client)) if sells_tasks(chain_client) else {}


async def tasks(chain_client: ChainClient, task_ids: Sequence[bytes], block_hash: bytes | None) -> dict[bytes, Task]:
    """Return some tasks."""
    if not task_ids or not sells_tasks(chain_client):
        return {}
    found_tasks: list[Task | None] = await chain_client.read_many(TrainingMarket.tasks, list(task_ids), at=block_hash)
    return {
        task_id: task_record
        for task_id, task_record in zip(task_ids, found_tasks, strict=True)
        if task_record is not None
    }


async def bids(
    chain_client: ChainClient, bid_names: Sequence[BidName], block_hash: bytes | None
) -> dict[BidName, TaskBid]:
    """Return some bids."""
    if not bid_names or not sells_tasks(chain_client):
        return {}
    found_bids: list[TaskBid | None] = await chain_client.read_many(TrainingMarket.bids, list(bid_names), at=block_hash)
    return {
        bid_name: bid_record
        for bid_name, bid_record in zip(bid_names, found_bids, strict=True)
        if bid_record is not None
    }


async def task_of_case(chain_client: ChainClient, case_id: bytes) -> bytes | None:
    """Return the task that a case is about."""
    if not sells_tasks(chain_client):
        return None
    found_place: bytes | None = await chain_client.read(TrainingMarket.task_of_case, case_id)
    return found_place


async def spendable(chain_client: ChainClient, provider_stash: bytes) -> int:
    """Return the grains that an account can lock. Reserves cover its frozen grains first."""
    account_info: AccountInfo = await chain_client.read(System.account, provider_stash)
    # Frozen money may overlap reserved money, so only the part beyond the reserves reduces the free balance.
    return max(0, account_info.data.free - max(0, account_info.data.frozen - account_info.data.reserved))


def slot_ms(chain_client: ChainClient) -> int:
    """Return the milliseconds of a slot of this chain, from its rules, without asking the node."""
    minimum_period: int = constant_value(Timestamp, Timestamp.minimum_period, chain_client.runtime)
    return 2 * minimum_period
