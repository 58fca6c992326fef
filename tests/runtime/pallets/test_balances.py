"""Balances: transfers, holds by case, invariants of any sequence, and the cost of a change."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from counted_reads import CountingReader
from runtime.cryptography.hashing import blake2_128_concat
from runtime.encoding.codec import DecodeError
from runtime.encoding.types import RuntimeVersion, Signed
from runtime.frame.errors import BelowMinimum, DispatchError, FundsUnavailable, NotExpendable
from runtime.frame.holds import HOLD_REASONS_MAX, Hold, HoldReason, numbered_case
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.balances import (
    Balances,
    DustLost,
    Endowed,
    Reserved,
    ReserveRepatriated,
    Slashed,
    Transfer,
    Unreserved,
)
from runtime.pallets.hold_book import AccountHolds, HeldAmount
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from simulation.catalogue import check_books

VERSION = RuntimeVersion("test", "test", 1, 1, 1, (), 1, 1)
ALICE, BOB, CAROL = (bytes([number]) * 32 for number in (1, 2, 3))
NAMES = {"alice": ALICE, "bob": BOB, "carol": CAROL}
PEOPLE = (ALICE, BOB)
RENT, WAGES, SAVINGS = (HoldReason(name, f"For {name}.") for name in ("Rent", "Wages", "Savings"))


class Landlord(Pallet, index=3):
    """A pallet with two reasons."""

    hold_reasons = (RENT, WAGES)


class Bank(Pallet, index=9):
    """A pallet with a reason of its own: the first of both pallets differ."""

    hold_reasons = (SAVINGS,)


RUNTIME = Runtime((System, Balances, Landlord, Bank), VERSION, {"Balances.existential_deposit": 10})
CASES = [Hold(reason, numbered_case(number)) for reason in (RENT, WAGES, SAVINGS) for number in (1, 2)]
FIRST, SECOND = CASES[:2]
LISTED = RUNTIME.codecs.of(AccountHolds)


def start(**amounts: int) -> Bound:
    """Return balances by name. By default Alice and Bob have a thousand each."""
    given = amounts or {"alice": 1_000, "bob": 1_000}
    balances = [["0x" + NAMES[name].hex(), amount] for name, amount in given.items()]
    return RUNTIME.at(Memory(RUNTIME.genesis({"Balances": {"balances": balances}})))  # type: ignore[arg-type]


def check_sums(bound: Bound) -> None:
    """Cases add up, and all accounts to the issuance."""
    check_books(bound, bound[Balances].total_issuance.get() + bound[Balances].burned.get())


def callables(*verbs: Callable[[], None]) -> tuple[Callable[[], None], ...]:
    """Return the same, typed."""
    return verbs


def happened(bound: Bound) -> list[Any]:
    return [event for _, event in bound.overlay.events]


# ------------------------------------------------------------------------------------------------------- single steps


def test_what_is_held_is_shown_by_reason_and_kept_by_case() -> None:
    bound = start()
    balances = bound[Balances]
    for hold, amount in zip((CASES[4], *CASES[:3]), (1, 10, 20, 5), strict=True):
        balances.hold(ALICE, hold, amount)
    assert [balances.held(ALICE, hold) for hold in CASES] == [10, 20, 5, 0, 1, 0]
    assert balances.holds[ALICE] == (HeldAmount(RENT, 30), HeldAmount(WAGES, 5), HeldAmount(SAVINGS, 1))
    assert (balances.free_balance(ALICE), balances.reserved_balance(ALICE)) == (964, 36)
    assert balances.held(BOB, FIRST) == 0
    assert happened(bound)[0] == Reserved(ALICE, 1)
    check_sums(bound)


def test_a_case_pays_from_what_it_holds_and_from_nothing_else() -> None:
    bound = start()
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 10)
    balances.hold(ALICE, SECOND, 500)
    balances.hold(BOB, FIRST, 500)
    for pay in callables(
        lambda: balances.release(ALICE, FIRST, 11),
        lambda: balances.pay_held(ALICE, FIRST, ((BOB, 6), (None, 5))),
        lambda: balances.rededicate(ALICE, FIRST, SECOND, 11),
        lambda: balances.release(BOB, SECOND, 1),
    ):
        with pytest.raises(AssertionError, match="its own hold"), bound.overlay.transaction():
            pay()
    assert (balances.held(ALICE, FIRST), balances.held(ALICE, SECOND)) == (10, 500)
    check_sums(bound)


def test_a_payment_goes_to_others_to_oneself_and_to_burning_at_once() -> None:
    bound = start()
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 100)
    del bound.overlay.events[:]
    balances.pay_held(ALICE, FIRST, ((BOB, 30), (None, 20), (ALICE, 40), (BOB, 0), (None, 0)))
    assert (balances.held(ALICE, FIRST), balances.free_balance(ALICE), balances.free_balance(BOB)) == (10, 940, 1_030)
    assert balances.burned.get() == 20
    assert [type(event) for event in happened(bound)] == [Unreserved, ReserveRepatriated, Slashed]
    check_sums(bound)


def test_nothing_held_leaves_nothing_behind() -> None:
    bound = start()
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 0)
    balances.hold(ALICE, FIRST, 7)
    balances.hold(ALICE, FIRST, 3)
    balances.release(ALICE, FIRST, 10)
    balances.release(ALICE, FIRST, 0)
    balances.rededicate(ALICE, FIRST, SECOND, 0)
    assert [list(item.items()) for item in (balances.holds, balances.held_cases, balances.case_totals)] == [[]] * 3
    assert len(happened(bound)) == 3


def test_an_account_lives_on_what_it_holds_and_what_cannot_live_is_burned() -> None:
    bound = start(alice=100, bob=1_000)
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 100)
    balances.release(ALICE, FIRST, 5)
    assert bound[System].account[ALICE].providers == 1
    balances.pay_held(ALICE, FIRST, ((BOB, 95),))
    assert (bound[System].account[ALICE].providers, balances.burned.get()) == (0, 5)
    assert DustLost(ALICE, 5) in happened(bound)
    check_sums(bound)


def test_one_can_hold_no_more_than_is_free_and_a_failed_hold_writes_nothing() -> None:
    bound = start(alice=100, bob=1_000)
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 60)
    with pytest.raises(FundsUnavailable):
        balances.hold(ALICE, SECOND, 41)
    with pytest.raises(FundsUnavailable):
        balances.transfer(ALICE, BOB, 41)
    assert balances.held(ALICE, SECOND) == 0
    check_sums(bound)


def test_money_can_be_dedicated_to_another_case_without_moving() -> None:
    bound = start()
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 50)
    before = bound[System].account[ALICE]
    balances.rededicate(ALICE, FIRST, CASES[4], 20)
    assert [balances.held(ALICE, hold) for hold in (FIRST, CASES[4])] == [30, 20]
    assert balances.holds[ALICE] == (HeldAmount(RENT, 30), HeldAmount(SAVINGS, 20))
    assert bound[System].account[ALICE] == before
    check_sums(bound)


def test_a_case_has_not_ended_while_anybody_holds_anything_for_it() -> None:
    bound = start()
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 5)
    balances.hold(BOB, FIRST, 1)
    balances.release(ALICE, FIRST, 5)
    balances.check_ended(SECOND)
    with pytest.raises(AssertionError, match="ended case"):
        balances.check_ended(FIRST)
    balances.release(BOB, FIRST, 1)
    balances.check_ended(FIRST)


@pytest.mark.parametrize("grain", [-1, 1])
def test_a_planted_grain_is_caught_by_the_next_change(grain: int) -> None:
    bound = start()
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 50)
    balances.holds[ALICE] = (HeldAmount(RENT, 50 + grain),)
    for change in callables(
        lambda: balances.hold(ALICE, SECOND, 5),
        lambda: balances.release(ALICE, FIRST, 5),
        lambda: balances.rededicate(ALICE, FIRST, SECOND, 5),
    ):
        with pytest.raises(AssertionError, match="reserved grains equal"), bound.overlay.transaction():
            change()


def test_a_reason_that_shows_less_than_a_case_is_caught() -> None:
    bound = start()
    bound[Balances].hold(ALICE, FIRST, 50)
    bound[Balances].holds[ALICE] = (HeldAmount(RENT, 3),)
    with pytest.raises(AssertionError, match="to its hold"):
        bound[Balances].release(ALICE, FIRST, 5)


# ---------------------------------------------------------------------------------------------------------- the form


def test_a_reason_is_the_pallet_and_its_place_on_the_wire() -> None:
    entries = (HeldAmount(RENT, 1), HeldAmount(WAGES, 2), HeldAmount(SAVINGS, 3))
    encoded = bytes([12, 3, 0, 1, *[0] * 15, 3, 1, 2, *[0] * 15, 9, 0, 3, *[0] * 15])
    assert LISTED.encode(entries) == encoded
    assert LISTED.decode(encoded) == entries
    for wrong in (bytes([4, 4, 0, *[0] * 16]), bytes([4, 3, 2, *[0] * 16]), bytes([4, 9])):
        with pytest.raises(DecodeError):
            LISTED.decode(wrong)


def test_a_reason_belongs_to_one_pallet() -> None:
    with pytest.raises(TypeError, match="already belongs"):
        type("Thief", (Pallet,), {"hold_reasons": (RENT,)}, index=8)
    assert (repr(RENT), RENT.tag) == ("Landlord.Rent", bytes([3, 0]))
    with pytest.raises(TypeError, match="its storage base"):
        type("Ground", (Pallet,), {"hold_reasons": (HoldReason("Other", ""),)})


def test_an_account_can_list_every_reason_of_a_runtime() -> None:
    many = tuple(HoldReason(f"Reason{number}", "") for number in range(HOLD_REASONS_MAX))
    hoarder = type("Hoarder", (Pallet,), {"hold_reasons": many}, index=7)
    Runtime((System, Balances, hoarder), VERSION)
    last = type("Last", (Pallet,), {"hold_reasons": (HoldReason("OneMore", ""),)}, index=9)
    with pytest.raises(ValueError, match="more hold reasons"):
        Runtime((System, Balances, hoarder, last), VERSION)


# ---------------------------------------------------------------------------------------------------------- sequences

SHARES = st.lists(st.tuples(st.sampled_from([*PEOPLE, None]), st.integers(0, 200)), max_size=4)


class HoldsOfTwo(RuleBasedStateMachine):
    """Two accounts and six cases of three reasons, against a table of their holds."""

    def __init__(self) -> None:
        super().__init__()
        self.bound = start()
        self.table: Counter[tuple[bytes, Hold]] = Counter()

    def attempt(self, verb: str, *arguments: Any) -> bool:
        """Call a method in a layer. Return True if it succeeded."""
        try:
            with self.bound.overlay.transaction():
                getattr(self.bound[Balances], verb)(*arguments)
        except (DispatchError, AssertionError):
            return False
        return True

    @rule(who=st.sampled_from(PEOPLE), hold=st.sampled_from(CASES), amount=st.integers(0, 700))
    def hold(self, who: bytes, hold: Hold, amount: int) -> None:
        """Hold an amount if the account has it."""
        expected = amount <= self.bound[Balances].free_balance(who)
        assert self.attempt("hold", who, hold, amount) == expected
        self.table[who, hold] += amount if expected else 0

    @rule(who=st.sampled_from(PEOPLE), hold=st.sampled_from(CASES), shares=SHARES)
    def pay(self, who: bytes, hold: Hold, shares: list[tuple[bytes | None, int]]) -> None:
        """Pay shares of a case, if it has the money."""
        amount = sum(share for _, share in shares)
        expected = amount <= self.table[who, hold]
        assert self.attempt("pay_held", who, hold, shares) == expected
        self.table[who, hold] -= amount if expected else 0

    @rule(
        who=st.sampled_from(PEOPLE),
        source=st.sampled_from(CASES),
        other=st.sampled_from(CASES),
        amount=st.integers(0, 200),
    )
    def rededicate(self, who: bytes, source: Hold, other: Hold, amount: int) -> None:
        """Rededicate an amount from one case to another."""
        expected = amount <= self.table[who, source]
        assert self.attempt("rededicate", who, source, other, amount) == expected
        self.table[who, source] -= amount if expected else 0
        self.table[who, other] += amount if expected else 0

    @rule(source=st.sampled_from(PEOPLE), amount=st.integers(0, 700))
    def transfer(self, source: bytes, amount: int) -> None:
        """Transfer free grains between the other steps."""
        self.attempt("transfer", source, ALICE if source == BOB else BOB, amount)

    @invariant()
    def agrees_with_the_table(self) -> None:
        """Check each case against the table, and all sums."""
        check_sums(self.bound)
        held = dict(self.bound[Balances].held_cases.items())
        assert held == {key: amount for key, amount in self.table.items() if amount}
        issued = self.bound[Balances].total_issuance.get() + self.bound[Balances].burned.get()
        assert issued == 2_000


TestHoldsOfTwo = HoldsOfTwo.TestCase


# ------------------------------------------------------------------------------------------------------ what it costs


def cost_after(cases: int) -> tuple[int, int, int]:
    """Return the reads, entries and bytes of one hold, one payment and one account's end with `cases` cases."""
    bound = start(alice=100_000, bob=1_000)
    for number in range(cases):
        bound[Balances].hold(ALICE, Hold(RENT, numbered_case(number + 10)), 5)
    base = start(alice=100_000, bob=1_000).overlay.reader
    assert isinstance(base, Memory)
    counted = CountingReader(base.updated(bound.overlay.changes()))
    after = RUNTIME.at(counted)
    after[Balances].hold(ALICE, FIRST, 50)
    after[Balances].pay_held(ALICE, FIRST, ((BOB, 10), (None, 10), (ALICE, 30)))
    after[Balances].check_ended(FIRST)
    changes = after.overlay.changes()
    return counted.reads, len(changes), sum(len(value or b"") for value in changes.values())


