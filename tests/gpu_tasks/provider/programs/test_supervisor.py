"""The programs of a daemon: the ready ones, the GPU of each, and the usage of each since the last question."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from error_codes import raises_code
from fake_engine import FakeEngine
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.run import RunningContainer
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy
from gpu_tasks.provider.execution.gpu import Hardware, Reading
from gpu_tasks.provider.programs import supervisor as house_module
from gpu_tasks.provider.programs.requests import AskedProgram, ProgramError, UnfitProgramError
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor, seconds_of
from priced_tasks import a_task
from renting_village import PROGRAM, REPOSITORY

CPU = Hardware("a processor", "CPU-1", DeviceClass.CPU, 0, None)
GPU = Hardware("a card", "GPU-1", DeviceClass.CONSUMER, 8_192, 0)
DEVICES = {b"c": CPU, b"g": GPU}
POLICY = ContainerPolicy(images=(REPOSITORY,), gpus=(GPU.uuid,))
TASKS = [bytes([number]) * 32 for number in range(3)]
TASK = a_task()
GIVEN = UnitInput(1, b"s" * 32, b"k" * 32, b"")


class PlayedMeter:
    """A meter that reads the same each time."""

    def begin(self) -> None: ...

    def end(self) -> Reading:
        return Reading(is_gpu=True, energy_mj=900, memory_peak_bytes=7 << 20)


async def slot_ms() -> int:
    return 2_000


PARTS: Any = SimpleNamespace(chain=SimpleNamespace(slot_ms=slot_ms))


def ask_for(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    async def asked(*_: object) -> AskedProgram:
        return AskedProgram(replace(PROGRAM, **changed), GIVEN)

    monkeypatch.setattr(house_module, "open_program", asked)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Set the time. Every program runs without a GPU, and every meter is scripted."""
    now = [100.0]
    ask_for(monkeypatch)
    monkeypatch.setattr(house_module, "meter_for", lambda _: PlayedMeter())
    monkeypatch.setattr(house_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def supervised() -> tuple[ContainerSupervisor, FakeEngine]:
    engine = FakeEngine()
    return ContainerSupervisor(engine, POLICY, lambda: DEVICES), engine


@pytest.mark.usefixtures("at")
async def test_so_many_are_ready_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house_module, "READY_MAX", 2)
    supervisor, _ = supervised()
    for task in TASKS[:2] * 2:
        await supervisor.prepare(PARTS, (task, 1), TASK, b"c")
    with raises_code(ProgramError, "too_many_programs"):
        await supervisor.prepare(PARTS, (TASKS[2], 1), TASK, b"c")
    await supervisor.remove((TASKS[0], 1))
    await supervisor.prepare(PARTS, (TASKS[2], 1), TASK, b"c")


@pytest.mark.usefixtures("at")
async def test_each_program_has_its_own_name_and_the_time_of_its_blocks() -> None:
    supervisor, engine = supervised()
    for auction in (1, 2):
        await supervisor.prepare(PARTS, (TASKS[0], auction), TASK, b"c")
        await supervisor.begin((TASKS[0], auction))
    assert len({spec.container_id for spec in engine.started}) == 2
    assert {spec.limits.wall_seconds for spec in engine.started} == {seconds_of(TASK.terms.blocks_max, 2_000)}


@pytest.mark.usefixtures("at")
async def test_a_device_that_is_not_here_runs_nothing() -> None:
    supervisor, _ = supervised()
    with raises_code(UnfitProgramError, "device_not_here"):
        await supervisor.prepare(PARTS, (TASKS[0], 1), TASK, b"?")
    assert not supervisor.is_ready((TASKS[0], 1))


async def test_what_a_program_used_is_counted_from_reading_to_reading(at: list[float]) -> None:
    supervisor, _ = supervised()
    key = (TASKS[0], 1)
    await supervisor.prepare(PARTS, key, TASK, b"c")
    at[0] += 50  # it is ready, and does not run
    await supervisor.begin(key)
    for seconds in (5, 3):
        at[0] += seconds
        used = await supervisor.usage(key)
        assert (used.wall_ms, used.cpu_ms, used.memory_peak_bytes) == (1_000 * seconds, 100, 5 << 20)
        assert (used.gpu_ms, used.energy_mj) == (0, 0), "a program without a GPU has used none"


async def test_a_program_with_a_gpu_has_used_that(at: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(monkeypatch, gpus=1)
    supervisor, engine = supervised()
    key = (TASKS[0], 1)
    await supervisor.prepare(PARTS, key, TASK, b"g")
    await supervisor.begin(key)
    assert [spec.gpus for spec in engine.started] == [(GPU.uuid,)]
    at[0] += 4
    used = await supervisor.usage(key)
    assert (used.gpu_ms, used.energy_mj, used.memory_peak_bytes) == (4_000, 900, 7 << 20)


@pytest.mark.usefixtures("at")
async def test_secrets_are_given_once_and_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(monkeypatch, secrets=("TOKEN",))
    supervisor, engine = supervised()
    key = (TASKS[0], 1)
    await supervisor.prepare(PARTS, key, TASK, b"c")
    assert (supervisor.lacks_secrets(key), supervisor.waiting(TASKS[0])) == (True, key)
    for given in ({}, {"TOKEN": b"x", "MORE": b"y"}):
        with raises_code(ProgramError, "secrets_differ"):
            supervisor.give_secrets(key, given)
    supervisor.give_secrets(key, {"TOKEN": b"x"})
    assert (supervisor.lacks_secrets(key), supervisor.waiting(TASKS[0])) == (False, None)
    with raises_code(ProgramError, "no_secrets_expected"):
        supervisor.give_secrets(key, {"TOKEN": b"other"})
    await supervisor.begin(key)
    assert [dict(spec.secrets) for spec in engine.started] == [{"TOKEN": b"x"}]


@pytest.mark.usefixtures("at")
async def test_what_the_engine_does_not_remove_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor, engine = supervised()
    key = (TASKS[0], 1)
    await supervisor.prepare(PARTS, key, TASK, b"c")
    await supervisor.begin(key)
    remove = engine.remove

    async def fails(_: RunningContainer) -> None:
        raise ContainerError("remove", "the engine is busy", "wait")

    monkeypatch.setattr(engine, "remove", fails)
    with pytest.raises(ProgramError, match="busy"):
        await supervisor.remove(key)
    assert supervisor.is_ready(key)
    monkeypatch.setattr(engine, "remove", remove)
    await supervisor.remove(key)
    assert not supervisor.is_ready(key)
