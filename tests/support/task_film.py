"""A task as a chain shows it, block after block, to somebody who follows it; calls are noted, and sent nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.client.training import following
from gpu_tasks.client.training.following import Hand, TaskFollower
from gpu_tasks.client.training.holding import CheckpointKeeper
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.sealing import address_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import Milestone, Task, TaskState
from planted_tasks import BOB, BOB_KEY, run_root
from runtime.frame.call import Call
from simulation.chains.market_chain import OGPU
from task_chain import awarded
from wallet.client import ChainClient, Outcome

PROVIDERS = {
    b"1" * 32: Provider(bytes(32), b"http://127.0.0.1:1", 0),
    b"2" * 32: Provider(bytes(32), b"http://127.0.0.1:2", 0),
}
NAME = b"n" * 32


class TaskFilm:
    """A chain that shows one task after the other, and a key that sends calls about it."""

    def __init__(self, frames: list[Task | None]) -> None:
        self.frames = frames
        self.shown = -1
        self.sent: list[Call] = []
        self.fails: str | None = None

    async def moments(self, _: ChainClient) -> AsyncIterator[None]:
        for number in range(len(self.frames)):
            self.shown = number
            yield

    async def finalized(self) -> bytes:
        return bytes(32)

    async def height(self, at: bytes | None = None) -> int:
        return 100 + self.shown

    async def send(self, call: Call) -> Outcome:
        self.sent.append(call)
        return Outcome(bytes(32), bytes(32), 1, 0, (), self.fails)


def follow(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    film: TaskFilm,
    *,
    is_customer: bool = True,
    accepts: bool = False,
    hand: Hand | None = None,
) -> list[tuple[int, Task | None, dict[str, Any]]]:
    """All changes of the film."""

    async def frame(_client: Any, _task: bytes, _at: bytes) -> Task | None:
        return film.frames[film.shown]

    async def providers(_client: Any, _at: bytes) -> dict[bytes, Provider]:
        return PROVIDERS

    async def no_case(*_: Any) -> None:
        return None

    monkeypatch.setattr(following, "moments", film.moments)
    monkeypatch.setattr(training_reads, "task", frame)
    monkeypatch.setattr(market_reads, "providers", providers)
    monkeypatch.setattr(market_reads, "case", no_case)

    async def main() -> list[tuple[int, Task | None, dict[str, Any]]]:
        client: Any = film
        async with BlobClient(private=True) as pool:
            keeper = CheckpointKeeper(client, pool, BOB_KEY, folder) if is_customer else None
            follower = TaskFollower(client, NAME, keeper, film.send, accepts, hand)
            return [change async for change in follower.changes()]

    return asyncio.run(main())


def a_running_task(milestone: int = 0, blob: bytes = b"") -> Task:
    """Of Bob's, with the traces of `planted_tasks`; its provider has stated a milestone."""
    chain, _ = awarded(6 * OGPU, segments=10)
    chain.start(chain.keys[0])
    task = replace(chain.now(), customer=BOB)
    slot = replace(task.slots[0], provider=b"1" * 32)
    if milestone:
        stated = Milestone(milestone, run_root(milestone), 7, address_of(blob))
        slot = replace(slot, milestone=stated, reported=milestone)
    return replace(task, slots=(slot,))


def ended(task: Task) -> Task:
    return replace(task, state=TaskState.ENDED)
