"""The daemons that cheat about tasks, each among honest ones on a chain in this process: real pallets and trainings."""

from pathlib import Path
from typing import Any

import pytest

from devnet.stage.cheating.__main__ import TASK_CHEATS
from devnet.stage.cheating.races import Attempts
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.courts.events import OpinionOpened
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.training.events import MilestoneCounted, MilestoneReported, ResultStated, SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from provider_chain import Miner
from task_village import TaskVillage, play_tasks, undisturbed_root

PRICES = ("0.001 oGPU/block", "0.002 oGPU/block")
NO_AUDIT = {"TrainingMarket.trace_audit_ppm": 5_000}


async def cheating(village: TaskVillage, place: int, mode: str) -> Miner:
    """The provider at a place of the village, started again as a cheat."""
    honest = village.miners[place]
    village.cheats[honest.keys.name] = TASK_CHEATS[mode].change_daemon
    cheat = await village.restart(honest)
    village.miners.insert(place, village.miners.pop())
    return cheat


async def disputed(village: TaskVillage) -> bytes:
    """Return a task whose customer disputes any result."""
    task = await village.submit()
    await village.until(task, TaskState.SUBMITTED)
    village.ask(TrainingMarket.dispute(task=task, segment=None))
    await village.until(task, TaskState.ENDED, blocks=300)
    return task


def test_a_lazy_judge_computes_nothing_and_is_outvoted(tmp_path: Path) -> None:
    async def scene(village: TaskVillage) -> None:
        lazy = await cheating(village, 3, "lazy-judge")
        village.bid_for(PRICES[0])
        village.hands[village.miners[0].keys.stash].training.is_lying = True
        task = await disputed(village)
        assert village.task(task).outcome is TaskOutcome.LIED
        (stated,) = {event.result.root for event in village.node.chain.happened(ResultStated)}
        said = {each.judge: each.statement.opinion for each in village.node.chain.happened(OpinionOpened)}
        assert len(said) == 5, "all sit who are no party"
        assert [judge for judge, opinion in said.items() if opinion == Answered(stated)] == [lazy.keys.stash]
        assert village.hands[lazy.keys.stash].training.steps == 0

    play_tasks(tmp_path, 6, scene, numbers=NO_AUDIT)


def test_who_withholds_its_checkpoints_has_no_milestone_counted_and_is_refuted(tmp_path: Path) -> None:
    async def scene(village: TaskVillage) -> None:
        cheat = await cheating(village, 0, "withheld-checkpoint")
        village.bid_for(*PRICES)
        task = await disputed(village)
        assert village.task(task).outcome is TaskOutcome.LIED
        (stated,) = village.node.chain.happened(ResultStated)
        assert stated.result.root == undisturbed_root(), "it has computed all of it"
        assert village.node.chain.happened(MilestoneReported)
        assert not village.node.chain.happened(MilestoneCounted), "the standby could hold nothing"
        with pytest.raises(BlobError):
            await village.blobs.get(stated.result.blob, [f"http://127.0.0.1:{cheat.daemon.server.port}"])

    play_tasks(tmp_path, 7, scene, numbers=NO_AUDIT)


def test_who_replays_its_milestone_sends_it_again_and_under_the_next_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def noted(_: Attempts, __: bytes, what: Any) -> None:
        sent.append(what)

    monkeypatch.setattr(Attempts, "call", noted)
    monkeypatch.setattr(Attempts, "state", noted)

    async def scene(village: TaskVillage) -> None:
        cheat = await cheating(village, 0, "replayed-milestone")
        village.bid_for(*PRICES)
        task = await village.submit()
        await village.until(task, TaskState.SUBMITTED, blocks=200)
        reported = [event.milestone for event in village.node.chain.happened(MilestoneReported)]
        first, second = reported[:2]
        assert (first.number, second.number) == (1, 2)
        assert (first.root, first.blob) == (second.root, second.blob)
        assert [sent[0].named_arguments["milestone"], sent[1].statement.stated.milestone] == [first, first]
        assert next(event.number for event in village.node.chain.happened(MilestoneCounted)) == 1
        (settled,) = village.node.chain.happened(SlotSettled)
        assert (settled.provider, settled.outcome) == (cheat.keys.stash, TaskOutcome.DIED)
        result = village.task(task).slots[0].result
        assert result is not None
        assert result.root == undisturbed_root(), "another one goes on where it was honest"

    play_tasks(tmp_path, 5, scene, numbers=NO_AUDIT)