def test_no_change_costs_more_with_thousands_of_open_cases() -> None:
    few, many = cost_after(1), cost_after(3_000)
    assert many == few
    assert few[0] <= 8


# ------------------------------------------------------------------------------------------------------------ transfers


def owned(bound: Bound) -> int:
    return sum(info.data.free + info.data.reserved for _, info in bound[System].account.items())


def test_a_transfer_moves_and_opens_the_account() -> None:
    bound = start(alice=100)
    bound.dispatch(Balances.transfer_keep_alive(dest=BOB, value=40), Signed(ALICE))
    assert (bound[Balances].free_balance(ALICE), bound[Balances].free_balance(BOB)) == (60, 40)
    assert happened(bound)[1:] == [Endowed(BOB, 40), Transfer(ALICE, BOB, 40)]
    assert bound[System].account[BOB].providers == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (Balances.transfer_keep_alive(dest=BOB, value=101), FundsUnavailable),
        (Balances.transfer_keep_alive(dest=BOB, value=91), NotExpendable),
        (Balances.transfer_allow_death(dest=BOB, value=9), BelowMinimum),
        (Balances.transfer_keep_alive(dest=ALICE, value=101), FundsUnavailable),
        (Balances.transfer_keep_alive(dest=ALICE, value=91), FundsUnavailable),
        (Balances.burn(value=95, keep_alive=True), NotExpendable),
    ],
)
def test_what_cannot_be_paid(call: Any, error: type[DispatchError]) -> None:
    bound = start(alice=100)
    with pytest.raises(error):
        bound.dispatch(call, Signed(ALICE))


