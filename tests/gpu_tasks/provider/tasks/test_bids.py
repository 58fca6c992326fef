"""Concurrent bids of a provider with several devices: their order, and the promises of each."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks.bid_terms import MeasuredRun
from gpu_tasks.provider.tasks.bids import PREPARED_MAX, TRIES_MAX, BidDuty
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.workloads.train_int8.form import TrainingForm
from heard import Heard
from priced_tasks import a_task
from task_chain import PRICE
from task_village import StillMachine

NO_PROGRAMS = ContainerSupervisor(None, ContainerPolicy(), dict)

SPENDABLE = 1_000
FIRST, SECOND, THIRD = b"1" * 32, b"2" * 32, b"3" * 32
POLICY = BidPolicy(("train-int8",))


def with_collateral(grains: int) -> Task:
    """Return a task of eight segments that any device may bid for."""
    return a_task(terms=TaskTerms(PRICE, 0, 0, 1_000, grains), classes=1 << DeviceClass.CPU)


class Book(TaskBook):
    """Prepares nothing, and records the requests."""

    prepared: list[bytes]
    devices: list[bytes]
    forgotten: list[bytes]
    problem: Exception | None = None

    async def prepare(self, task_id: bytes, task: Task, device: bytes) -> Any:
        self.prepared.append(task_id)
        self.devices.append(device)
        if self.problem is not None:
            raise self.problem
        return SimpleNamespace(measure=self._measure, folder=SimpleNamespace(free_bytes=lambda: 10**12))

    def forget(self, task_id: bytes) -> None:
        self.forgotten.append(task_id)

    async def _measure(self) -> MeasuredRun:
        await asyncio.sleep(0)
        return MeasuredRun(tuple(range(9)), 1_000, 1_000)


class Machine(StillMachine):
    """A machine that is busy or idle by a test's command."""

    is_at_work = False

    def is_idle(self) -> bool:
        return not self.is_at_work


class Bidder:
    """A provider with some devices, on a chain with some tasks at auction."""

    def __init__(
        self,
        base: Path,
        auctions: dict[bytes, Task],
        policy: BidPolicy = POLICY,
        devices: Sequence[bytes] = (FIRST, SECOND, THIRD),
    ) -> None:
        self.auctions = auctions
        self.devices = devices
        self.races: list[Any] = []
        self.heard = Heard()
        self.machine = Machine()
        self.journal = Journal(base / "journal")
        self.journal.open_races = lambda: iter(self.races)  # type: ignore[method-assign]
        chain = SimpleNamespace(
            auctions=self._auctions, spendable=self._number(SPENDABLE), slot_ms=self._number(1_000),
            own_devices=self._devices, tasks=self._tasks,
        )  # fmt: skip
        workers = SimpleNamespace(devices=devices, workloads=SimpleNamespace(in_steps=lambda _: TrainingForm()))
        parts = SimpleNamespace(
            identity=SimpleNamespace(stash=b"m" * 32), journal=self.journal, chain=chain, workers=workers,
            telemetry=self.heard,
        )  # fmt: skip
        self.book = Book(cast(Parts[Any], parts), base)
        self.book.prepared, self.book.devices, self.book.forgotten = [], [], []
        self.source = SimpleNamespace(policy=lambda: policy, problem="")
        self.in_session: set[bytes] = set()
        self.duty = BidDuty(
            cast(Parts[Any], parts), self.book, NO_PROGRAMS, cast(Any, self.source), self.machine,
            in_session=lambda: self.in_session,
        )  # fmt: skip

    async def step(self) -> None:
        """Read the auctions of a block, and complete all started work."""
        await self.duty.step(View(5, ()))
        await asyncio.gather(*self.duty.tasks._tasks.values())

    async def _auctions(self) -> dict[bytes, Task]:
        return self.auctions

    async def _tasks(self, ids: Sequence[bytes], *, final: bool) -> dict[bytes, Task]:
        assert final
        return {name: self.auctions[name] for name in ids}

    async def _devices(self) -> list[DeviceStatus]:
        device = Device(b"o" * 32, DeviceClass.CPU, b"u" * 32, 1, 1, 1)
        return [DeviceStatus(name, device, ()) for name in self.devices]

    def _number(self, number: int) -> Any:
        return AsyncMock(return_value=number)


def bid_for(bidder: Bidder) -> list[bytes]:
    """Return the tasks in the journal."""
    return [task for task, _ in bidder.journal.tasks]


def test_bids_that_are_prepared_at_once_are_promised_the_stash_once(tmp_path: Path) -> None:
    first, second = b"a" * 32, b"b" * 32
    bidder = Bidder(tmp_path, {first: with_collateral(600), second: with_collateral(600)})
    asyncio.run(bidder.step())
    assert bidder.book.prepared == [first, second], "each could be had when it was looked at"
    assert bid_for(bidder) == [first]
    assert [reason.split()[-1] for reason in bidder.heard.reasons("not_bid")] == ["collateral"]


