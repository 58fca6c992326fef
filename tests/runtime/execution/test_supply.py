"""The supply rule finds grains that appear, vanish, or are booked wrongly."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from runtime.execution.supply import SupplyBroken, check_supply, recount
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System
from runtime.state.overlay import Memory
from small_chain import ALICE, ENDOWMENT, RUNTIME, SmallChain


def add(bound: Bound, free: int = 0, reserved: int = 0) -> None:
    info = bound[System].account[ALICE.account]
    data = replace(info.data, free=info.data.free + free, reserved=info.data.reserved + reserved)
    bound[System].account[ALICE.account] = replace(info, data=data)


@pytest.mark.parametrize("amounts", [(1, 0), (-1, 0), (0, 1), (2, -1)])
def test_a_grain_more_or_less_is_found(amounts: tuple[int, int]) -> None:
    bound = SmallChain().bound
    add(bound, *amounts)
    with pytest.raises(SupplyBroken):
        check_supply(bound)


def test_moving_between_the_parts_of_an_account_is_fine() -> None:
    bound = SmallChain().bound
    add(bound, free=-5, reserved=5)
    check_supply(bound)


def test_what_is_burned_must_be_booked_as_burned() -> None:
    bound = SmallChain().bound
    add(bound, free=-5)
    balances = bound[Balances]
    balances.total_issuance.set(4 * ENDOWMENT - 5)
    with pytest.raises(SupplyBroken):
        check_supply(bound)
    balances.burned.set(5)
    check_supply(bound)


def test_the_rule_is_part_of_every_block() -> None:
    chain = SmallChain()
    authoring = chain.begin()
    add(authoring._execution.bound, free=1)
    with pytest.raises(SupplyBroken):
        authoring.finish()


class CountingState(Memory):
    """A state that counts its reads of values and lists."""

    asked = 0

    def get(self, key: bytes, /) -> bytes | None:
        """The value under a key."""
        self.asked += 1
        return super().get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys below a prefix, and count each."""
        for key in super().keys(prefix, start):
            self.asked += 1
            yield key


@pytest.mark.parametrize("number", [1, 999, 1_000, 10_000])
def test_d11_no_block_asks_for_an_account_that_it_did_not_touch(number: int) -> None:
    """Every thousandth block read all accounts: 0.7 s for 100,000 of them, in every node, before it could vote."""
    account = RUNTIME.item(System.account)
    crowd = {account.key(bytes([place]) * 32): account.value_codec.encode(AccountInfo()) for place in range(200)}
    state = CountingState({**SmallChain().state.values, **crowd})
    bound = RUNTIME.at(state)
    add(bound, free=-5, reserved=5)
    bound[System].number.set(number)
    check_supply(bound)
    assert state.asked <= 5


def test_a_wrong_total_is_found_where_all_accounts_are_counted() -> None:
    chain = SmallChain()
    key = RUNTIME.item(System.account).key(ALICE.account)
    chain.state = chain.state.updated({key: None})  # an account lost by the database
    check_supply(chain.bound)
    with pytest.raises(SupplyBroken, match="hold"):
        recount(chain.bound)