def test_what_is_left_below_the_minimum_is_burned() -> None:
    bound = start(alice=100)
    bound.dispatch(Balances.transfer_allow_death(dest=BOB, value=95), Signed(ALICE))
    assert DustLost(ALICE, 5) in happened(bound)
    assert bound[System].account[ALICE].providers == 0
    assert (bound[Balances].total_issuance.get(), bound[Balances].burned.get()) == (95, 5)


def test_the_nonce_outlives_the_account() -> None:
    bound = start(alice=100)
    bound[Balances].begin_transaction(ALICE, 0)
    bound.dispatch(Balances.transfer_all(dest=BOB, keep_alive=False), Signed(ALICE))
    assert bound[Balances].free_balance(BOB) == 100
    assert bound[System].account[ALICE].nonce == 1


def test_held_grains_keep_an_account_alive_and_cannot_be_spent() -> None:
    bound = start(alice=100)
    balances = bound[Balances]
    balances.hold(ALICE, FIRST, 60)
    with pytest.raises(FundsUnavailable):
        balances.transfer(ALICE, BOB, 50)
    balances.transfer(ALICE, BOB, 40)
    assert bound[System].account[ALICE].data.reserved == 60
    balances.pay_held(ALICE, FIRST, ((None, 55),))
    balances.release(ALICE, FIRST, 5)  # the five that are left cannot live alone
    assert (owned(bound), balances.burned.get()) == (40, 60)


