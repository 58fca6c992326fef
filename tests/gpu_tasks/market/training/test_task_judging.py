"""Audited, disputed and shown results: all payments, and none before its time."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.courts.benches import AUDIT_DELAYS, is_audited
from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded
from gpu_tasks.market.courts.money import FIRST_JUDGES, CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TASK_DISPUTE, JudgedFor, TaskState, slot_case
from gpu_tasks.market.training.terms import covered
from gpu_tasks.market.training.training_market import TrainingMarket
from looked_at import (
    CALLED_FEE,
    FEE,
    OFTEN,
    PAID,
    STOOD_BY,
    Opinion,
    audited,
    disputed,
    judged,
    judges_say,
    says,
    submitted,
)
from runtime.cryptography.hashing import blake2_256
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, refused, signed
from task_chain import COLLATERAL, PRICE, RIGHT, WRONG, Books, TaskChain, forfeit, net, with_offers


def test_an_audit_that_finds_the_result_right_pays_it() -> None:
    chain, books = audited()
    pot = chain.pot
    assert chain.now().judged_for is JudgedFor.AUDIT
    assert judged(chain, says(RIGHT)) is CaseOutcome.AUDIT_RIGHT
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert books.change(chain.alice) == net(PAID)
    premium = money.premium(chain.now().rules, PAID)
    assert books.change(CUSTOMER) == -PAID - STOOD_BY - premium
    assert chain.pot == pot + premium - 2 * FEE


@pytest.mark.parametrize("size", [12, 8])
def test_a_lie_that_an_audit_finds_costs_the_collateral_and_pays_nothing(size: int) -> None:
    chain, books = audited(size, root=WRONG)
    assert judged(chain, says(RIGHT)) is CaseOutcome.AUDIT_WRONG
    task, alice = chain.now(), chain.alice
    assert task.outcome is TaskOutcome.LIED
    due = covered(PRICE, COLLATERAL)
    assert books.change(alice) == -COLLATERAL, "of eight no court of three is left, but more than a third say so"
    assert books.change(CUSTOMER) == due - STOOD_BY
    assert chain.market.provider_records[alice.stash].failed == 5 * PAID
    assert chain.market.provider_records[alice.stash].settled == 0


def test_an_audit_that_nobody_decides_changes_nothing() -> None:
    chain, books = audited()
    assert judged(chain, lambda _keys: None) is CaseOutcome.UNHEARD
    assert books.change(chain.alice) == net(PAID)


def test_a_case_is_of_what_the_task_says_and_who_stood_by_may_judge_it() -> None:
    """It is released and gains nothing from the verdict, and large stakes that may not judge would be missed."""
    chain, _ = audited()
    case, task = chain.chain.now()[Courts].cases[slot_case(chain.task, 0)], chain.now()
    assert case is not None
    assert (case.terms.sealed_at, case.terms.run_blocks) == (task.order.sealed_at, task.order.run_blocks)
    assert task.submitted_at > task.order.sealed_at
    assert case.terms.excluded == ()


def test_silence_before_the_beacon_is_final_is_paid_once_that_is() -> None:
    chain = submitted(TaskChain(final_lag=14))
    chain.until(TaskState.ENDED, blocks=40)
    assert chain.now().outcome is TaskOutcome.ACCEPTED_BY_SILENCE


def test_a_chance_whose_beacon_was_forgotten_is_drawn_anew() -> None:
    chain = submitted(TaskChain())

    def forget(bound: Any) -> None:
        values = bound[Beacon].values
        for height, _ in list(values.items()):
            del values[height]

    while not chain.now().beacon_at:
        assert not chain.now().is_checked
        chain.block(forget)
    chain.blocks(8)
    assert chain.now().is_checked


def test_nothing_is_paid_before_it_is_known_whether_there_is_an_audit() -> None:
    chain = submitted(TaskChain(final_lag=6))
    alice, before = chain.alice, chain.wealth(chain.alice.stash)
    chain.accept()
    while not chain.now().is_checked:
        assert chain.wealth(alice.stash) == before
        chain.block()
    assert chain.height >= chain.now().finished_at + 11


def test_a_right_result_that_is_disputed_is_paid_and_the_bond_pays_its_judges() -> None:
    chain, books = disputed()
    bond = money.dispute_bond(chain.now().rules, PRICE, PAID)
    assert judged(chain, says(RIGHT)) is CaseOutcome.AUDIT_RIGHT
    assert chain.now().outcome is TaskOutcome.DISPUTED_FALSELY
    left = bond - 2 * CALLED_FEE
    assert books.change(chain.alice) == net(PAID) + left // 2
    premium = money.premium(chain.now().rules, PAID)
    assert books.change(CUSTOMER) == -PAID - STOOD_BY - premium - bond


def test_judges_of_a_dispute_are_paid_out_of_its_bond_before_anything_else() -> None:
    chain = TaskChain(size=12, constants={"TrainingMarket.judge_fee_ppm": 500_000})
    books = Books(chain)
    submitted(chain)
    chain.dispute()
    judged(chain, says(RIGHT))
    fee = PRICE // 2
    bond = PAID // 10 + 3 * fee
    assert books.change(chain.alice) == net(PAID) + (bond - 2 * fee) // 2


def test_a_wrong_result_that_is_disputed_costs_the_customer_nothing() -> None:
    chain, books = disputed(root=WRONG)
    assert judged(chain, says(RIGHT)) is CaseOutcome.AUDIT_WRONG
    assert books.change(CUSTOMER) == covered(PRICE, COLLATERAL) - STOOD_BY
    assert books.change(chain.alice) == -COLLATERAL


def test_a_dispute_that_judges_cannot_decide_moves_nothing() -> None:
    chain, books = disputed()
    roots = [blake2_256(bytes((number,))) for number in range(12)]

    def differ(keys: Keys) -> Opinion:
        return Answered(roots[chain.keys.index(keys)])

    assert judged(chain, differ) is CaseOutcome.AUDIT_UNDECIDED
    assert chain.now().outcome is TaskOutcome.UNDECIDED
    assert books.change(chain.alice) == 0
    assert books.change(CUSTOMER) == -STOOD_BY


def test_who_disputes_before_the_beacon_asks_is_judged_once() -> None:
    """The draw of an audit no longer matters, because judges are already drawn."""
    for seed in range(20):
        chain = TaskChain(size=12, constants=OFTEN)
        chain.chain.chance.seed(seed)
        finished = submitted(chain).now().finished_at
        chain.dispute()
        chain.blocks_to(finished + AUDIT_DELAYS[-1] + 2)
        values = [chain.chain.now()[Beacon].value_at(finished + delay) for delay in AUDIT_DELAYS]
        assert (chain.state(), chain.now().judged_for) == (TaskState.JUDGED, JudgedFor.DISPUTE)
        if is_audited([value for value in values if value], chain.task, chain.now().rules.audit_rate_ppm):
            return
    raise AssertionError("no beacon asks for an audit")


def test_the_bond_of_a_dispute_goes_by_the_price_of_each_slot() -> None:
    chain = submitted(TaskChain(size=12))
    task = chain.now()
    dear = replace(task.slots[0], price=2 * task.slots[0].price)
    gang = replace(task, slots=(task.slots[0], dear))
    bound = chain.chain.now()
    bound[TrainingMarket].tasks[chain.task] = gang
    signed(CUSTOMER.stash, TrainingMarket.dispute(task=chain.task, segment=None))(bound)
    held = [bound[Balances].held_cases[CUSTOMER.stash, Hold(TASK_DISPUTE, slot_case(chain.task, n))] for n in (0, 1)]
    assert held == [PAID // 10 + 3 * CALLED_FEE, 2 * PAID // 10 + 3 * CALLED_FEE]


def test_an_end_that_was_offered_is_gone_once_judges_look() -> None:
    chain = submitted(TaskChain(size=12))
    chain.offer_end(1, 1)
    assert chain.now().close is not None
    chain.dispute()
    assert chain.now().close is None


def test_who_disputes_and_shows_the_judges_nothing_pays_all_the_same() -> None:
    chain, books = disputed()
    bond = money.dispute_bond(chain.now().rules, PRICE, PAID)
    assert judged(chain, lambda _keys: None) is CaseOutcome.UNHEARD
    assert chain.now().outcome is TaskOutcome.DISPUTED_FALSELY
    assert books.change(chain.alice) == net(PAID) + bond // 2


def test_an_input_that_is_missing_costs_the_customer_its_bond_and_the_judges() -> None:
    chain, books = disputed()
    pot = chain.pot
    assert judged(chain, lambda _keys: Unanswerable()) is CaseOutcome.INPUT_BAD
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert books.change(chain.alice) == forfeit(PAID) // 2
    assert chain.pot == pot
    fees = 5 * CALLED_FEE  # a pair that does not confirm, and the committee after it
    assert books.change(CUSTOMER) == -forfeit(PAID) - STOOD_BY - fees


def test_judges_that_cost_more_than_is_held_for_the_work_cost_all_of_that() -> None:
    numbers = {"TrainingMarket.judge_fee_ppm": 700_000, "TrainingMarket.audit_rate_ppm": 250_000}
    chain, books = audited(numbers=numbers)
    held = money.escrow(chain.now().rules, PRICE)
    assert held < 21 * PAID // 10, "what three of them are paid"
    judged(chain, lambda _keys: Unanswerable())
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert books.change(CUSTOMER) == -held - forfeit(PAID)


def test_partners_that_state_different_results_are_judged_without_anybody_asking() -> None:
    chain = TaskChain(size=14)
    books = Books(chain)
    chain.submit(slots=2, milestones=1)
    chain.auction(with_offers(chain.keys, 5 * OGPU, 6 * OGPU, 7 * OGPU))
    gang = chain.start_all()
    chain.finish(gang[0])
    chain.finish(gang[1], 1, root=WRONG)
    assert (chain.state(), chain.now().cases) == (TaskState.JUDGED, 2)
    judged(chain, says(RIGHT))
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.ON_TIME, TaskOutcome.LIED]
    assert books.change(gang[0]) == net(7 * OGPU)
    assert books.change(gang[1]) == -COLLATERAL


def test_a_third_lie_ends_the_registration_while_its_lies_count() -> None:
    chain, _ = disputed(size=16, root=WRONG)
    alice = chain.alice
    lies = (chain.height, chain.height)
    chain.block(lambda bound: bound[Courts].convictions.__setitem__(alice.stash, lies))
    judged(chain, says(RIGHT))
    devices = chain.chain.now()[Devices]
    assert devices.providers[alice.stash] is None
    assert devices.expelled_until[alice.stash] > chain.height


# ------------------------------------------------------------------------------------------------------- missing inputs


INPUT = b"i" * 32


def reported(*prices: int, constants: dict[str, int] | None = None, **order: object) -> tuple[TaskChain, Books]:
    """Return a task whose winner reports a missing input."""
    chain = TaskChain(size=12, constants=constants or {})
    books = Books(chain)
    chain.submit(**order)
    chain.auction(with_offers(chain.keys, *(prices or (6 * OGPU, 7 * OGPU, 8 * OGPU))))
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    assert chain.state() is TaskState.JUDGED
    return chain, books


def over(chain: TaskChain, opinion: Opinion) -> None:
    """Let the judges hold this opinion until the task goes on."""
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
    """They took all of it, the hook could not pay the standby, and the chain halted."""
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


# ------------------------------------------------------------------------------------------------- a third of the stake


LARGE, OWN, SMALL = 1_800 * OGPU, 540 * OGPU, 220 * OGPU
BONDS = (*(LARGE,) * 3, *(OWN,) * 6, *(SMALL,) * 6)
"""Bonds of the worker, the standby and a loser; of six with one owner, 32.5 % of all; of six others."""


def judged_by(chain: TaskChain, coalition: list[Keys]) -> None:
    """Dispute a right result. A coalition of judges gives another, and a convicted provider appeals."""
    chain.dispute()
    cases = {slot_case(chain.task, place): slot.provider for place, slot in enumerate(chain.now().slots)}

    def says(keys: Keys) -> Answered:
        return Answered(WRONG if keys in coalition else RIGHT)

    while chain.state() is not TaskState.ENDED:
        courts = chain.chain.now()[Courts]
        for case_id, provider in cases.items():
            case = courts.cases[case_id]
            if case is not None and case.stage is CaseStage.APPEALABLE and case.verdict == Answered(WRONG):
                chain.block(signed(provider, Courts.appeal(case_id=case_id)))
        chain.block(*judges_say(chain, says))


def robbed(seed: int) -> tuple[TaskChain, Books, CaseOutcome]:
    """Return the end of a case about Alice's task before such judges."""
    chain = TaskChain(size=len(BONDS), bonds=BONDS)
    chain.chain.chance.seed(seed)
    books = Books(chain)
    submitted(chain)
    judged_by(chain, chain.keys[3:9])
    return chain, books, CaseOutcome(chain.happened(CaseEnded)[0].outcome)


