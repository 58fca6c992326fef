"""Reads of tasks, with and without proof: the same records for any planted state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import TaskState
from planted_state import chain_with
from planted_tasks import ALICE, BOB, OFFER, PlantedTask
from wallet.client import ChainClient
from wallet.trust import Trust
from wallet.verified import VerifiedClient

Body = Callable[[ChainClient, bytes], Awaitable[None]]


def read(folder: Path, planted: PlantedTask, body: Body) -> None:
    """Run `body` with a client that proves, and with one that trusts its node."""

    async def main(url: str) -> None:
        trust = Trust(folder / "keys")
        async with await VerifiedClient.connect_by(url, trust, lambda _: None) as client:
            at = await client.finalized()
            await body(client, at)
            await body(client.unverified(), at)

    with chain_with(folder, planted) as url:
        asyncio.run(main(url))


def test_a_task_its_bids_award_and_duties(tmp_path: Path) -> None:
    planted = PlantedTask(TaskState.STARTING)

    async def body(client: ChainClient, at: bytes) -> None:
        task = await training_reads.task(client, planted.id, at)
        assert task is not None
        assert (task.customer, task.state) == (BOB, TaskState.STARTING)
        assert await training_reads.task(client, bytes(32), at) is None
        ((device, bid),) = (await training_reads.bids(client, planted.id, at)).items()
        assert (bid.provider, device) == (ALICE, task.slots[0].device)
        assert bid.opened is not None
        assert bid.opened.price == OFFER.price
        assert await training_reads.bids(client, planted.id, at, auction=1) == {device: bid}
        assert await training_reads.bids(client, planted.id, at, auction=2) == {}
        assert await training_reads.bids(client, bytes(32), at) == {}
        award = await training_reads.award(client, planted.id, 1, at)
        assert award is not None
        assert award.terms == task.terms
        assert await training_reads.award(client, planted.id, 2, at) is None
        assert await training_reads.task_duties(client, ALICE, at) == [(planted.id, task)]
        assert await training_reads.task_duties(client, BOB, at) == []
        assert await training_reads.auctions(client, at) == []

    read(tmp_path, planted, body)


@pytest.mark.parametrize("state", [TaskState.COMMITTING, TaskState.REVEALING])
def test_open_auctions_are_listed(tmp_path: Path, state: TaskState) -> None:
    planted = PlantedTask(state)

    async def body(client: ChainClient, at: bytes) -> None:
        assert await training_reads.auctions(client, at) == [
            (planted.id, await training_reads.task(client, planted.id, at))
        ]

    read(tmp_path, planted, body)


def test_a_customer_s_tasks_are_found_by_their_numbers(tmp_path: Path) -> None:
    """A task planted before the genesis hash was known has another id, so its number leads to no task."""

    async def body(client: ChainClient, at: bytes) -> None:
        assert await training_reads.tasks_of(client, BOB, at) == []
        assert await training_reads.tasks_of(client, ALICE, at) == []

    read(tmp_path, PlantedTask(TaskState.COMMITTING), body)
