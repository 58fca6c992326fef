"""Results of tasks before judges that compute them: right ones, lies, and results that the customer cannot open."""

from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.tasks import checkpoint_blobs, task_runs
from task_village import TaskVillage, in_task_village, play_tasks, stop

PRICES = ("0.001 oGPU/block", "0.002 oGPU/block")
NO_AUDIT = {"TrainingMarket.trace_audit_ppm": 5_000}


@in_task_village(6)
async def test_a_false_dispute_is_judged_by_segments(village: TaskVillage) -> None:
    task = await village.bought(PRICES[0], until=TaskState.SUBMITTED)
    village.ask(TrainingMarket.dispute(task=task, segment=None))
    await village.until(task, TaskState.ENDED)
    assert village.task(task).outcome is TaskOutcome.DISPUTED_FALSELY
    judges = [miner for miner in village.miners if "judged" in miner.heard.names()]
    assert len(judges) >= 2
    assert all(village.hands[judge.keys.stash].training.steps <= 8 for judge in judges), "segments, not the whole"


@pytest.mark.parametrize("is_elsewhere", [False, True])
@in_task_village(6, numbers=NO_AUDIT)
async def test_who_takes_over_and_begins_elsewhere_is_found_by_the_checkpoint(
    village: TaskVillage, monkeypatch: pytest.MonkeyPatch, *, is_elsewhere: bool
) -> None:
    """Every segment that its judges compute follows from the state before."""
    honestly = task_runs._first_state

    async def elsewhere(parts: Parts[Any], task: Task, *rest: Any) -> tuple[bytes, list[bytes]]:
        state, earlier = await honestly(parts, task, *rest)
        if task.behind and is_elsewhere:
            state = state[:36] + bytes(len(state) - 36)  # no weight, and no momentum
        return state, earlier

    monkeypatch.setattr(task_runs, "_first_state", elsewhere)
    task = await village.bought(PRICES[0], until=TaskState.RUNNING)
    while village.task(task).slots[0].reported < 1:
        await village.block()
    stated = village.task(task).slots[0].milestone
    assert stated is not None
    village.ask(TrainingMarket.confirm_checkpoint(task=task, number=1, root=stated.root))
    await stop(village, village.slot_miner(task))
    village.bid_for(PRICES[1])
    await village.until(task, TaskState.COMMITTING, blocks=200)
    await village.until(task, TaskState.SUBMITTED, blocks=200)
    village.ask(TrainingMarket.dispute(task=task, segment=None))
    await village.until(task, TaskState.ENDED, blocks=300)
    outcome = TaskOutcome.LIED if is_elsewhere else TaskOutcome.DISPUTED_FALSELY
    assert village.task(task).outcome is outcome


@pytest.mark.parametrize(("count", "has_court"), [(6, False), (10, True)])
def test_a_liar_is_found_by_its_segments(tmp_path: Path, count: int, has_court: bool) -> None:
    async def scene(village: TaskVillage) -> None:
        village.bid_for(PRICES[0])
        task = await village.submit()
        liar = village.miners[0]
        village.hands[liar.keys.stash].training.is_lying = True
        await village.until(task, TaskState.SUBMITTED)
        assert village.slot_miner(task) is liar
        village.ask(TrainingMarket.dispute(task=task, segment=None))
        await village.until(task, TaskState.ENDED, blocks=300)
        assert village.task(task).outcome is TaskOutcome.LIED
        assert ("appealed" in liar.heard.names()) is has_court, "it believes what it computed"

    play_tasks(tmp_path, count, scene)


@pytest.mark.parametrize("is_kept_from_customer", [False, True])
@in_task_village(6, numbers=NO_AUDIT)
async def test_a_result_that_is_kept_from_its_customer_is_none(
    village: TaskVillage, monkeypatch: pytest.MonkeyPatch, *, is_kept_from_customer: bool
) -> None:
    """Every checked state is right, and the customer has nothing."""
    honestly = checkpoint_blobs._reader_keys

    async def others(parts: Any, task: Task, reply_key: bytes) -> list[bytes]:
        readers = await honestly(parts, task, reply_key)
        return [each for each in readers if each != reply_key or not is_kept_from_customer]

    monkeypatch.setattr(checkpoint_blobs, "_reader_keys", others)
    task = await village.bought(PRICES[0], until=TaskState.SUBMITTED)
    village.ask(TrainingMarket.dispute(task=task, segment=None))
    await village.until(task, TaskState.ENDED, blocks=300)
    outcome = TaskOutcome.LIED if is_kept_from_customer else TaskOutcome.DISPUTED_FALSELY
    assert village.task(task).outcome is outcome