def test_a_third_that_keeps_courts_from_deciding_robs_nobody() -> None:
    """Two of three in a committee sufficed, in one dispute of two: a court of all the rest could not overrule it."""
    undecided = 0
    for seed in range(8):
        chain, books, outcome = robbed(seed)
        assert chain.now().outcome is TaskOutcome.DISPUTED_FALSELY
        assert books.change(chain.alice) >= net(PAID), "what its appeal cost came back"
        undecided += outcome is CaseOutcome.AUDIT_RIGHT and len(chain.happened(CaseAppealed)) > 0
    assert undecided, "the court of one of them found nothing"


def test_a_gang_of_the_largest_stakes_loses_no_more_than_it_is_about() -> None:
    """Partners may not judge, so the coalition is most of the rest, and less than a third of all."""
    chain = TaskChain(size=len(BONDS), bonds=BONDS)
    books, gang = Books(chain), chain.keys[:3]
    chain.submit(slots=3)
    chain.auction(with_offers(gang, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    chain.start_all()
    chain.finish_all()
    judged_by(chain, chain.keys[3:9])
    assert TaskOutcome.LIED in [slot.outcome for slot in chain.now().slots]
    most = PRICE + PRICE // 4 + 12 * CALLED_FEE
    assert most < COLLATERAL
    assert all(books.change(keys) >= -most for keys in gang)
