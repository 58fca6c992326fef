"""Disputes about the agreed result of replicas: a newly drawn jury, and the effects of its decision."""

import pytest

from gpu_tasks.client.commands.dispute import bonds_of
from gpu_tasks.client.tasks.payments import jury_pay
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.replica_events import ReplicasCompared
from gpu_tasks.market.training.tasks import TASK_ESCROW, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from replica_chain import (
    COLLATERAL,
    LOST,
    PAY,
    begin,
    bind,
    bind_call,
    compute,
    disputed,
    offer,
    open_all,
    open_call,
    ordered,
    outcomes,
    replicated,
    spent,
    workers,
)
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, signed
from task_chain import PRICE, RIGHT, WRONG, a_result, net

ON_TIME, OUTVOTED, LIED = TaskOutcome.ON_TIME, TaskOutcome.OUTVOTED, TaskOutcome.LIED


@pytest.mark.parametrize(
    ("roots", "words", "ends", "paid", "spends"),
    [
        ((WRONG, RIGHT, WRONG), (RIGHT, RIGHT, RIGHT, RIGHT, WRONG), [LIED, ON_TIME, LIED, *[ON_TIME] * 4, OUTVOTED],
         [-COLLATERAL, net(PAY), -COLLATERAL, *[net(PAY)] * 4, -LOST], 5 * PAY - 2 * PRICE - LOST),
        ((WRONG, WRONG, RIGHT), (RIGHT, RIGHT, RIGHT, WRONG, WRONG),
         [OUTVOTED, OUTVOTED, ON_TIME, *[ON_TIME] * 3, OUTVOTED, OUTVOTED],
         [-LOST, -LOST, net(PAY), *[net(PAY)] * 3, -LOST, -LOST], 4 * PAY - 4 * LOST),
        ((RIGHT, RIGHT, RIGHT), (RIGHT,) * 5, [ON_TIME] * 8, [net(PAY)] * 8, 8 * PAY),
        ((RIGHT, RIGHT, WRONG), (RIGHT, RIGHT, WRONG, WRONG, b"z" * 32), None, [0] * 8, 0),
    ],
    ids=["convicts two", "three against two", "a right result", "no agreement"],
)  # fmt: skip
def test_the_word_of_a_jury_moves_this(
    roots: tuple[bytes, ...], words: tuple[bytes, ...], ends: list[TaskOutcome] | None, paid: list[int], spends: int
) -> None:
    """Four of five convict, three outvote, and a dispute of a right result pays the jury."""
    chain, books, whose, jury = disputed(*roots)
    compute(chain, jury, *words)
    assert chain.state() is TaskState.ENDED
    if ends is None:
        assert chain.now().outcome is TaskOutcome.UNDECIDED
    else:
        compared = ReplicasCompared(chain.task, 3, 5, words.count(RIGHT), RIGHT)
        assert chain.happened(ReplicasCompared)[-1] == compared
        assert (outcomes(chain), chain.now().outcome) == (ends, ON_TIME)
    assert books.changes(*whose, *jury) == paid
    assert spent(books) == -spends


def test_a_dispute_locks_what_the_jury_is_paid_and_the_client_says_so() -> None:
    chain, _, whose = replicated(size=14)
    compute(chain, whose, RIGHT, RIGHT, WRONG)
    before = chain.free(CUSTOMER.stash)
    chain.dispute()
    task = chain.now()
    assert before - chain.free(CUSTOMER.stash) == JURORS * PAY == jury_pay(task) == sum(bonds_of(task))
    books = chain.chain.now()[Balances].held_cases
    assert [books[CUSTOMER.stash, Hold(TASK_ESCROW, slot_case(chain.task, n))] for n in range(3, 8)] == [PAY] * JURORS


def test_a_jury_that_nobody_joins_is_not_heard() -> None:
    chain, books, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    chain.dispute()
    chain.until(TaskState.ENDED)
    assert books.changes(*whose) == [net(PAY), -LOST, net(PAY)]
    assert spent(books) == -2 * PAY + LOST


def test_jurors_who_fall_silent_are_out_and_a_jury_that_is_too_small_is_not_heard() -> None:
    chain, books, whose, jury = disputed(RIGHT, WRONG, RIGHT)
    bind(chain, jury[0], 3)
    bind(chain, jury[1], 4)
    chain.until(TaskState.ENDED)
    assert books.changes(*whose) == [net(PAY), -LOST, net(PAY)]
    assert books.changes(*jury) == [0, 0, -LOST, -LOST, -LOST]


def test_the_newly_drawn_are_others_and_the_first_have_nothing_to_do() -> None:
    chain, _, whose, jury = disputed(RIGHT, RIGHT, WRONG)
    assert not set(whose) & set(jury)
    chain.do(whose[0], TrainingMarket.finish(task=chain.task, place=0, result=a_result(whose[0])), ev.DoneAlready)
    chain.do(whose[0], TrainingMarket.start(task=chain.task, place=0), ev.WrongTaskState)
    chain.stop(ev.WrongTaskState)
    chain.cancel(ev.WrongTaskState)
    chain.dispute(error=ev.WrongTaskState)
    chain.do(jury[0], TrainingMarket.report_input(task=chain.task, place=3), ev.WrongTaskState)


def test_who_did_not_start_before_does_not_start_beside_a_jury() -> None:
    chain, _ = ordered(size=14)
    offer(chain, *chain.keys[1:7])
    chain.until(TaskState.STARTING)
    whose = workers(chain)
    starts = [signed(whose[place].provider, TrainingMarket.start(task=chain.task, place=place)) for place in (0, 1)]
    chain.block(*starts)
    chain.until(TaskState.RUNNING)
    for place, keys in enumerate(whose[:2]):
        bind(chain, keys, place)
    open_all(chain, *enumerate(whose[:2]))
    chain.dispute()
    offer(chain, *(keys for keys in chain.keys if keys not in whose))
    chain.until(TaskState.STARTING)
    chain.do(whose[2], TrainingMarket.start(task=chain.task, place=2), ev.DoneAlready)
    assert chain.now().slots[2].outcome is TaskOutcome.NOT_STARTED


def test_a_second_dispute_is_not_there() -> None:
    chain, _, whose = replicated()
    compute(chain, whose, RIGHT, RIGHT, RIGHT)
    chain.dispute(3, ev.NoSuchSegment)
    chain.do(whose[0], TrainingMarket.dispute(task=chain.task, segment=None), ev.NotTaskCustomer)
    chain.dispute()
    chain.accept(ev.WrongTaskState)
    chain.cancel(ev.WrongTaskState)


def test_who_did_not_open_in_time_opens_nothing_before_a_jury() -> None:
    chain, books, whose = replicated(size=14)
    for call, places in ((bind_call, (0, 1, 2)), (open_call, (0, 1))):
        chain.block(*(signed(whose[place].provider, call(chain, whose[place], place)) for place in places))
    chain.until(TaskState.SUBMITTED)
    assert outcomes(chain) == [None, None, TaskOutcome.DIED]
    chain.dispute()
    offer(chain, *(keys for keys in chain.keys if keys not in whose))
    chain.until(TaskState.STARTING)
    for place, keys in enumerate(begin(chain), 3):
        bind(chain, keys, place)
    assert chain.state() is TaskState.OPENING
    chain.do(whose[2], open_call(chain, whose[2], 2), ev.WrongTaskState)
    chain.until(TaskState.ENDED)
    assert books.change(whose[2]) == -LOST
