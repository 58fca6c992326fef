"""Replicated tasks with several daemons over real pallets: offered, drawn, committed, opened, disputed."""

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from fake_engine import FakeEngine
from gpu_tasks.client.tasks.tunnel import runner_of
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.events import SlotSettled, Volunteered
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.watching.broadcast import TaskWatch
from gpu_tasks.tasks.container_order import container_hash
from gpu_tasks.tasks.container_request import REQUEST, ContainerRequest
from gpu_tasks.tunnel.tunnel import TunnelError
from provider_chain import CUSTOMER_SEAL
from renting_village import PROGRAM, Renting, in_renting_village
from staged import Scene
from task_chain import net

TIME = 20
"""Blocks that each replica promises."""


async def asked(village: Renting, program: ContainerRequest = PROGRAM, **changed: Any) -> bytes:
    """Submit a task of three replicas and return its id."""
    named = container_hash(REQUEST.encode(program), 1, tuple(DeviceClass), 3)
    fields = {"checked_by": CheckedBy.REPLICATED, "milestones": 1, "slots": 3, "blocks_max": TIME, "task_hash": named}
    return await village.rent(program, **{**fields, **changed})


async def running(village: Renting, **changed: Any) -> tuple[bytes, Task]:
    """Return one with three running programs."""
    task = await asked(village, **changed)
    found = await village.until(task, TaskState.RUNNING)
    await village.block()
    return task, found


def engines(village: Renting, task: Task) -> list[FakeEngine]:
    """Return the engines by place."""
    return [village.engine_of(slot.provider) for slot in task.slots]


def among_replicas(count: int = 5) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test among `count` providers that all run containers at one price."""
    return in_renting_village(count, is_of_one_price=True)


class Places(TaskWatch):
    """Records the places of a provider's work."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        self.places.append(place)


@among_replicas()
async def test_what_each_writes_is_told_of_its_own_place(village: Renting) -> None:
    watches = {}
    for miner in village.miners:
        watches[miner.keys.stash] = Places()
        object.__setattr__(miner.daemon.parts, "watch", watches[miner.keys.stash])
    _, found = await running(village)
    assert [watches[slot.provider].places for slot in found.slots] == [[0], [1], [2]]


@among_replicas()
async def test_three_that_find_the_same_are_paid(village: Renting) -> None:
    task, found = await running(village)
    assert len({slot.provider for slot in found.slots}) == 3
    assert len(village.happened(Volunteered)) == 4, "all others offer a device"
    for engine in engines(village, found):
        assert len(engine.running) == 1
        engine.end()
    ended = await village.until(task, TaskState.ENDED)
    assert len({slot.result.root for slot in ended.slots if slot.result is not None}) == 1
    for slot in ended.slots:
        assert slot.result is not None
        blob = village.miner(slot.provider).daemon.parts.store.get(slot.result.blob)
        assert blob is not None
        assert CUSTOMER_SEAL.open(blob), "each has sealed what it found to the customer"
    await village.blocks(4)
    assert [slot.outcome for slot in ended.slots] == [TaskOutcome.ON_TIME] * 3
    for slot in ended.slots:
        journal = village.miner(slot.provider).daemon.parts.journal
        assert sum(entry.paid for (name, _), entry in journal.tasks.items() if name == task) == net(slot.price)
    assert not any(engine.running for engine in village.fakes.values()), "every container is gone"
    assert village.node.failed == []


@among_replicas()
async def test_who_finds_something_else_is_not_paid(village: Renting) -> None:
    task, found = await running(village)
    liar, *others = engines(village, found)
    liar.left = {"words": b"15\n"}
    for engine in (liar, *others):
        engine.end()
    ended = await village.until(task, TaskState.ENDED)
    assert [slot.outcome for slot in ended.slots] == [TaskOutcome.OUTVOTED, *[TaskOutcome.ON_TIME] * 2]
    paid = sorted(each.earned for each in village.happened(SlotSettled))
    assert paid == [0, ended.slots[0].price, ended.slots[0].price]


@among_replicas()
async def test_nothing_of_a_result_is_seen_before_all_are_bound(village: Renting) -> None:
    task, found = await running(village)
    first, second, third = engines(village, found)
    first.end()
    second.end()
    await village.blocks(6)
    now = village.task(task)
    assert [slot.commitment is not None for slot in now.slots] == [True, True, False]
    assert all(slot.result is None for slot in now.slots)
    third.end()
    await village.until(task, TaskState.ENDED)


