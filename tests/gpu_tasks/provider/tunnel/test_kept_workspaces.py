"""A lease's workspace after its end, for the customer's chosen time: readable, without programs, then removed."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from entered_lease import SERVICE, Entered, entering
from gpu_tasks.client.tasks.tunnel import copy_out
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.programs import supervisor as house_module
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.tunnel.frames import RunProgram
from gpu_tasks.tunnel.tunnel import TunnelError
from renting_village import Renting

HOUR = 3_600


def kept_for(seconds: int, slot_ms: int = 1_000) -> int:
    return seconds * 1_000 // slot_ms


async def leave(entered: Entered) -> ContainerSupervisor:
    """Stop a lease and let some blocks pass. Return the folder of its provider's programs."""
    entered.village.ask(TrainingMarket.stop(task=entered.task))
    for _ in range(4):
        await entered.village.block()
    return entered.village.miner(entered.stash).daemon.duty(WorkDuty).selling.programs


async def test_what_is_kept_is_fetched_after_the_end_and_then_taken_away(tmp_path: Path) -> None:
    async with entering(tmp_path, keep_blocks=kept_for(600)) as entered:
        (container,) = entered.engine.running.values()
        programs = await leave(entered)
        assert entered.village.task(entered.task).outcome is TaskOutcome.TIME_STOPPED
        assert container.end.done(), "it runs no more"
        assert not entered.engine.removed
        async with entered.tunnel() as tunnel:
            assert await copy_out(tunnel, "workspace/model", tmp_path / "back")
            stream = await tunnel.open(RunProgram(("sh",), is_terminal=False, rows=0, columns=0))
            assert "has ended" in (await stream.end).problem
        program = programs._programs[entered.task, 1]
        assert program.kept_until is not None
        assert abs(program.kept_until - time.monotonic() - 600) < 60
        program.kept_until = time.monotonic() - 1
        for _ in range(2):
            await entered.village.block()
        assert entered.engine.removed
        with pytest.raises(TunnelError, match="runs there now"):
            async with entered.tunnel():
                pass


async def test_without_the_wish_nothing_is_kept(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        programs = await leave(entered)
        assert entered.engine.removed
        assert not programs.is_ready((entered.task, 1))


@pytest.mark.parametrize(("seconds", "bids"), [(HOUR, 2), (HOUR + 1, 0)])
async def test_who_does_not_keep_it_for_so_long_does_not_bid(tmp_path: Path, seconds: int, bids: int) -> None:
    async with Renting(tmp_path, 2) as village:
        task = await village.rent(replace(SERVICE, keep_blocks=kept_for(seconds)))
        assert (await village.until(task, TaskState.RUNNING, TaskState.ENDED)).bids == bids
        said = str(village.miners[0].heard.events)
        assert ("for 3600 s" in said) == (bids == 0)


async def test_workspaces_that_are_kept_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house_module, "KEPT_MAX", 1)
    async with entering(tmp_path, keep_blocks=kept_for(600)) as entered:
        village = entered.village
        await leave(entered)
        again = await village.rent(replace(SERVICE, keep_blocks=kept_for(60)))
        assert (await village.until(again, TaskState.RUNNING)).bids == 2, "the other providers'"
        assert "1 workspaces are" in str(village.miner(entered.stash).heard.events)
        other = await village.rent(SERVICE)
        running = await village.until(other, TaskState.RUNNING)
        assert running.slots[0].provider == entered.stash, "what asks for none is bid for"
