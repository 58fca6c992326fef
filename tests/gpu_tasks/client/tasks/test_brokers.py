"""Who tells of a slot and where: by the chain, and by the provider's own word, which is a stranger's."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from blob_servers import serving
from genesis import dev_accounts
from gpu_tasks.client.tasks.streams import TaskHearings
from gpu_tasks.client.tasks.subscriber import BrokerBook, BrokerTrouble, ToldSlot
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from gpu_tasks.telemetry.broker import BrokerAddress
from planted_state import chain_with
from priced_tasks import a_task
from runtime.frame.runtime import Bound
from wallet.client import ChainClient

ALICE, BOB = dev_accounts.stash("Alice"), dev_accounts.stash("Bob")
TASK = b"t" * 32


def told(state: TaskState, *stashes: bytes) -> Task:
    slots = tuple(Slot(stash, b"d" * 32, 1, 1, 1) for stash in stashes)
    return a_task(state=state, slots=slots)


def with_endpoint(folder: Path, endpoint: str, body: Callable[[BrokerBook], Awaitable[None]]) -> None:
    """On a chain where Alice's blob store is there."""

    def plant(bound: Bound) -> None:
        devices = bound[Devices]
        record = devices.providers[ALICE]
        assert record is not None
        devices.providers[ALICE] = replace(record, endpoint=endpoint.encode())

    async def main(url: str) -> None:
        async with await ChainClient.connect(url) as client, BlobClient(private=True) as blobs:
            await body(BrokerBook(client, blobs))

    folder.mkdir()
    with chain_with(folder, plant) as url:
        asyncio.run(asyncio.wait_for(main(url), 60))


@pytest.mark.parametrize("state", TaskState)
def test_who_is_heard_of_has_a_slot_by_now_and_has_it_still(state: TaskState) -> None:
    address, nobody = BrokerAddress("mqtt", "127.0.0.1", 1884), cast("Any", None)
    slots = asyncio.run(BrokerBook(nobody, nobody, address).slots({TASK: told(state, ALICE, BOB)}))
    over = {TaskState.ENDED, TaskState.ASKING, TaskState.VOLUNTEERING}
    before = {TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING}
    expected = [ToldSlot(TASK, 0, ALICE, address), ToldSlot(TASK, 1, BOB, address)]
    assert slots == ([] if state in over | before else expected)


def test_a_trouble_that_comes_again_is_said_again_and_one_that_lasts_once() -> None:
    async def main() -> list[str | None]:
        hearings = TaskHearings(cast("Any", None), cast("Any", None), (TASK,))
        slot, found = ToldSlot(TASK, 0, ALICE, None), []
        for problem in ("none", "none", None, "none", "another"):
            await hearings._say_if_new(slot, problem, BrokerTrouble.NO_BROKER)
        while not hearings._queue.empty():
            heard = hearings._queue.get_nowait()
            assert heard is not None
            found.append(heard.problem)
        return found

    assert asyncio.run(main()) == ["none", "none", "another"]


def test_the_provider_names_its_broker(tmp_path: Path) -> None:
    async def body(book: BrokerBook) -> None:
        address = BrokerAddress("mqtt", "127.0.0.1", 1884)
        assert await book.slots({TASK: told(TaskState.RUNNING, ALICE)}) == [ToldSlot(TASK, 0, ALICE, address)]
        assert await book.answers(ALICE)

    with serving(tmp_path / "blobs", "mqtt://127.0.0.1:1884") as endpoint:
        with_endpoint(tmp_path / "chain", endpoint, body)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        (None, "names no broker"),
        ("http://127.0.0.1:1884", "names a broker that is none"),
        ("", "names a broker that is none"),
    ],
)
def test_a_provider_without_a_broker_is_said(tmp_path: Path, named: str | None, problem: str) -> None:
    async def body(book: BrokerBook) -> None:
        (slot,) = await book.slots({TASK: told(TaskState.RUNNING, ALICE)})
        assert slot.broker is None
        assert problem in (slot.problem or "")
        assert await book.answers(ALICE)

    with serving(tmp_path / "blobs", named) as endpoint:
        with_endpoint(tmp_path / "chain", endpoint, body)


def test_a_provider_that_is_away_does_not_answer(tmp_path: Path) -> None:
    async def body(book: BrokerBook) -> None:
        (slot,) = await book.slots({TASK: told(TaskState.RUNNING, ALICE)})
        assert "cannot be reached" in (slot.problem or "")
        assert not await book.answers(ALICE)
        assert not await book.answers(b"n" * 32)

    with_endpoint(tmp_path / "chain", "http://127.0.0.1:1", body)


def test_the_users_own_broker_comes_before_all(tmp_path: Path) -> None:
    async def body(book: BrokerBook) -> None:
        book.override = BrokerAddress("mqtt", "gpu.example.org", 1883)
        slots = await book.slots({TASK: told(TaskState.RUNNING, ALICE, BOB)})
        assert slots == [ToldSlot(TASK, place, stash, book.override) for place, stash in enumerate((ALICE, BOB))]

    with_endpoint(tmp_path / "chain", "http://127.0.0.1:1", body)


@pytest.mark.parametrize("state", [TaskState.COMMITTING, TaskState.REVEALING, TaskState.ASKING, TaskState.ENDED])
def test_nobody_tells_of_a_task_that_nobody_works_on(tmp_path: Path, state: TaskState) -> None:
    async def body(book: BrokerBook) -> None:
        assert await book.slots({TASK: told(state, ALICE)}) == []

    with_endpoint(tmp_path / "chain", "http://127.0.0.1:1", body)


def test_a_long_answer_is_no_broker_and_is_not_shown(tmp_path: Path) -> None:
    """A quarter of a megabyte of words in a cell of the table of `ogpu top` took 6.4 seconds of CPU to be drawn."""

    async def body(book: BrokerBook) -> None:
        (slot,) = await book.slots({TASK: told(TaskState.RUNNING, ALICE)})
        assert slot.broker is None
        assert slot.problem is not None
        assert "sent more than 512 bytes" in slot.problem
        assert len(slot.problem) < 200
        assert await book.answers(ALICE)

    with serving(tmp_path / "blobs", "x " * 300) as endpoint:
        with_endpoint(tmp_path / "chain", endpoint, body)
