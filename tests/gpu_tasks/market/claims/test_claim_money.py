"""The money table of claims: every row to the grain, and the invariants of all payments."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.money import TABLE, EventMoney, Flow, MoneyEvent, Payee, Purse, Remainder, settle
from gpu_tasks.market.claims.table_page import events_page, words_page

DOCS = Path(__file__).parents[4] / "docs"
OGPU = 100_000_000
FEE, VOTE_FEE, K = 12_000_000, 10_000_001, 30 * OGPU + 5
C = SEATS * VOTE_FEE
FINDER, PROVIDER, CHECKER, POT = b"finder", b"provider", b"checker", b"replacements"


def account(kind: object, number: int) -> bytes:
    return f"{kind} {number}".encode()


VOTERS = tuple(account("voter", number) for number in range(SEATS))
APPEAL = tuple(account("appeal voter", number) for number in range(3))


def event_money(
    *,
    voters: int = SEATS,
    appeal: int = 0,
    payees: Mapping[Payee, tuple[bytes, ...]] | None = None,
    **holds: int | tuple[int, ...],
) -> EventMoney:
    """Return the money of an event: `provider=K` puts one hold into this purse, a tuple several."""
    payers = {
        Purse[name.upper()]: tuple(
            (account(name, number), held)
            for number, held in enumerate(amounts if isinstance(amounts, tuple) else (amounts,))
        )
        for name, amounts in holds.items()
    }
    all_payees = {
        Payee.CHECKER: (CHECKER,),
        Payee.REPLACEMENTS: (POT,),
        Payee.PROVIDER: (PROVIDER,),
        Payee.FINDER: (FINDER,),
        Payee.VOTERS: VOTERS[:voters],
        Payee.APPEAL_VOTERS: APPEAL[:appeal],
        **(payees or {}),
    }
    return EventMoney(FEE, VOTE_FEE, K, payers, all_payees)


def received(event: MoneyEvent, money: EventMoney) -> dict[bytes | None, int]:
    """Return the grains of each payee. The key None is the burnt sum."""
    sums: Counter[bytes | None] = Counter()
    for flow in settle(event, money):
        sums[flow.payee] += flow.amount
    return dict(sums)


def each(payees: tuple[bytes, ...], amount: int = VOTE_FEE) -> dict[bytes | None, int]:
    return dict.fromkeys(payees, amount)


def test_the_table_has_a_row_for_each_event_and_at_most_twelve() -> None:
    assert set(TABLE) == set(MoneyEvent)
    assert len(TABLE) <= 12


def test_a_passed_check_is_paid_from_forfeited_fees_first() -> None:
    money = event_money(voters=0, customer=5 * FEE, forfeited=FEE - 1)
    assert settle(MoneyEvent.PASSED, money) == (
        Flow(Purse.FORFEITED, b"forfeited 0", CHECKER, FEE - 1),
        Flow(Purse.CUSTOMER, b"customer 0", CHECKER, 1),
    )


NO_FINDER = {Payee.FINDER: ()}
ROWS: list[tuple[MoneyEvent, EventMoney, dict[bytes | None, int]]] = [
    (MoneyEvent.PASSED, event_money(voters=0, customer=FEE), {CHECKER: FEE}),
    # Voters in place of a checker share the forfeited fees.
    (MoneyEvent.PASSED, event_money(customer=9 * FEE, forfeited=SEATS * 7 + 3, payees={Payee.CHECKER: ()}),
     each(VOTERS, 7)),
    (MoneyEvent.PROVIDER_FALSE, event_money(provider=K), {FINDER: K // 2, **each(VOTERS), None: K - K // 2 - C}),
    (MoneyEvent.PROVIDER_FALSE, event_money(provider=K, payees=NO_FINDER), {**each(VOTERS), None: K - C}),
    (MoneyEvent.PROVIDER_FALSE, event_money(provider=K, voters=0, payees=NO_FINDER), {None: K}),
    # False sides pay the voters together.
    (MoneyEvent.PROVIDER_FALSE, event_money(provider=(C - 1, K, K), payees=NO_FINDER),
     {**each(VOTERS), None: 2 * K - 1}),
    # Voters of an appeal are paid from the rest, nobody twice, and equally if it is too small.
    (MoneyEvent.PROVIDER_FALSE, event_money(provider=K, payees={Payee.APPEAL_VOTERS: APPEAL + VOTERS[:2]}),
     {FINDER: K // 2, **each(VOTERS + APPEAL), None: K - K // 2 - C - 3 * VOTE_FEE}),
    (MoneyEvent.PROVIDER_FALSE, event_money(provider=K // 2 + C + 10, appeal=3),
     {FINDER: K // 2, **each(VOTERS), **each(APPEAL, 3), None: 1}),
    (MoneyEvent.CHECKER_FALSE, event_money(checker=K), {PROVIDER: FEE, **each(VOTERS), None: K - FEE - C}),
    (MoneyEvent.CHECKER_FALSE, event_money(checker=(K, K)), {PROVIDER: FEE, **each(VOTERS), None: 2 * K - FEE - C}),
    (MoneyEvent.BOTH_FALSE, event_money(provider=K, checker=K),
     {FINDER: K // 2, **each(VOTERS), None: 2 * K - K // 2 - C}),
    (MoneyEvent.CONCEDED, event_money(checker=K), {PROVIDER: FEE, POT: FEE}),
    (MoneyEvent.SILENT, event_money(checker=K), {POT: FEE}),
    (MoneyEvent.UNOPENED, event_money(checker=K), {PROVIDER: FEE, None: K - FEE}),
    (MoneyEvent.FALSE_DISPUTE, event_money(disputer=C + K // 2), {**each(VOTERS), None: K // 2}),
    (MoneyEvent.INPUT_BAD, event_money(input=C + 1), {**each(VOTERS), None: 1}),
    (MoneyEvent.VOTES_COUNTED, event_money(outvoted=(2 * VOTE_FEE,) * 3, unheard=(2 * VOTE_FEE,) * 2),
     {None: 3 * 2 * VOTE_FEE + 2 * VOTE_FEE}),
    (MoneyEvent.ENDED, event_money(forfeited=FEE, provider=K, checker=K), {None: FEE}),
]  # fmt: skip


@pytest.mark.parametrize(("event", "money", "paid"), ROWS)
def test_who_is_paid(event: MoneyEvent, money: EventMoney, paid: dict[bytes | None, int]) -> None:
    assert received(event, money) == paid


def test_the_checker_of_a_second_check_is_paid_from_the_provider() -> None:
    flows = settle(MoneyEvent.BOTH_FALSE, event_money(provider=K, checker=K))
    assert [(flow.purse, flow.amount) for flow in flows if flow.payee == FINDER] == [(Purse.PROVIDER, K // 2)]


@pytest.mark.parametrize(("voters", "appeal"), [(5, 0), (9, 0), (8, 3), (5, 1)])
def test_a_refuted_unavailable_costs_both_half_of_the_fees(voters: int, appeal: int) -> None:
    money = event_money(provider=K, checker=K, voters=voters, appeal=appeal)
    assert received(MoneyEvent.FETCHED, money) == each(VOTERS[:voters] + APPEAL[:appeal])
    sums: Counter[Purse] = Counter()
    for flow in settle(MoneyEvent.FETCHED, money):
        sums[flow.purse] += flow.amount
    total = (voters + appeal) * VOTE_FEE
    assert sums == {Purse.PROVIDER: total - total // 2, Purse.CHECKER: total // 2}


@st.composite
def moneys(draw: st.DrawFn) -> EventMoney:
    """Draw any number of payers and payees with any money, consistent or not."""
    amounts = st.integers(0, 100 * OGPU)
    payers = {
        purse: tuple(
            (account(purse.name, place), held) for place, held in enumerate(draw(st.lists(amounts, max_size=4)))
        )
        for purse in Purse
    }
    accounts = st.lists(st.integers(0, 20), max_size=20, unique=True)
    payees = {payee: tuple(account("payee", number) for number in draw(accounts)) for payee in Payee}
    return EventMoney(draw(amounts), draw(amounts), draw(amounts), payers, payees)


@given(st.sampled_from(MoneyEvent), moneys())
def test_every_sum_is_conserved_and_nobody_pays_more_than_it_holds(event: MoneyEvent, money: EventMoney) -> None:
    before = {(purse, owner): held for purse, owners in money.payers.items() for owner, held in owners}
    after, paid, burned = dict(before), 0, 0
    for flow in settle(event, money):
        assert flow.amount > 0
        after[flow.purse, flow.source] -= flow.amount
        paid, burned = (paid, burned + flow.amount) if flow.payee is None else (paid + flow.amount, burned)
    assert min(after.values(), default=0) >= 0
    assert sum(before.values()) == sum(after.values()) + paid + burned


@given(st.sampled_from(MoneyEvent), moneys())
def test_only_charged_purses_pay_and_their_rest_burns_or_stays(event: MoneyEvent, money: EventMoney) -> None:
    rests = {charge.purse: charge.rest for charge in TABLE[event].charges}
    flows = settle(event, money)
    assert {flow.purse for flow in flows} <= set(rests)
    assert all(rests[flow.purse] is Remainder.BURNS for flow in flows if flow.payee is None)


@given(st.sampled_from(MoneyEvent), moneys())
def test_nobody_is_paid_twice_and_equal_payees_get_equal_sums(event: MoneyEvent, money: EventMoney) -> None:
    sums = received(event, money)
    paid: set[bytes] = set()
    for due in TABLE[event].dues:
        payees = [payee for payee in money.payees[due.payee] if payee not in paid]
        paid.update(payees)
        most = max(money.fee, money.collateral // 2) if due.payee is Payee.FINDER else max(money.fee, money.vote_fee)
        assert len({sums.get(payee, 0) for payee in payees}) <= 1
        assert all(sums.get(payee, 0) <= most for payee in payees)
    assert set(sums) - {None} <= paid


def test_the_page_has_a_row_for_each_event_and_each_word() -> None:
    rows = events_page().splitlines()[2:]
    assert len(rows) == len(TABLE)
    assert all(row.title in line for row, line in zip(TABLE.values(), rows, strict=True))
    assert all(each.value in words_page() for kind in (Purse, Payee) for each in kind)


def test_decision_record_and_page_show_the_table() -> None:
    page = (DOCS / "claims.md").read_text(encoding="utf-8")
    assert events_page() in (DOCS / "adr" / "0027-claims-and-checks.md").read_text(encoding="utf-8")
    assert events_page() in page
    assert words_page() in page
