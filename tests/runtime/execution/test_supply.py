"""The supply rule finds grains that appear, vanish, or are booked wrongly."""

from dataclasses import replace

import pytest

from runtime.execution.supply import RECOUNT_BLOCKS, SupplyBroken, check_supply, recount
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
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


def test_a_wrong_total_is_found_at_the_latest_when_all_accounts_are_counted() -> None:
    chain = SmallChain()
    key = RUNTIME.item(System.account).key(ALICE.account)
    chain.state = chain.state.updated({key: None})  # an account lost by the database
    bound = chain.bound
    for number in (RECOUNT_BLOCKS - 1, RECOUNT_BLOCKS):
        bound[System].number.set(number)
        if number == RECOUNT_BLOCKS:
            with pytest.raises(SupplyBroken):
                check_supply(bound)
        else:
            check_supply(bound)
    with pytest.raises(SupplyBroken):
        recount(bound)
