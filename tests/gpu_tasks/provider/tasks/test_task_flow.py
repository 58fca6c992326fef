"""Whole tasks with several daemons: bids, work, checkpoints, a winner that dies. Real pallets and trainings."""

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest

from gpu_tasks.market.attestations.attestations import TaskAttested
from gpu_tasks.market.training.events import (
    BidRevealed,
    MilestoneCounted,
    MilestoneReported,
    ResultStated,
    SlotSettled,
    TaskAwarded,
)
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.task_statement import SignedTaskAttestation
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.earnings import payments
from gpu_tasks.provider.tasks.policy_file import set_draining
from nightly_but import nightly_but
from provider_chain import Miner
from task_chain import net
from task_village import ASKED, CPU_MS, MILESTONES, TaskVillage, in_task_village, stop, undisturbed_root

PRICES = ("0.001 oGPU/block", "0.002 oGPU/block", "0.003 oGPU/block")


WRITES = 10
"""The journal's commits in the life of a task with three milestones."""


async def finished(village: TaskVillage, task: bytes) -> None:
    """The claim passes, and the task ends."""
    await village.until(task, TaskState.ENDED, blocks=400)
    await village.blocks(4)


@in_task_village(4)
async def test_a_task_is_bid_for_run_and_paid(village: TaskVillage) -> None:
    task = await village.bought(*PRICES)
    await finished(village, task)
    ended, chain = village.task(task), village.node.chain
    (slot,) = ended.slots
    assert ended.outcome is TaskOutcome.ON_TIME
    assert slot.provider == village.miners[0].keys.stash, "the cheapest"
    assert slot.result is not None
    assert slot.result.root == undisturbed_root()
    assert len(chain.happened(BidRevealed)) == 3
    assert [each.number for each in chain.happened(MilestoneCounted)] == list(range(1, MILESTONES))
    entry = village.miners[0].daemon.parts.journal.tasks[task, 1]
    assert entry.end is not None
    assert entry.paid == net(sum(each.earned for each in chain.happened(SlotSettled)))
    assert not list((village.miners[0].daemon.settings.base_path / "tasks").iterdir()), "its states are gone"
    assert village.node.failed == []


@in_task_village(2)
async def test_who_has_no_policy_bids_for_nothing(village: TaskVillage) -> None:
    task = await village.submit()
    assert (await village.until(task, TaskState.ENDED)).bids == 0


@pytest.mark.parametrize("stop_after", nightly_but(3, range(0, 24, 2)))
@in_task_village(4)
async def test_a_provider_that_restarts_at_any_block_does_the_same(village: TaskVillage, stop_after: int) -> None:
    task = await village.bought(*PRICES)
    await village.blocks(stop_after)
    await village.restart(village.miners[0])
    await finished(village, task)
    (slot,) = village.task(task).slots
    assert slot.outcome is TaskOutcome.ON_TIME
    assert slot.result is not None
    assert slot.result.root == undisturbed_root()
    assert len(village.happened(BidRevealed)) == 3


class KilledError(Exception):
    """The process has ended."""


class Deadly:
    """Ends a provider at its journal's commit number `at`, before or after that reaches the disk."""

    def __init__(self, miner: Miner, at: int, *, is_written: bool) -> None:
        self.count, self.is_dead = 0, False
        database = miner.daemon.parts.journal.database
        transaction = database.transaction

        @contextlib.contextmanager
        def dying() -> Iterator[sqlite3.Connection]:
            if self.is_dead:
                raise KilledError
            is_outer = not database._connection.in_transaction
            with transaction() as connection:
                changes = connection.total_changes
                yield connection
                if is_outer and connection.total_changes > changes:
                    self.count += 1
                    self.is_dead = self.count == at
                if self.is_dead and not is_written:
                    raise KilledError
            if self.is_dead:
                raise KilledError

        database.transaction = dying  # type: ignore[method-assign]


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", nightly_but(3, range(1, WRITES + 2)))
@in_task_village(4)
async def test_a_provider_killed_at_any_write_repeats_or_resumes_and_never_contradicts(
    village: TaskVillage, at: int, is_written: bool
) -> None:
    village.bid_for(*PRICES)
    first = village.miners[0]
    deadly = Deadly(first, at, is_written=is_written)
    task = await village.submit()
    for _ in range(200):
        village.node.block()
        for miner in list(village.miners):
            with contextlib.suppress(KilledError):
                await miner.step()
        if deadly.is_dead and first in village.miners:
            await village.restart(first)
        is_over = village.task(task).state is TaskState.ENDED
        if is_over and not list(village.miner(first.keys.stash).daemon.parts.journal.open_tasks()):
            break
    winner = village.miner(first.keys.stash)
    (slot,) = village.task(task).slots
    assert slot.provider == first.keys.stash
    assert slot.outcome is TaskOutcome.ON_TIME
    assert slot.result is not None
    assert slot.result.root == undisturbed_root()
    assert deadly.is_dead is (at <= WRITES), "every write of such a task is died at"
    assert winner.daemon.parts.journal.tasks[task, 1].paid > 0
    assert len(payments(winner.daemon.settings.base_path)) == 1
    stated = village.happened(MilestoneReported)
    assert [each.milestone.number for each in stated] == [1, 2]


