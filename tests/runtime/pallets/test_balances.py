"""Balances: single steps, and the sum of all accounts over any sequence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography.hashing import blake2_128_concat
from runtime.encoding.types import RuntimeVersion, Signed
from runtime.frame.errors import BelowMinimum, DispatchError, FundsUnavailable, NotExpendable
from runtime.frame.holds import Hold, HoldReason, numbered_case
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.balances import Balances, DustLost, Endowed, Transfer
from runtime.pallets.system import System
from runtime.state.overlay import Memory

VERSION = RuntimeVersion("test", "test", 1, 1, 1, (), 1, 1)
DEPOSIT, SAVINGS = HoldReason("Deposit", "For a record."), HoldReason("Savings", "For later.")


class Keeper(Pallet, index=3):
    """A pallet that holds money for two reasons."""

    hold_reasons = (DEPOSIT, SAVINGS)


FIRST = Hold(DEPOSIT, numbered_case(1))
RUNTIME = Runtime((System, Balances, Keeper), VERSION, {"Balances.existential_deposit": 10})
ALICE, BOB, CAROL = (bytes([number]) * 32 for number in (1, 2, 3))
PEOPLE = (ALICE, BOB, CAROL)


def start(**amounts: int) -> Bound:
    who = {"alice": ALICE, "bob": BOB, "carol": CAROL}
    balances = [["0x" + who[name].hex(), amount] for name, amount in amounts.items()]
    return RUNTIME.at(Memory(RUNTIME.genesis({"Balances": {"balances": balances}})))  # type: ignore[arg-type]


def owned(bound: Bound) -> int:
    return sum(info.data.free + info.data.reserved for _, info in bound[System].account.items())


def happened(bound: Bound) -> list[Any]:
    return [event for _, event in bound.overlay.events]


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
people = st.sampled_from(PEOPLE)
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