def test_what_the_stash_cannot_lock_beside_its_bids_is_not_even_prepared(tmp_path: Path) -> None:
    first, second, third = b"a" * 32, b"b" * 32, b"c" * 32
    bidder = Bidder(tmp_path, {first: with_collateral(600)})
    asyncio.run(bidder.step())
    bidder.auctions |= {second: with_collateral(401), third: with_collateral(400)}
    asyncio.run(bidder.step())
    assert bidder.book.prepared == [first, third]
    assert bid_for(bidder) == [first, third]
    assert {entry.device for _, entry in bidder.journal.open_tasks()} == {FIRST, SECOND}


@pytest.mark.parametrize("is_racing", [False, True])
@pytest.mark.parametrize("is_at_work", [False, True])
@pytest.mark.parametrize("only_when_idle", [False, True])
def test_who_bids_only_when_idle_lets_pass_what_comes_while_it_works_or_races(
    tmp_path: Path, only_when_idle: bool, is_at_work: bool, is_racing: bool
) -> None:
    task = b"a" * 32
    bidder = Bidder(tmp_path, {task: with_collateral(1)}, BidPolicy(("train-int8",), only_when_idle=only_when_idle))
    bidder.machine.is_at_work = is_at_work
    bidder.races = [object()] if is_racing else []
    asyncio.run(bidder.step())
    is_let_pass = only_when_idle and (is_at_work or is_racing)
    assert bid_for(bidder) == ([] if is_let_pass else [task])
    assert bidder.heard.reasons("not_bid") == (["the policy bids only on an idle machine"] if is_let_pass else [])


def test_each_is_prepared_on_a_device_of_its_own_and_four_at_once(tmp_path: Path) -> None:
    tasks, devices = ([bytes((place,)) * 32 for place in range(first, first + 6)] for first in (10, 20))
    bidder = Bidder(tmp_path, {task: with_collateral(1) for task in tasks}, devices=devices)
    asyncio.run(bidder.step())
    assert (bidder.book.prepared, bidder.book.devices) == (tasks[:PREPARED_MAX], devices[:PREPARED_MAX])
    assert set(bidder.heard.reasons("not_bid")) == {"4 other bids are being prepared"}


def test_what_this_machine_cannot_prepare_is_tried_thrice_and_again_for_another_price(tmp_path: Path) -> None:
    task = b"a" * 32
    bidder = Bidder(tmp_path, {task: with_collateral(1)})
    bidder.book.problem = ExecutionError("out of memory")

    async def blocks() -> None:
        for _ in range(TRIES_MAX + 2):
            await bidder.step()

    asyncio.run(blocks())
    assert bidder.book.prepared == [task] * TRIES_MAX
    assert bidder.heard.reasons("not_bid") == [
        "out of memory; tried again with the next block", f"out of memory; tried {TRIES_MAX} times",
    ]  # fmt: skip
    assert bidder.book.forgotten == [task], "its input and states leave the disk"
    bidder.auctions = {task: with_collateral(2)}
    asyncio.run(blocks())
    assert bidder.book.prepared == [task] * TRIES_MAX * 2


def test_a_policy_that_cannot_be_read_is_told_once_and_when_it_can_be_again(tmp_path: Path) -> None:
    bidder = Bidder(tmp_path, {})

    async def blocks() -> None:
        for problem in ("it is not JSON", "it is not JSON", "", ""):
            bidder.source.problem = problem
            await bidder.step()

    asyncio.run(blocks())
    assert bidder.heard.problems("policy") == ["it is not JSON", "it is readable again"]


def test_a_device_with_a_session_gets_no_task_until_the_session_is_over(tmp_path: Path) -> None:
    """Also not if the session comes while the bid is prepared."""
    task, later = b"a" * 32, b"b" * 32
    bidder = Bidder(tmp_path, {task: with_collateral(1)}, devices=[FIRST])
    bidder.in_session = {FIRST}
    asyncio.run(bidder.step())
    assert bid_for(bidder) == []
    assert bidder.heard.codes("not_bid") == ["device_in_session"]
    bidder.in_session = set()
    asyncio.run(bidder.step())
    assert bid_for(bidder) == [task]

    async def drawn_meanwhile() -> None:
        await bidder.duty.step(View(5, ()))
        bidder.in_session = {SECOND}
        await asyncio.gather(*bidder.duty.tasks._tasks.values())

    bidder.devices, bidder.auctions = [SECOND], {later: with_collateral(1)}
    bidder.duty.parts.workers.devices = [SECOND]  # type: ignore[misc, assignment]
    asyncio.run(drawn_meanwhile())
    assert bid_for(bidder) == [task]
