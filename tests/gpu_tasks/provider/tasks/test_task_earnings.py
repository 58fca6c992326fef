"""A task's earnings, computed from its record: exactly the chain's payments, for every end."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_tasks.market.claims.findings import CANNOT_FETCH
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.tasks.working import earned
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import OGPU
from task_chain import Books, TaskChain, an_offer, awarded, finish_and_pass, time_order, work


def _paid(chain: TaskChain) -> None:
    work(chain, chain.alice, milestones=3)
    finish_and_pass(chain, chain.alice)


def _stopped(chain: TaskChain) -> None:
    chain.start(chain.alice)
    chain.blocks(9)
    chain.stop()


def _stopped_behind_a_milestone(chain: TaskChain) -> None:
    work(chain, chain.alice, milestones=2)
    chain.stop()


def _stopped_with_a_milestone_that_nobody_holds(chain: TaskChain) -> None:
    work(chain, chain.alice, milestones=2, counted=1)
    chain.stop()


def _cancelled(chain: TaskChain) -> None:
    chain.cancel()


def _without_input(chain: TaskChain) -> None:
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    while chain.state() is TaskState.DISPUTED:
        chain.block(*voter_steps(chain.chain, lambda _: CANNOT_FETCH))


ENDS: dict[TaskOutcome, list[Callable[[TaskChain], None]]] = {
    TaskOutcome.ON_TIME: [_paid],
    TaskOutcome.CANCELLED_RUNNING: [
        _stopped,
        _stopped_behind_a_milestone,
        _stopped_with_a_milestone_that_nobody_holds,
    ],
    TaskOutcome.CANCELLED_BEFORE_START: [_cancelled],
    TaskOutcome.INPUT_MISSING: [_without_input],
}


@pytest.mark.parametrize(("outcome", "play"), [(outcome, play) for outcome, plays in ENDS.items() for play in plays])
def test_it_is_what_the_chain_has_paid(outcome: TaskOutcome, play: Callable[[TaskChain], None]) -> None:
    chain, books = awarded()
    play(chain)
    chain.blocks(3)
    task, alice = chain.now(), chain.alice
    assert task.outcome is outcome
    assert earned(task, alice.stash, alice.device) == books.change(alice) > 0


def test_of_a_gang_each_has_what_its_own_slot_ended_as() -> None:
    chain = TaskChain()
    books = Books(chain)
    chain.submit(slots=2)
    alice, bob = chain.keys[:2]
    chain.auction({alice: an_offer(5 * OGPU, blocks=2), bob: an_offer(5 * OGPU, blocks=40)})
    chain.start_all()
    chain.blocks(4)
    chain.finish_all()
    chain.until(TaskState.ENDED)
    task = chain.now()
    assert [slot.outcome for slot in task.slots] == [TaskOutcome.LATE, TaskOutcome.ON_TIME]
    lost = 5 * task.terms.time_value * (task.slots[0].finished_at - task.started_at - 2)
    assert earned(task, alice.stash, alice.device) - lost == books.change(alice)
    for first in (TaskOutcome.LATE, TaskOutcome.LIED):  # the task's own outcome
        assert earned(replace(task, outcome=first), bob.stash, bob.device) == books.change(bob)


def test_who_had_no_part_in_a_task_and_what_has_no_record_brought_nothing() -> None:
    chain, _ = awarded()
    bob = chain.bob
    _paid(chain)
    assert earned(chain.now(), bob.stash, bob.device) == 0
    assert earned(None, bob.stash, bob.device) == 0


def test_what_has_not_ended_has_brought_nothing_yet() -> None:
    chain, _ = awarded()
    alice = chain.alice
    work(chain, alice, milestones=3)
    chain.finish(alice)
    assert earned(chain.now(), alice.stash, alice.device) == 0


@pytest.mark.parametrize("intervals", [0, 2])
@pytest.mark.parametrize("ends", ["itself", "its customer"])
def test_what_bought_time_brought_is_what_the_chain_has_paid(intervals: int, ends: str) -> None:
    chain = TaskChain()
    books = Books(chain)
    alice = chain.alice
    chain.submit(**time_order())
    chain.auction({alice: an_offer(OGPU + 7, 12)})
    chain.start(alice)
    for number in range(1, intervals + 1):
        while chain.height + 1 < chain.now().started_at + 3 * number:
            chain.block()
        chain.report(alice, number)
    chain.block()
    if ends == "itself":
        chain.finish(alice)
    else:
        chain.stop()
    assert earned(chain.now(), alice.stash, alice.device) == books.change(alice)
