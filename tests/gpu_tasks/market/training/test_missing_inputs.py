"""Inputs that a provider says are not to be had: who pays, and who goes on."""

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.courts.opinions import Unanswerable
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import JudgedFor, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from looked_at import CALLED_FEE, FEE, Opinion, judges_say, says
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, refused
from task_chain import PRICE, Books, TaskChain, forfeit, net, with_offers

INPUT = b"i" * 32
STOOD_BY = 7 * OGPU // 50


def reported(*prices: int, constants: dict[str, int] | None = None, **order: object) -> tuple[TaskChain, Books]:
    """A task whose winner says that there is no input."""
    chain = TaskChain(size=12, constants=constants or {})
    books = Books(chain)
    chain.submit(**order)
    chain.auction(with_offers(chain.keys, *(prices or (6 * OGPU, 7 * OGPU, 8 * OGPU))))
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    assert chain.state() is TaskState.JUDGED
    return chain, books


def over(chain: TaskChain, opinion: Opinion) -> None:
    """Let the judges say this, until the task goes on."""
    while chain.state() is TaskState.JUDGED:
        chain.block(*judges_say(chain, lambda _keys: opinion))


def test_a_missing_input_costs_the_customer_bond_and_judges_and_ends_the_task() -> None:
    chain, books = reported()
    over(chain, Unanswerable())
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert books.change(chain.alice) == forfeit(7 * OGPU) // 2
    assert books.change(chain.bob) == net(STOOD_BY)
    assert books.change(CUSTOMER) == -forfeit(7 * OGPU) - 3 * CALLED_FEE - STOOD_BY


def test_judges_who_cost_more_than_the_escrow_leave_what_the_standby_is_due() -> None:
    """They took all of it, and the hook could not pay who stood by: the chain stood still."""
    chain, books = reported(constants={"TrainingMarket.judge_fee_ppm": 700_000})
    over(chain, Unanswerable())
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert books.change(chain.alice) == forfeit(7 * OGPU) // 2
    assert books.change(chain.bob) == net(STOOD_BY)
    escrow = money.escrow(chain.now().rules, PRICE)
    assert books.change(CUSTOMER) == -forfeit(7 * OGPU) - (escrow - PRICE // 50) - STOOD_BY


def test_a_good_input_costs_who_reported_it_a_miss_and_the_standby_goes_on() -> None:
    chain, books = reported()
    alice, bob = chain.keys[:2]
    over(chain, says(INPUT)(alice))
    task = chain.now()
    assert (task.state, task.slots[0].provider) == (TaskState.STARTING, bob.stash)
    assert task.judged_for is None, "nobody looks any more"
    assert books.change(alice) == -(PRICE // 4 + 3 * CALLED_FEE)
    assert books.change(CUSTOMER) == 0
    assert chain.is_idle(alice)
    chain.start(bob)
    assert chain.state() is TaskState.RUNNING


def test_a_case_about_an_input_is_of_what_the_task_says_and_who_gains_by_it_does_not_judge() -> None:
    chain, _ = reported()
    case, task = chain.chain.now()[Courts].cases[slot_case(chain.task, 0)], chain.now()
    assert case is not None
    assert case.terms.sealed_at == task.order.sealed_at < task.submitted_at
    assert case.terms.excluded == (chain.bob.stash,), "who would have the place"
    assert case.terms.pot_max == FIRST_JUDGES * FEE
    (event,) = chain.happened(ev.TaskJudged)
    assert event == ev.TaskJudged(chain.task, JudgedFor.INPUT)


def test_an_end_that_was_offered_is_gone_while_judges_look_for_the_input() -> None:
    chain = TaskChain(size=12)
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    chain.offer_end(1, 1)
    assert chain.now().close is not None
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    assert chain.now().close is None


def test_what_nobody_decides_costs_nobody_anything() -> None:
    chain, books = reported(6 * OGPU)
    over(chain, None)
    assert (chain.state(), chain.now().auction) == (TaskState.COMMITTING, 2)
    assert books.change(chain.alice) == 0
    assert books.change(CUSTOMER) == 0


def test_of_a_gang_only_who_reported_is_replaced() -> None:
    chain, books = reported(5 * OGPU, 6 * OGPU, 7 * OGPU, slots=2)
    over(chain, says(INPUT)(chain.alice))
    assert [slot.provider for slot in chain.now().slots] == [chain.keys[2].stash, chain.bob.stash]
    assert books.change(chain.bob) == 0


def test_only_who_has_the_slot_and_has_not_started_reports() -> None:
    chain = TaskChain()
    chain.submit(slots=2)
    chain.auction(with_offers(chain.keys, 5 * OGPU, 6 * OGPU, 7 * OGPU))
    report = TrainingMarket.report_input(task=chain.task, place=0)
    for who in (chain.bob, chain.keys[2], CUSTOMER, Keys("stranger")):
        for account in (who.stash, who.provider):
            refused(account, report, ev.NotSlotOwner)(chain.chain.now())
    chain.start(chain.alice)
    refused(chain.alice.provider, report, ev.DoneAlready)(chain.chain.now())
    chain.start(chain.bob, 1)
    refused(chain.alice.provider, report, ev.WrongTaskState)(chain.chain.now())
