"""The daemons that cheat about tasks, each among honest ones on a chain in this process: real pallets and trainings."""

from pathlib import Path
from typing import Any

import pytest

from devnet.stage.cheating.__main__ import CHECKER_CHEATS, TASK_CHEATS
from devnet.stage.cheating.races import Attempts
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.claims.claim_events import CheckEnded
from gpu_tasks.market.claims.claims import CheckEnd
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.findings import CANNOT_FETCH, Verdict
from gpu_tasks.market.training.events import MilestoneCounted, MilestoneReported, ResultStated, SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from provider_chain import Miner
from task_village import TaskVillage, play_tasks, undisturbed_root

PRICES = ("0.001 oGPU/block", "0.002 oGPU/block")
ALWAYS = {"TrainingMarket.check_rate": 1_000_000}
"""Every claim is checked."""


async def cheating(village: TaskVillage, place: int, mode: str) -> Miner:
    """The provider at a place of the village, started again as a cheat."""
    honest = village.miners[place]
    village.cheats[honest.keys.name] = (TASK_CHEATS | CHECKER_CHEATS)[mode].change_daemon
    cheat = await village.restart(honest)
    village.miners.insert(place, village.miners.pop())
    return cheat


async def ended(village: TaskVillage) -> bytes:
    """Return a task that has ended."""
    task = await village.submit()
    await village.until(task, TaskState.ENDED, blocks=400)
    return task


@pytest.mark.parametrize("mode", ["copying-checker", "accusing-checker"])
def test_a_checker_that_guesses_is_outvoted(tmp_path: Path, mode: str) -> None:
    async def scene(village: TaskVillage) -> None:
        for place in range(1, 7):
            await cheating(village, place, mode)
        village.bid_for(PRICES[0])
        task = await ended(village)
        assert village.task(task).outcome is TaskOutcome.ON_TIME
        assert {event.end for event in village.node.chain.happened(CheckEnded)} == {CheckEnd.REFUTED}
        votes = [event.vote for event in village.node.chain.happened(DisputeEnded)]
        assert {vote.verdict for vote in votes} == {Verdict.RIGHT}

    play_tasks(tmp_path, 7, scene, numbers=ALWAYS)


def test_a_provider_that_withholds_its_checkpoints_has_no_milestone_counted_and_is_refuted(tmp_path: Path) -> None:
    async def scene(village: TaskVillage) -> None:
        cheat = await cheating(village, 0, "withheld-checkpoint")
        village.bid_for(*PRICES)
        task = await ended(village)
        assert village.task(task).outcome is TaskOutcome.LIED
        (stated,) = village.node.chain.happened(ResultStated)
        assert stated.result.root == undisturbed_root(), "it has computed all of it"
        assert village.node.chain.happened(MilestoneReported)
        assert not village.node.chain.happened(MilestoneCounted), "the standby could hold nothing"
        assert [event.vote for event in village.node.chain.happened(DisputeEnded)] == [CANNOT_FETCH]
        with pytest.raises(BlobError):
            await village.blobs.get(stated.result.blob, [f"http://127.0.0.1:{cheat.daemon.server.port}"])

    play_tasks(tmp_path, 7, scene, numbers=ALWAYS)


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
        await village.until(task, TaskState.CLAIMED, blocks=200)
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

    play_tasks(tmp_path, 5, scene, numbers=ALWAYS)
