"""Jobs and leases with several daemons over real pallets: bids, starts, paid intervals, leavers, takeovers."""

import asyncio
import hashlib
import tarfile
from dataclasses import replace
from io import BytesIO

import pytest

from error_codes import raises_code
from fake_engine import FakeEngine
from gpu_tasks.client.commands.task_runs import was_cut_off
from gpu_tasks.data.program_left import decode_left
from gpu_tasks.market.attestations.attestations import TaskAttested
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.run import RunningContainer
from gpu_tasks.provider.execution.containers.spec import ContainerSpec, ImageByDigest
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.programs.requests import ProgramError
from gpu_tasks.provider.programs.results import NOTHING
from gpu_tasks.provider.tasks.policy_file import set_draining
from gpu_tasks.provider.tasks.working import WorkDuty
from heard import Heard
from provider_chain import CUSTOMER_SEAL
from renting_village import INTERVAL, INTERVALS, PROGRAM, REPOSITORY, Renting, begun, in_renting_village
from task_chain import net


def heard(who: Heard, event: str) -> bool:
    return event in who.names()


@in_renting_village()
async def test_a_job_is_bid_for_run_and_paid_until_its_program_ends(village: Renting) -> None:
    task, miner, engine = await begun(village)
    assert miner is village.miners[0], "the cheapest"
    ready = [each.daemon.duty(WorkDuty).selling.programs.is_ready((task, 1)) for each in village.miners]
    assert ready == [True, False, False, False], "who stands by makes it ready once it is asked"
    (spec,) = engine.started
    assert isinstance(spec.image, ImageByDigest)
    assert (spec.image.repository, spec.command, spec.limits.memory_bytes) == (REPOSITORY, ("run",), 64 << 20)
    for container in engine.running.values():
        container.log.feed("out", b"hello\n")
    await village.blocks(INTERVAL + 2)
    times, device = miner.daemon.parts.workers.times, miner.daemon.parts.journal.tasks[task, 1].device
    assert times.present()[device].state is Activity.TASKS, "for as long as it runs, whatever it computes"
    engine.end(exit_code=3)
    ended = await village.until(task, TaskState.ENDED)
    await village.blocks(3)
    (slot,) = ended.slots
    assert ended.outcome is TaskOutcome.TIME_OVER
    assert not was_cut_off(ended), "its program ended before"
    assert slot.result is not None
    assert slot.result.metric == 3
    blob = miner.daemon.parts.store.get(slot.result.blob)
    assert blob is not None
    assert any(each.daemon.parts.store.get(slot.result.blob) for each in village.miners[1:]), "others keep it too"
    left = decode_left(CUSTOMER_SEAL.open(blob))
    archive = left.outputs
    assert [(line.text, line.is_error) for line in left.lines] == [("hello", False)]
    assert slot.result.root == hashlib.blake2b(archive, digest_size=32).digest()
    with tarfile.open(fileobj=BytesIO(archive)) as opened:
        assert opened.getnames() == ["words"]
    paid = [earned for _, earned in village.settled()]
    assert len(paid) == 2
    entry = miner.daemon.parts.journal.tasks[task, 1]
    assert entry.paid == sum(net(each) for each in paid)
    assert entry.usages[1].cpu_ms > 0, "of the interval, by its attestation"
    while not times.is_idle(device):
        await asyncio.sleep(0.01)
    assert engine.removed == [spec.container_id]
    assert engine.released == [spec.container_id], "its image may go"
    assert len(village.happened(TaskAttested)) == 2, "it is stated by attestations, which cost nothing"
    assert village.node.failed == []


@in_renting_village()
async def test_a_lease_lasts_as_long_as_its_time_whatever_its_program_does(village: Renting) -> None:
    task, miner, engine = await begun(village, replace(PROGRAM, is_lease=True))
    engine.end()
    await village.blocks(3)
    assert miner.daemon.parts.journal.tasks[task, 1].result is None, "what it has in its workspace is still there"
    ended = await village.until(task, TaskState.ENDED)
    assert ended.outcome is TaskOutcome.TIME_OVER
    assert ended.slots[0].finished_at >= ended.started_at + INTERVAL * INTERVALS
    assert sum(earned for _, earned in village.settled()) == ended.slots[0].price
    assert was_cut_off(ended)
    assert village.node.failed == []


