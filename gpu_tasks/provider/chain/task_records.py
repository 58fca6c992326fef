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


def sells_tasks(chain: ChainClient) -> bool:
    """Return True if the chain has a market of tasks."""
    return TrainingMarket in chain.runtime.pallets


async def auctions(chain: ChainClient) -> dict[bytes, Task]:
    """Return the tasks with open auctions, while bids are made or opened."""
    return dict(await training_reads.auctions(chain)) if sells_tasks(chain) else {}


async def tasks(chain: ChainClient, ids: Sequence[bytes], at: bytes | None) -> dict[bytes, Task]:
    """Return some tasks."""
    if not ids or not sells_tasks(chain):
        return {}
    found: list[Task | None] = await chain.read_many(TrainingMarket.tasks, list(ids), at=at)
    return {name: task for name, task in zip(ids, found, strict=True) if task is not None}


async def bids(chain: ChainClient, names: Sequence[BidName], at: bytes | None) -> dict[BidName, TaskBid]:
    """Return some bids."""
    if not names or not sells_tasks(chain):
        return {}
    found: list[TaskBid | None] = await chain.read_many(TrainingMarket.bids, list(names), at=at)
    return {name: bid for name, bid in zip(names, found, strict=True) if bid is not None}


async def task_of_case(chain: ChainClient, case: bytes) -> bytes | None:
    """Return the task that a case is about."""
    if not sells_tasks(chain):
        return None
    found: bytes | None = await chain.read(TrainingMarket.task_of_case, case)
    return found


async def spendable(chain: ChainClient, stash: bytes) -> int:
    """Return the grains that an account can lock. Reserves cover its frozen grains first."""
    info: AccountInfo = await chain.read(System.account, stash)
    # Frozen money may overlap reserved money, so only the part beyond the reserves reduces the free balance.
    return max(0, info.data.free - max(0, info.data.frozen - info.data.reserved))


def slot_ms(chain: ChainClient) -> int:
    """Return the milliseconds of a slot of this chain, from its rules, without asking the node."""
    period: int = constant_value(Timestamp, Timestamp.minimum_period, chain.runtime)
    return 2 * period