@in_task_village(4)
async def test_an_attestation_states_what_its_milestone_took_and_not_what_measuring_for_the_bid_did(
    village: TaskVillage,
) -> None:
    await village.bought(*PRICES, until=TaskState.CLAIMED)
    usages = [each.statement.usage for each in village.node.attached if isinstance(each, SignedTaskAttestation)]
    steps = ASKED.steps // MILESTONES
    assert [each.work_units for each in usages] == [steps] * MILESTONES
    assert [each.cpu_ms for each in usages] == [CPU_MS * steps] * MILESTONES
    assert {each.gpu_ms for each in usages} == {0}, "there is none here"


@in_task_village(4)
async def test_what_a_milestone_took_is_known_after_a_restart(village: TaskVillage) -> None:
    task = await village.bought(*PRICES)
    winner = village.miners[0].keys.stash
    await village.until(task, TaskState.RUNNING)
    while not village.miner(winner).daemon.parts.journal.tasks[task, 1].milestones:
        await village.block()
    before = dict(village.miner(winner).daemon.parts.journal.tasks[task, 1].usages)
    await village.restart(village.miner(winner))
    assert village.miner(winner).daemon.parts.journal.tasks[task, 1].usages == before
    assert before[1].work_units == ASKED.steps // MILESTONES


@pytest.mark.parametrize("is_omitting", [False, True])
@in_task_village(4)
async def test_milestones_and_the_result_are_attested_or_stated_by_calls(
    village: TaskVillage, is_omitting: bool
) -> None:
    village.node.is_omitting = is_omitting
    task = await village.bought(*PRICES)
    await village.until(task, TaskState.CLAIMED, blocks=200)
    chain = village.node.chain
    assert len(chain.happened(TaskAttested)) == (0 if is_omitting else MILESTONES)
    assert len(chain.happened(MilestoneReported)) == MILESTONES - 1
    assert len(chain.happened(ResultStated)) == 1
    assert village.node.failed == []


@pytest.mark.parametrize("milestones", [0, 1, 2])
@in_task_village(4)
async def test_the_standby_finishes_to_the_same_root(village: TaskVillage, milestones: int) -> None:
    task = await village.bought(*PRICES, until=TaskState.RUNNING)
    while village.task(task).done < milestones:
        await village.block()
    winner = village.slot_miner(task)
    await stop(village, winner)
    await finished(village, task)
    (slot,) = village.task(task).slots
    assert slot.provider != winner.keys.stash
    assert slot.result is not None
    assert slot.result.root == undisturbed_root()
    assert len(village.happened(TaskAwarded)) == (2 if milestones == 0 else 1)


@in_task_village(4)
async def test_a_standby_that_drains_takes_nothing_over_that_it_has_prepared(village: TaskVillage) -> None:
    task = await village.bought(*PRICES[:2], until=TaskState.RUNNING)
    while not village.task(task).done:
        await village.block()
    await stop(village, village.slot_miner(task))
    found = await village.until(task, TaskState.ASKING, blocks=200)
    assert found.standby is not None
    set_draining(village.miner(found.standby.provider).daemon.settings.base_path, drains=True)
    again = await village.until(task, TaskState.COMMITTING, blocks=40)
    assert (again.auction, again.slots) == (2, ())
    assert village.node.failed == [], "its device is paused: what it asked for would cost a fee for nothing"


@in_task_village(4)
async def test_without_a_standby_the_rest_is_auctioned_and_goes_on_from_the_checkpoint(village: TaskVillage) -> None:
    task = await village.bought(PRICES[0], until=TaskState.RUNNING)
    winner = village.slot_miner(task)
    while village.task(task).slots[0].reported < 1:
        await village.block()
    stated = village.task(task).slots[0].milestone
    assert stated is not None
    village.ask(TrainingMarket.confirm_checkpoint(task=task, number=stated.number, root=stated.root))
    await stop(village, winner)
    village.bid_for(PRICES[1])
    await village.until(task, TaskState.COMMITTING, blocks=200)
    await finished(village, task)
    ended = village.task(task)
    assert ended.auction == 2
    assert ended.behind == stated.number
    assert ended.slots[0].result is not None
    assert ended.slots[0].result.root == undisturbed_root()


def noted(miner: Miner, service: str) -> int:
    """Return a provider's recorded earnings from a service."""
    found = payments(miner.daemon.settings.base_path)
    return sum(payment.grains for payment in found if payment.service == service)


@in_task_village(7)
async def test_who_stands_by_notes_its_share(village: TaskVillage) -> None:
    task = await village.bought(*PRICES[:2], until=TaskState.CLAIMED)
    winner, standby = village.miners[:2]
    price = village.task(task).slots[0].price
    assert noted(standby, "standing by") == net(price // 50) > 0, "until the first milestone"
    assert noted(winner, "standing by") == 0


@pytest.mark.parametrize("is_back", [True, False])
@in_task_village(5)
async def test_a_runner_up_that_takes_over_is_paid_for_standing_by_when_it_begins(
    village: TaskVillage, is_back: bool
) -> None:
    task = await village.bought(*PRICES[:2], until=TaskState.STARTING)
    winner, standby = village.miners[:2]
    await stop(village, winner)
    village.task(task)
    while village.task(task).slots[0].provider != standby.keys.stash:
        village.node.block()
        if is_back:
            await standby.step()
    price = village.task(task).slots[0].price
    if is_back:
        await village.until(task, TaskState.CLAIMED)
        assert noted(standby, "standing by") == net(price // 50) > 0
        return
    await standby.step()
    village.node.calls.clear()
    while village.task(task).slots:
        village.node.block()
    await standby.step()
    assert noted(standby, "standing by") == 0, "it was asked while it was bound, and did not start"
