"""Typed reads of tasks at auction for customers and providers.

Invariant: as in `market_reads`, every answer is proved where the client proves. `at` is a block's hash, or None for the
newest final block. Tasks and bids are the records of the state themselves, so that an award can be computed again.
"""

from __future__ import annotations

from gpu_tasks.data.market_reads import entries
from gpu_tasks.market.training.bids import Award, TaskBid, auction_id
from gpu_tasks.market.training.tasks import Task, task_id_of
from gpu_tasks.market.training.training_api import TaskStatus
from gpu_tasks.market.training.training_market import TrainingMarket
from wallet.client import ChainClient

TASKS_LISTED_MAX = 500
"""The newest tasks of a customer that are listed. The chain drops ended ones."""

NamedTask = tuple[bytes, Task]


async def task(chain: ChainClient, task_id: bytes, at: bytes | None = None) -> Task | None:
    """Return a task, or None if the chain never had it or dropped it."""
    task_status: Task | None = await chain.read(TrainingMarket.tasks, task_id, at=at)
    return task_status


async def task_status(chain: ChainClient, task_id: bytes, at: bytes | None = None) -> TaskStatus | None:
    """Return a task with its open claims and its open dispute, or None if the chain does not know it."""
    if TrainingMarket not in chain.runtime.pallets:
        return None
    status: TaskStatus | None = await chain.query("TrainingApi_task", task_id, at=at)
    return status


async def tasks_of(chain: ChainClient, customer: bytes, at: bytes | None = None) -> list[NamedTask]:
    """Return the newest tasks of a customer that the chain still has, in the order of submission."""
    at = await chain.finalized() if at is None else at
    count: int = await chain.read(TrainingMarket.submission_counts, customer, at=at)
    numbers = range(max(0, count - TASKS_LISTED_MAX), count)
    return await _existing_tasks(
        chain,
        [task_id_of(chain.genesis_hash, customer, submission_number) for submission_number in numbers],
        at,
    )


async def auctions(chain: ChainClient, at: bytes | None = None) -> list[NamedTask]:
    """Return the tasks with an open auction, the earliest end first."""
    at = await chain.finalized() if at is None else at
    names = [name for (name,), _ in await entries(chain, TrainingMarket.open_auctions, at=at)]
    return sorted(
        await _existing_tasks(chain, names, at),
        key=lambda tasks: (tasks[1].deadline, tasks[0]),
    )


async def bids(
    chain: ChainClient, task_id: bytes, at: bytes | None = None, *, auction: int | None = None
) -> dict[bytes, TaskBid]:
    """Return the bids of a task's auction by device, of its newest one by default, none for a dropped task.

    Auctions are counted from 1. With `award`, the selection can be computed again.
    """
    at = await chain.finalized() if at is None else at
    if auction is None:
        known = await task(chain, task_id, at)
        if known is None:
            return {}
        auction = known.auction
    auction_bids = await entries(chain, TrainingMarket.bids, auction_id(task_id, auction), at=at)
    return {device_id: bid for (_, device_id), bid in auction_bids}


async def award(chain: ChainClient, task_id: bytes, auction_number: int, at: bytes | None = None) -> Award | None:
    """Return the terms and the seed that decided an auction, or None while bids are being opened."""
    auction_award: Award | None = await chain.read(TrainingMarket.awards, auction_id(task_id, auction_number), at=at)
    return auction_award


async def task_duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> list[NamedTask]:
    """Return the tasks in which a provider has a slot or is the standby."""
    at = await chain.finalized() if at is None else at
    named = [name for (_, name), _ in await entries(chain, TrainingMarket.duties, stash, at=at)]
    return await _existing_tasks(chain, named, at)


async def _existing_tasks(chain: ChainClient, names: list[bytes], block_hash: bytes) -> list[NamedTask]:
    tasks = await chain.read_many(TrainingMarket.tasks, names, at=block_hash) if names else []
    return [(name, task) for name, task in zip(names, tasks, strict=True) if task is not None]