@in_renting_village()
async def test_a_job_that_never_ends_is_ended_when_its_time_is_up(village: Renting) -> None:
    task, _, engine = await begun(village)
    (container,) = engine.running.values()
    ended = await village.until(task, TaskState.ENDED)
    assert ended.outcome is TaskOutcome.TIME_OVER
    assert container.end.done()
    assert ended.slots[0].result is not None
    assert ended.slots[0].result.metric == 143
    assert was_cut_off(ended)


@in_renting_village()
async def test_a_customer_that_leaves_has_its_container_taken_away(village: Renting) -> None:
    task, _, engine = await begun(village)
    village.ask(TrainingMarket.stop(task=task))
    await village.blocks(3)
    assert village.task(task).outcome is TaskOutcome.TIME_STOPPED
    assert not was_cut_off(village.task(task))
    assert not engine.running


class SlowEngine(FakeEngine):
    """Pulls images and starts containers only at the test's command."""

    def __init__(self) -> None:
        super().__init__()
        self.may_bring, self.may_start = asyncio.Event(), asyncio.Event()

    async def ready(self, spec: ContainerSpec) -> None:
        await self.may_bring.wait()

    async def start(self, spec: ContainerSpec) -> RunningContainer:
        await self.may_start.wait()
        return await super().start(spec)


async def slowed(village: Renting) -> tuple[SlowEngine, bytes, Task]:
    """Return a task before its start, at a provider with a slow engine."""
    engine = village.fakes[village.miners[0].keys.name] = SlowEngine()
    engine.may_bring.set()
    village.engines = dict(village.fakes)
    await village.restart(village.miners[0])
    task_id = await village.rent()
    return engine, task_id, await village.until(task_id, TaskState.STARTING)


@in_renting_village()
async def test_a_program_that_starts_when_its_customer_has_left_is_taken_away(village: Renting) -> None:
    engine, task, _ = await slowed(village)
    selling = village.slot_miner(task).daemon.duty(WorkDuty).selling
    begins = asyncio.create_task(selling.programs.begin((task, 1)))
    await village.pause()
    selling.forget((task, 1))
    await selling.programs.remove((task, 1))
    engine.may_start.set()
    with raises_code(ProgramError, "task_ended"):
        await begins
    assert len(engine.started) == len(engine.removed) == 1


@in_renting_village()
async def test_a_program_that_takes_long_to_start_is_not_left_meanwhile(village: Renting) -> None:
    engine, task, _ = await slowed(village)
    slow = village.slot_miner(task)
    for _ in range(6):  # without waiting for the engine
        village.node.block()
        for miner in village.miners:
            await (slow.daemon.step(slow.chain.view()) if miner is slow else miner.step())
        await village.pause()
    assert village.slot_miner(task).daemon.parts.journal.tasks[task, 1].is_begun
    engine.may_start.set()
    await village.block()
    assert len(engine.running) == 1
    assert village.task(task).state is TaskState.RUNNING
    assert village.settled() == []


@in_renting_village()
async def test_a_program_that_is_made_ready_twice_at_once_is_not_lost_when_it_has_begun(village: Renting) -> None:
    engine, task_id, task = await slowed(village)
    miner, key = village.slot_miner(task_id), (task_id, 1)
    supervisor, parts = miner.daemon.duty(WorkDuty).selling.programs, miner.daemon.parts
    await supervisor.remove(key)  # as after a restart
    engine.may_bring.clear()
    engine.may_start.set()
    first = asyncio.create_task(supervisor.prepare(parts, key, task, miner.keys.device))
    await asyncio.sleep(0.02)
    engine.may_bring, slow = engine.may_start, engine.may_bring
    await supervisor.prepare(parts, key, task, miner.keys.device)
    await supervisor.begin(key)
    slow.set()
    await first
    assert supervisor.is_begun(key)


@in_renting_village()
async def test_a_container_that_stays_is_taken_away_later(village: Renting, monkeypatch: pytest.MonkeyPatch) -> None:
    task, _, engine = await begun(village)
    removes, troubles = engine.remove, [ContainerError("remove", "the engine is busy", "wait")] * 2

    async def fails_twice(container: RunningContainer) -> None:
        if troubles:
            raise troubles.pop()
        await removes(container)

    monkeypatch.setattr(engine, "remove", fails_twice)
    village.ask(TrainingMarket.stop(task=task))
    await village.blocks(6)
    assert not engine.running