def test_who_keeps_its_account_alive_may_spend_all_but_what_is_held_if_that_is_enough_to_live_on() -> None:
    bound = start(alice=100)
    bound[Balances].hold(ALICE, FIRST, 60)
    bound.dispatch(Balances.transfer_keep_alive(dest=BOB, value=40), Signed(ALICE))
    assert bound[Balances].free_balance(ALICE) == 0
    assert bound[System].account[ALICE].providers == 1


def test_frozen_grains_stay_but_may_be_held() -> None:
    bound = start(alice=100)
    balances = bound[Balances]
    balances.set_frozen(ALICE, 80)
    assert balances.spendable_balance(ALICE) == 20
    assert bound[System].account[ALICE].consumers == 1
    with pytest.raises(FundsUnavailable):
        balances.transfer(ALICE, BOB, 21)
    balances.hold(ALICE, FIRST, 90)
    assert balances.spendable_balance(ALICE) == 10


def test_a_credit_too_small_to_open_an_account_is_burned() -> None:
    bound = start(alice=100)
    bound[Balances].hold(ALICE, FIRST, 5)
    bound[Balances].pay_held(ALICE, FIRST, ((BOB, 5),))
    assert (owned(bound), bound[Balances].burned.get()) == (95, 5)


amounts = st.integers(0, 60)
people = st.sampled_from((ALICE, BOB, CAROL))
actions = st.one_of(
    st.tuples(st.just("transfer"), people, people, amounts, st.booleans()),
    st.tuples(st.just("hold"), people, st.just(FIRST), amounts),
    st.tuples(st.just("set_frozen"), people, amounts),
)


