"""The money table: every grain that leaves an account arrives, and all payments follow the rules."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.courts import money
from gpu_tasks.market.courts.benches import is_audited
from gpu_tasks.market.courts.money import TABLE, CaseMoney, CaseOutcome, Flow, Payee, Purse, settle
from gpu_tasks.market.courts.table_page import outcomes_page, words_page
from runtime.cryptography.hashing import blake2_256

OGPU = 100_000_000
PAGE = Path(__file__).parents[4] / "docs" / "courts.md"
CUSTOMER, APPELLANT = b"customer", b"appellant"


def who(kind: object, number: int) -> bytes:
    return f"{kind} {number}".encode()


@st.composite
def cases(draw: st.DrawFn) -> CaseMoney:
    """Draw any number of payers with any money, consistent or not."""
    amounts = st.integers(0, 100 * OGPU)
    purses = {
        purse: tuple((who(purse.name, number), held) for number, held in enumerate(draw(st.lists(amounts, max_size=4))))
        for purse in Purse
    }
    judges = tuple(who("judge", number) for number in range(draw(st.integers(0, 36))))
    price = draw(st.integers(1, 10 * OGPU))
    return CaseMoney(
        price=price,
        fee=money.judge_fee(price, 500_000, OGPU // 1_000),
        takes_whole=draw(st.booleans()),
        payers=purses,
        payees={Payee.JUDGES: judges, Payee.APPELLANT: (APPELLANT,), Payee.CUSTOMER: (CUSTOMER,)},
    )


@given(st.sampled_from(CaseOutcome), cases())
def test_every_sum_is_conserved_and_nobody_falls_below_zero(outcome: CaseOutcome, case: CaseMoney) -> None:
    before = {(purse, name): held for purse, accounts in case.payers.items() for name, held in accounts}
    after, received, burned = dict(before), Counter[bytes](), 0
    for flow in settle(outcome, case):
        assert flow.amount > 0
        after[flow.purse, flow.source] -= flow.amount
        if flow.payee is None:
            burned += flow.amount
        else:
            received[flow.payee] += flow.amount
    assert min(after.values(), default=0) >= 0
    assert sum(before.values()) == sum(after.values()) + received.total() + burned
    assert received[CUSTOMER] <= case.price, "the customer gets at most the price once, however many lied"
    assert received[APPELLANT] <= 2 * case.price
    assert all(received[judge] <= case.fee for judge in case.payees[Payee.JUDGES])


@given(st.sampled_from(CaseOutcome), cases())
def test_who_is_not_named_in_the_outcome_pays_nothing(outcome: CaseOutcome, case: CaseMoney) -> None:
    charged = {charge.purse for charge in TABLE[outcome].charges}
    assert {flow.purse for flow in settle(outcome, case)} <= charged


@given(st.sampled_from(CaseOutcome), cases())
def test_the_pot_never_burns_and_pays_judges_alone(outcome: CaseOutcome, case: CaseMoney) -> None:
    judges = set(case.payees[Payee.JUDGES])
    assert all(flow.payee in judges for flow in settle(outcome, case) if flow.purse is Purse.POT)


@pytest.mark.parametrize("outcome", CaseOutcome)
def test_only_the_court_takes_a_seat(outcome: CaseOutcome) -> None:
    named = {charge.purse for charge in TABLE[outcome].charges}
    spoke = outcome in (
        CaseOutcome.COURT_DECIDED,
        CaseOutcome.APPEAL_LOST,
        CaseOutcome.APPEAL_WON,
        CaseOutcome.INPUT_BAD,
    )
    assert (Purse.CONVICTED in named) == spoke


@pytest.mark.parametrize("outcome", CaseOutcome)
def test_every_source_of_a_due_is_charged(outcome: CaseOutcome) -> None:
    row = TABLE[outcome]
    named = {charge.purse for charge in row.charges}
    sources = {purse for due in row.dues for purse in due.sources}
    assert sources - named <= {Purse.CONVICTED, Purse.LIED, Purse.MISSED, Purse.DECLINED}
    assert len(named) == len(row.charges), "a purse is charged once"


PRICE, FEE = OGPU, OGPU // 2
COLLATERAL = 19 * OGPU
JUDGES = (b"judge 0", b"judge 1", b"judge 2")
SEAT = money.seat_hold(COLLATERAL, FEE)


def totals(flows: tuple[Flow, ...]) -> dict[bytes | None, int]:
    received: Counter[bytes | None] = Counter()
    for flow in flows:
        received[flow.payee] += flow.amount
    return dict(received)


def case_of(judges: int = 3, *, takes_whole: bool = True, **payers: int) -> CaseMoney:
    """Return a case of price 1: `lied=2` has two liars with their collateral, `pot=n` puts n grains into the pot."""
    held = {"bond": 33 * FEE, "convicted": SEAT, "customer_bond": PRICE // 20, "customer_price": PRICE, "silent": SEAT}
    purses = {
        Purse[name.upper()]: tuple((who(name, each), held.get(name, COLLATERAL)) for each in range(count))
        for name, count in payers.items()
        if name != "pot"
    }
    purses[Purse.POT] = ((b"pot", payers.get("pot", 0)),)
    payees = {
        Payee.JUDGES: tuple(who("judge", each) for each in range(judges)),
        Payee.APPELLANT: (APPELLANT,),
        Payee.CUSTOMER: (CUSTOMER,),
    }
    return CaseMoney(PRICE, FEE, takes_whole, purses, payees)


def test_a_liar_pays_its_judges_then_the_price_and_the_rest_burns() -> None:
    received = totals(settle(CaseOutcome.DECIDED, case_of(judges=2, lied=1, silent=1)))
    assert received == {b"judge 0": FEE, b"judge 1": FEE, CUSTOMER: PRICE, None: COLLATERAL - 2 * FEE - PRICE + FEE}


def test_however_many_lie_the_customer_gets_the_price_once() -> None:
    received = totals(settle(CaseOutcome.DECIDED, case_of(lied=7)))
    assert received[CUSTOMER] == PRICE
    assert received[None] == 7 * COLLATERAL - 3 * FEE - PRICE


def test_where_there_is_no_court_a_conviction_takes_price_fees_and_a_quarter() -> None:
    flows = settle(CaseOutcome.DECIDED, case_of(judges=2, lied=1, takes_whole=False))
    assert sum(flow.amount for flow in flows) == PRICE + 2 * FEE + PRICE // 4


def test_a_right_result_is_judged_at_the_cost_of_the_pot_and_of_who_was_silent() -> None:
    flows = settle(CaseOutcome.AUDIT_RIGHT, case_of(judges=4, silent=1, pot=10 * OGPU))
    assert totals(flows) == {who("judge", each): FEE for each in range(4)}
    assert sum(flow.amount for flow in flows if flow.purse is Purse.POT) == 3 * FEE


@pytest.mark.parametrize(
    "outcome",
    [CaseOutcome.AUDIT_RIGHT, CaseOutcome.COURT_DECIDED, CaseOutcome.APPEAL_LOST, CaseOutcome.APPEAL_UNDECIDED],
)
def test_what_the_customer_set_aside_comes_before_the_pot_and_after_who_was_at_fault(outcome: CaseOutcome) -> None:
    """Otherwise an appeal in vain had the pot pay the pair."""
    flows = settle(outcome, case_of(judges=4, silent=1, customer_spare=1, pot=10 * OGPU))
    paid = [(flow.purse, flow.amount) for flow in flows if flow.payee is not None]
    assert paid == [(Purse.SILENT, FEE), *[(Purse.CUSTOMER_SPARE, FEE)] * 3]
    assert sum(flow.amount for flow in flows if flow.payee is None) == 0


def test_an_empty_pot_leaves_the_last_judges_unpaid_and_stops_nothing() -> None:
    assert totals(settle(CaseOutcome.AUDIT_RIGHT, case_of(judges=2, pot=FEE + 1))) == {b"judge 0": FEE, b"judge 1": 1}


def test_a_lost_appeal_pays_the_court_and_burns_the_rest_of_its_bond() -> None:
    received = totals(settle(CaseOutcome.APPEAL_LOST, case_of(judges=13, bond=1, pot=OGPU)))
    assert received[None] == 33 * FEE - 13 * FEE
    assert all(received[who("judge", each)] == FEE for each in range(13))


def test_a_won_appeal_takes_twice_the_price_out_of_the_wrong_judges_seats() -> None:
    flows = settle(CaseOutcome.APPEAL_WON, case_of(judges=10, convicted=2))
    received = totals(flows)
    assert received[APPELLANT] == 2 * PRICE
    assert received[None] == 2 * SEAT - 2 * PRICE - 10 * FEE
    assert CUSTOMER not in received, "nobody lied: the customer has what it paid for"


def test_one_seat_covers_whatever_an_appeal_can_cost() -> None:
    for price in (1, 999, OGPU // 500, OGPU, 10 * OGPU):
        fee = money.judge_fee(price, 500_000, OGPU // 1_000)
        assert money.seat_hold(money.case_collateral(price, 950_000, fee), fee) >= (3 + 33) * fee + 2 * price
        # of a task the customer is due its greatest price, and fees go by a lower one
        assert money.seat_hold(0, fee, 9 * price) >= (3 + 33) * fee + 2 * 9 * price
        assert money.seat_hold(99 * (price + fee), fee, price) == 99 * (price + fee), "what a wrong answer costs"


def test_an_undecided_appeal_costs_the_fees_of_the_judges_it_leaves_right() -> None:
    flows = settle(CaseOutcome.APPEAL_UNDECIDED, case_of(judges=5, bond=1, pot=OGPU))
    assert [(flow.purse, flow.amount) for flow in flows] == [(Purse.BOND, FEE)] * 5


def test_an_undecided_appeal_costs_nothing_where_somebody_is_at_fault() -> None:
    flows = settle(CaseOutcome.APPEAL_UNDECIDED, case_of(judges=5, bond=1, lied=1))
    assert {flow.purse for flow in flows} == {Purse.LIED}


def test_what_was_not_heard_burns_the_customers_bond_and_nothing_else() -> None:
    """An unreadable input has a cost for its customer, and judges without an input give no opinion."""
    case = case_of(lied=2, missed=1, silent=7, customer_bond=1, customer_price=1, pot=OGPU)
    flows = settle(CaseOutcome.UNHEARD, case)
    assert flows == (Flow(Purse.CUSTOMER_BOND, who("customer_bond", 0), None, PRICE // 20),)


@pytest.mark.parametrize("outcome", [CaseOutcome.UNDECIDED, CaseOutcome.AUDIT_UNDECIDED])
def test_undecided_takes_a_fee_of_the_silent_and_nothing_else(outcome: CaseOutcome) -> None:
    flows = settle(outcome, case_of(lied=2, missed=1, declined=2, convicted=1, silent=1, bond=1, pot=OGPU))
    assert totals(flows) == {None: FEE}


def test_a_miss_costs_a_quarter_of_the_price_and_the_judges_it_caused() -> None:
    flows = settle(CaseOutcome.DECIDED, case_of(missed=1))
    assert sum(flow.amount for flow in flows) == PRICE // 4 + 3 * FEE
    assert totals(flows)[None] == PRICE // 4


def test_a_miss_pays_for_no_court() -> None:
    for judges in (5, 6, 38):
        flows = settle(CaseOutcome.COURT_DECIDED, case_of(judges=judges, missed=1))
        assert sum(flow.amount for flow in flows) == PRICE // 4 + 5 * FEE


def test_a_part_of_a_price_that_does_not_divide_is_rounded_up() -> None:
    flows = settle(CaseOutcome.DECIDED, replace(case_of(missed=1), price=101, fee=7))
    assert sum(flow.amount for flow in flows) == 26 + 3 * 7


def test_who_declines_a_good_input_pays_its_judges() -> None:
    flows = settle(CaseOutcome.DECIDED, case_of(declined=2, pot=OGPU))
    assert {flow.purse for flow in flows} == {Purse.DECLINED}
    paid: dict[bytes | None, int] = {judge: FEE for judge in JUDGES}  # noqa: C420 - mypy knows no key of the other form
    assert totals(flows) == {**paid, None: 2 * (PRICE // 4)}


def test_the_customer_of_a_bad_input_pays_its_judges_before_the_pot_does() -> None:
    flows = settle(CaseOutcome.INPUT_BAD, case_of(customer_bond=1, customer_price=1, pot=10 * OGPU))
    assert totals(flows) == dict.fromkeys(JUDGES, FEE)
    assert sum(flow.amount for flow in flows if flow.purse is Purse.POT) == 3 * FEE - PRICE - PRICE // 20


def test_lying_about_dust_pays_its_own_judges() -> None:
    fee = money.judge_fee(1, 500_000, OGPU // 1_000)
    assert money.case_collateral(1, 50_000, fee) >= 1 + 5 * fee


@pytest.mark.parametrize("rate", [1_000, 10_000, 50_000, 100_000, 999_999, 1_000_000])
@pytest.mark.parametrize("share", [500_000, 1_000_000])
def test_a_lie_nobody_saw_does_not_pay(rate: int, share: int) -> None:
    """An audited racer keeps its pay, so its loss must be worth the price."""
    found = 1 - (1 - Fraction(rate, 4 * 10**6)) ** 4
    assert found * money.case_collateral(OGPU, rate, money.judge_fee(OGPU, share, 100_000)) >= OGPU


@pytest.mark.parametrize(
    ("rate", "collateral"),
    [(50_000, 20_378_931), (100_000, 10_382_911), (1_000, 1_000_375_079), (1_000_000, 1_462_858)],
)
def test_the_collateral_is_the_price_by_the_chance_that_a_lie_is_found(rate: int, collateral: int) -> None:
    assert money.case_collateral(1_000_000, rate, 0) == collateral


def test_as_many_results_are_audited_as_a_collateral_reckons_with() -> None:
    """The audited share of many results is the assumed one, within four standard deviations."""
    rate, cases = 200_000, 4_000
    found, of = money.chance_found(rate)
    values = [
        [blake2_256(b"beacon" + bytes([delay]) + case.to_bytes(4)) for delay in range(4)] for case in range(cases)
    ]
    audited = sum(is_audited(seen, case.to_bytes(32), rate) for case, seen in enumerate(values))
    chance = found / of
    assert abs(audited - cases * chance) < 4 * (cases * chance * (1 - chance)) ** 0.5


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert outcomes_page() in page
    assert words_page() in page
