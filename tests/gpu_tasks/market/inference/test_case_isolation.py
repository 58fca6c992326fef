"""No case of the market pays from another's: two units of a customer, two units on one device, two deposits."""

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, Device
from gpu_tasks.market.inference.events import UnknownService
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.services import ServiceTerms, offer_hold, service_hold
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, Refund
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.market_chain import (
    CUSTOMER,
    MODEL,
    OGPU,
    TOKENS,
    WORKLOAD,
    Keys,
    MarketChain,
    named_keys,
    per_thousand,
    refused,
    signed,
    terms,
)

FIRST, SECOND = b"1" * 32, b"2" * 32


def device_of(bound: Bound, keys: Keys) -> Device:
    found = bound[Devices].devices[keys.device]
    assert found is not None
    return found


def fully_secured() -> tuple[Bound, Keys]:
    """A device all of whose bond secures two units, one of which it works on."""
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    bound, keys = chain.now(), chain.validators[0]
    half = device_of(bound, keys).bond // 2
    for unit in (FIRST, SECOND):
        bound[Devices].engage(keys.device, unit, half)
        bound[Devices].free(keys.device, unit)
    assert bound[Balances].held(keys.stash, Hold(FREE_BOND, keys.device)) == 0
    return bound, keys


def charge(bound: Bound, keys: Keys, unit: bytes, amount: int) -> None:
    """Burn a part of what a device holds for a unit."""
    bound[Devices].charge(keys.device, unit, (Share(None, amount),))


def test_what_one_unit_costs_takes_nothing_of_what_secures_another() -> None:
    bound, keys = fully_secured()
    before = device_of(bound, keys)
    charge(bound, keys, FIRST, 5)
    after = device_of(bound, keys)
    assert bound[Balances].held(keys.stash, Hold(COLLATERAL, FIRST)) == before.bond // 2 - 5
    assert bound[Balances].held(keys.stash, Hold(COLLATERAL, SECOND)) == before.bond // 2
    assert (after.bond, after.secured) == (before.bond - 5, before.secured - 5)


def test_no_unit_is_charged_more_than_its_own_part() -> None:
    bound, keys = fully_secured()
    half = device_of(bound, keys).bond // 2
    with pytest.raises(AssertionError, match="what it holds itself"):
        charge(bound, keys, FIRST, half + 1)
    bound, keys = fully_secured()
    bound[Devices].unsecure(keys.device, SECOND)
    with pytest.raises(AssertionError, match="what it holds itself"):
        charge(bound, keys, FIRST, half + 1)


def test_what_is_left_of_a_units_part_is_the_devices_again() -> None:
    bound, keys = fully_secured()
    before = device_of(bound, keys)
    charge(bound, keys, FIRST, 5)
    bound[Devices].unsecure(keys.device, FIRST)
    bound[Devices].end_collateral(FIRST)
    after = device_of(bound, keys)
    assert (after.bond, after.secured) == (before.bond - 5, before.bond // 2)
    assert bound[Balances].held(keys.stash, Hold(FREE_BOND, keys.device)) == before.bond // 2 - 5


def test_a_units_end_takes_the_device_from_no_other_unit() -> None:
    bound, keys = fully_secured()
    third = b"3" * 32
    bound[Devices].engage(keys.device, third, 0)
    bound[Devices].unsecure(keys.device, FIRST)
    assert device_of(bound, keys).assignment == third


def test_a_race_that_still_holds_collateral_is_not_over() -> None:
    bound, _ = fully_secured()
    with pytest.raises(AssertionError, match="case that has ended"):
        bound[Devices].end_collateral(FIRST)


def test_a_racers_part_of_its_bond_is_held_for_the_unit_from_the_draw_to_the_end() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    unit = chain.unit(unit_id)
    assert len(unit.racers) == 2
    for racer in unit.racers:
        held = chain.now()[Balances].held(racer.owner, Hold(COLLATERAL, unit_id))
        assert held == racer.collateral == collateral(unit.rules, unit.price)
    chain.blocks(60)  # nobody commits: two misses, and the unit waits again
    assert not [key for key, _ in chain.now()[Balances].held_cases.items() if key[1] == Hold(COLLATERAL, unit_id)]
    assert {paid.case for paid in chain.happened(Paid) if paid.reason is COLLATERAL} == {unit_id}


def test_a_units_end_leaves_the_other_units_of_its_customer_alone() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    first, second = chain.post(terms(OGPU // 10), terms(2 * OGPU))
    bound = chain.now()
    balances, market = bound[Balances], bound[InferenceMarket]
    record = market.open_unit(second).record
    market.ending.refund(market.open_unit(first), Refund.EXPIRED)
    assert balances.held(CUSTOMER.stash, Hold(UNIT_MONEY, first)) == 0
    assert balances.held(CUSTOMER.stash, Hold(UNIT_MONEY, second)) == record.escrow + record.bond
    assert balances.held(CUSTOMER.stash, Hold(UNIT_DEPOSIT, first)) == record.deposit
    market.ending.forget(first)
    assert balances.held(CUSTOMER.stash, Hold(UNIT_DEPOSIT, second)) == record.deposit


def test_a_service_is_closed_once_and_its_deposit_comes_back_once() -> None:
    chain, made = MarketChain(named_keys(2)), ServiceTerms(b"x", WORKLOAD, MODEL, 1, per_thousand(OGPU), 5, 5, TOKENS)
    create, close = InferenceMarket.create_service(terms=made), InferenceMarket.close_service(service=1)
    chain.blocks(3)
    chain.block(signed(CUSTOMER.stash, create), signed(CUSTOMER.stash, create))
    chain.block(
        signed(CUSTOMER.stash, InferenceMarket.post(service=1, units=(terms(OGPU, 1),))),
        signed(CUSTOMER.stash, close),
        refused(CUSTOMER.stash, close, UnknownService),
    )
    balances, deposit = chain.now()[Balances], chain.now()[InferenceMarket].service_deposit
    assert [balances.held(CUSTOMER.stash, service_hold(number)) for number in (1, 2)] == [0, deposit]


def test_an_offers_deposit_is_its_own() -> None:
    chain = MarketChain(named_keys(2))
    keys, other = chain.validators
    chain.blocks(3)
    for who in (keys, other):
        chain.block(
            signed(who.stash, InferenceMarket.withdraw_offer(device=who.device, service=0)),
            signed(who.stash, InferenceMarket.offer(device=who.device, service=0, ask=1)),
        )
    chain.block(signed(keys.stash, InferenceMarket.withdraw_offer(device=keys.device, service=0)))
    balances, deposit = chain.now()[Balances], chain.now()[InferenceMarket].offer_deposit
    assert balances.held(keys.stash, offer_hold(0, keys.device)) == 0
    assert balances.held(other.stash, offer_hold(0, other.device)) == deposit
    assert len({offer_hold(number, one.device).case for number in (0, 1, 256) for one in (keys, other)}) == 6