@given(st.lists(actions, max_size=30))
def test_no_grain_is_made_or_lost(script: list[tuple[Any, ...]]) -> None:
    bound = start(alice=100, bob=50)
    for verb, *arguments in script:
        try:
            with bound.overlay.transaction():
                getattr(bound[Balances], verb)(*arguments)
        except DispatchError:
            pass
        assert owned(bound) == bound[Balances].total_issuance.get()
        assert bound[Balances].total_issuance.get() + bound[Balances].burned.get() == 150
        for account in dict(bound[System].account.items()).values():
            data = account.data
            assert data.reserved or data.free == 0 or data.free >= 10
            assert account.providers == (1 if data.free or data.reserved else 0)


def test_a_block_forgets_the_hash_that_fell_out_of_the_window_but_not_the_first() -> None:
    bound = start(alice=100)
    system = bound[System]
    for number in (1, 2, 2402, 2403):
        system.initialize(number, bytes([number % 251]) * 32, ())
    assert 0 in system.block_hash
    assert 1 not in system.block_hash
    assert 2401 in system.block_hash


# twox_128("Balances") and twox_128 of each name, as every Substrate chain has them.
KNOWN_PREFIXES = {
    "locks": "c2261276cc9d1f8598ea4b6a74b15c2f218f26c73add634897550b4003b26bc6",
    "reserves": "c2261276cc9d1f8598ea4b6a74b15c2f60c9ab7384f36f3de79a685fa22b4491",
    "freezes": "c2261276cc9d1f8598ea4b6a74b15c2fb1c0eb12e038e5c7f91e120ed4b7ebf1",
}


@pytest.mark.parametrize("name", KNOWN_PREFIXES)
def test_maps_that_clients_look_for_are_there_and_stay_empty(name: str) -> None:
    bound = start(alice=100, bob=50)
    bound.dispatch(Balances.transfer_allow_death(dest=BOB, value=40), Signed(ALICE))
    bound[Balances].hold(BOB, FIRST, 20)
    item = getattr(bound[Balances], name)
    assert item.prefix.hex() == KNOWN_PREFIXES[name]
    assert item.key(ALICE).hex() == KNOWN_PREFIXES[name] + blake2_128_concat(ALICE).hex()
    assert item[ALICE] == ()
    assert list(item.items()) == []
    assert not [key for key in bound.overlay.changes() if key.startswith(item.prefix)]