@pytest.mark.parametrize("when", ["before it ended", "before it was opened"])
@among_replicas()
async def test_a_daemon_that_restarts_begins_it_anew_or_opens_what_it_is_bound_to(village: Renting, when: str) -> None:
    task, found = await running(village)
    miner = village.miner(found.slots[1].provider)
    if when == "before it was opened":
        for engine in engines(village, found)[1:]:
            engine.end()
        while village.task(task).slots[1].commitment is None:
            await village.block()
    village.fakes[miner.keys.name] = FakeEngine()
    village.engines = dict(village.fakes)
    await village.restart(miner)
    await village.block()
    await village.block()
    for engine in engines(village, found):
        engine.end()
    ended = await village.until(task, TaskState.ENDED)
    assert [slot.outcome for slot in ended.slots] == [TaskOutcome.ON_TIME] * 3


@among_replicas()
async def test_nobody_enters_what_is_compared_not_even_its_customer(village: Renting) -> None:
    """It would change one replica's result, which would lose its collateral."""
    task, found = await running(village)
    async with aiohttp.ClientSession() as session:
        for slot in found.slots:
            port = village.miner(slot.provider).daemon.server.port
            with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
                await session.ws_connect(f"http://127.0.0.1:{port}/tunnel/{task.hex()}")
    with pytest.raises(TunnelError, match="cannot be entered"):
        runner_of(found)


@in_renting_village(4)
async def test_who_asks_for_more_than_the_award_does_not_offer(village: Renting) -> None:
    task = await asked(village)
    ended = await village.until(task, TaskState.ENDED)
    assert ended.outcome is TaskOutcome.NO_AWARD
    assert any("the policy requires" in str(each) for miner in village.miners for each in miner.heard.events)


@among_replicas()
async def test_a_program_that_goes_on_for_too_long_is_ended_and_what_it_left_counts(village: Renting) -> None:
    task, _ = await running(village, blocks_max=5)
    ended = await village.until(task, TaskState.ENDED)
    assert {slot.outcome for slot in ended.slots} <= {TaskOutcome.LATE, TaskOutcome.ON_TIME}
    assert {slot.result.metric for slot in ended.slots if slot.result is not None} == {143}


@among_replicas(3)
async def test_a_request_for_other_copies_is_not_bid_for(village: Renting) -> None:
    task = await asked(village, slots=5)
    assert (await village.until(task, TaskState.ENDED)).bids == 0


@among_replicas()
async def test_a_program_of_which_no_container_can_be_begun_loses_what_who_dies_does(village: Renting) -> None:
    task = await asked(village)
    found = await village.until(task, TaskState.STARTING)
    village.engine_of(found.slots[2].provider).trouble = ContainerError("start", "no space is left", "make some")
    await village.until(task, TaskState.RUNNING)
    await village.block()
    for engine in engines(village, found):
        engine.end()
    ended = await village.until(task, TaskState.ENDED)
    assert [slot.outcome for slot in ended.slots] == [*[TaskOutcome.ON_TIME] * 2, TaskOutcome.DIED]


@among_replicas()
async def test_a_salt_is_in_the_journal_with_the_result_that_nobody_could_be_bound_to_without_it(
    village: Renting,
) -> None:
    _, found = await running(village)
    for engine in engines(village, found):
        engine.end()
    await village.block()
    journals = [village.miner(slot.provider).daemon.parts.journal for slot in found.slots]
    entries = [entry for journal in journals for entry in journal.tasks.values() if entry.result is not None]
    salts = {entry.result_salt for entry in entries}
    assert len(entries) == len(salts - {None}) == 3


@among_replicas()
async def test_who_did_not_start_runs_nothing_for_those_who_did(village: Renting) -> None:
    task = await asked(village)
    await village.until(task, TaskState.VOLUNTEERING)
    while village.task(task).state is TaskState.VOLUNTEERING:
        for miner in village.miners:
            await miner.step()
        village.node.block()
    late = village.miner(village.task(task).slots[2].provider)
    village.miners.remove(late)
    running = await village.until(task, TaskState.RUNNING)
    assert running.slots[2].outcome is TaskOutcome.NOT_STARTED
    village.miners.append(late)
    await village.blocks(3)
    assert not village.engine_of(late.keys.stash).started