@in_renting_village()
async def test_a_daemon_that_lost_the_program_leaves_and_the_runner_up_begins_it_anew(village: Renting) -> None:
    task, miner, _ = await begun(village)
    village.fakes[miner.keys.name] = FakeEngine()
    village.engines = dict(village.fakes)
    await village.restart(miner)
    await village.until(task, TaskState.STARTING, TaskState.ASKING)
    assert village.settled() == [(TaskOutcome.LEFT, 0)]
    running = await village.until(task, TaskState.RUNNING)
    await village.block()
    other = running.slots[0].provider
    assert other != miner.keys.stash
    assert len(village.engine_of(other).running) == 1
    assert not village.fakes[miner.keys.name].started


@pytest.mark.parametrize("drains", [False, True])
@in_renting_village()
async def test_who_is_asked_takes_time_over_unless_it_drains(village: Renting, *, drains: bool) -> None:
    task, miner, _ = await begun(village)
    while not village.task(task).done:
        await village.block()
    for other in village.miners:
        set_draining(other.daemon.settings.base_path, drains=drains)
    village.fakes[miner.keys.name] = FakeEngine()
    village.engines = dict(village.fakes)
    await village.restart(miner)
    asked = await village.until(task, TaskState.ASKING)
    assert asked.standby is not None
    later = await village.until(task, TaskState.RUNNING, TaskState.COMMITTING)
    assert later.state is (TaskState.COMMITTING if drains else TaskState.RUNNING)
    assert village.node.failed == [], "who drains does not even ask"


@in_renting_village()
async def test_a_daemon_that_restarts_with_the_result_in_its_journal_states_it(village: Renting) -> None:
    task, miner, engine = await begun(village)
    engine.end()
    miner.daemon.duty(WorkDuty).steps.tasks.start("end", miner.daemon.duty(WorkDuty).selling._end_program((task, 1)))
    while miner.daemon.duty(WorkDuty).steps.tasks._tasks:
        await village.pause()
    assert miner.daemon.parts.journal.tasks[task, 1].result is not None
    assert village.task(task).slots[0].result is None
    village.fakes[miner.keys.name] = FakeEngine()
    village.engines = dict(village.fakes)
    await village.restart(miner)
    assert (await village.until(task, TaskState.ENDED)).outcome is TaskOutcome.TIME_OVER


@in_renting_village()
async def test_what_cannot_be_begun_is_left_at_once(village: Renting) -> None:
    village.fakes[village.miners[0].keys.name].trouble = ContainerError("start", "no space is left", "make some")
    task = await village.rent()
    await village.until(task, TaskState.RUNNING)
    await village.until(task, TaskState.STARTING)
    assert village.settled() == [(TaskOutcome.LEFT, 0)]
    assert heard(village.miners[0].heard, "program_lost")


@in_renting_village()
async def test_outputs_that_cannot_be_taken_end_the_job_without_them(village: Renting) -> None:
    task, miner, engine = await begun(village)
    for container in engine.running.values():
        container.log.feed("err", b"too much\n")
    engine.left = {"large": bytes(2 << 20)}
    engine.end()
    ended = await village.until(task, TaskState.ENDED)
    result = ended.slots[0].result
    assert result is not None
    assert result.root == NOTHING
    blob = miner.daemon.parts.store.get(result.blob)
    assert blob is not None
    left = decode_left(CUSTOMER_SEAL.open(blob))
    assert (left.outputs, [line.text for line in left.lines]) == (b"", ["too much"])
    assert any(heard(each.heard, "no_outputs") for each in village.miners)


@in_renting_village(2)
async def test_who_runs_no_containers_bids_for_none(village: Renting) -> None:
    village.engines = {}
    for miner in list(village.miners):
        await village.restart(miner)
    task = await village.rent()
    assert (await village.until(task, TaskState.ENDED)).bids == 0
    assert any("runs no containers" in str(each) for each in village.miners[0].heard.events)
