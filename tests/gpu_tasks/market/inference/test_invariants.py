"""The market's assertions about money, each with a planted inconsistency. No case pays from another's money.

The books of `MarketChain.block` compare all holds with their purposes. These tests show that the pallet itself stops.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from broken_invariants import breaks_invariant
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, Device
from gpu_tasks.market.inference import catalogue, queue, settlement
from gpu_tasks.market.inference.events import UnknownService
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.services import ServiceTerms, offer_hold, service_hold
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, OpenUnit, Refund, UnitState
from runtime.encoding.types import Signed
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HoldBook
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import Paid, TrustLock
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


def racing() -> tuple[Bound, OpenUnit, Keys]:
    """Return a state to spoil, a unit with two racers, and the keys of one of them."""
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    bound = chain.now()
    unit = bound[InferenceMarket].open_unit(unit_id)
    assert unit.record.state is UnitState.RACING
    return bound, unit, chain.keys_of(unit.record.racers[0].owner)


def change(bound: Bound, device: bytes, changed: Callable[[Device], Device]) -> None:
    """Change a device's record against its history."""
    before = bound[Devices].devices[device]
    assert before is not None
    bound[Devices].devices[device] = changed(before)


def test_a_unit_ends_once_with_all_of_its_money_and_is_dropped_after_that() -> None:
    bound, unit, _ = racing()
    market = bound[InferenceMarket]
    with pytest.raises(AssertionError, match="ended unit"):
        settlement.forget(market, unit.id)
    bound[Balances].release(CUSTOMER.stash, Hold(UNIT_MONEY, unit.id), 1)
    with pytest.raises(AssertionError, match="alone take money"):
        settlement.refund(market, unit, Refund.EXPIRED)
    bound[Balances].hold(CUSTOMER.stash, Hold(UNIT_MONEY, unit.id), 1)
    settlement.refund(market, unit, Refund.EXPIRED)
    ended = market.units[unit.id]
    assert ended is not None
    with pytest.raises(AssertionError, match="ends once"):
        settlement.refund(market, OpenUnit(unit.id, ended), Refund.EXPIRED)
    settlement.forget(market, unit.id)
    assert not bound[Balances].holds[CUSTOMER.stash]


def test_a_lock_that_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, unit, _ = racing()
    monkeypatch.setattr(TrustLock, "pay_out", lambda *_: None)
    with breaks_invariant(Balances.check_ended):
        settlement.refund(bound[InferenceMarket], unit, Refund.EXPIRED)


def test_a_claim_and_a_dispute_of_a_unit_in_another_state_are_noticed() -> None:
    bound, unit, _ = racing()
    market, ruling = bound[InferenceMarket], Ruling(None, is_appealed=False, voters=())
    market.unit_of_dispute[b"d" * 32] = unit.id
    acts: tuple[Callable[[], None], ...] = (
        lambda: market.rule(b"d" * 32, ruling),
        lambda: market.charge_provider(unit.id, ()),
        lambda: market.charge_customer(unit.id, ()),
        lambda: market.conclude(unit.id, ClaimOutcome.PASSED),
    )
    for act in acts:
        with pytest.raises(AssertionError, match="is RACING"):
            act()


# ------------------------------------------------------------------------------------------------ devices and services


def test_a_device_never_secures_less_than_nothing() -> None:
    bound, unit, racer = racing()
    change(bound, racer.device, lambda device: replace(device, secured=device.secured - 1))
    with pytest.raises(AssertionError, match="each unit once"):
        settlement.refund(bound[InferenceMarket], unit, Refund.INCONCLUSIVE)


def test_a_device_has_one_assignment() -> None:
    bound, _, racer = racing()
    with pytest.raises(AssertionError, match="one active assignment"):
        bound[Devices].assign(racer.device, b"t" * 32)
    with pytest.raises(AssertionError, match="its queue allows"):
        bound[Devices].engage(racer.device, b"u" * 32, 1)


def test_a_bond_is_locked_when_it_is_charged_and_when_the_device_leaves() -> None:
    bound, unit, racer = racing()
    change(bound, racer.device, lambda device: replace(device, bond=device.bond + 1))
    with pytest.raises(AssertionError, match="unsecured bond"):
        bound[Devices].charge(racer.device, unit.id, (Share(None, 1),))
    settlement.refund(bound[InferenceMarket], unit, Refund.EXPIRED)
    catalogue.withdraw_offer(bound[InferenceMarket], racer.device, 0)
    with pytest.raises(AssertionError, match="unsecured bond"):
        bound.dispatch(Devices.unregister_device(device=racer.device), Signed(racer.stash))


@pytest.mark.parametrize("case", [UNIT_MONEY, UNIT_DEPOSIT, COLLATERAL])
def test_a_unit_leaves_nothing_held_by_anybody(case: HoldReason) -> None:
    bound, unit, keys = racing()
    who = CUSTOMER.stash if case is COLLATERAL else keys.stash  # an account with another part in the case
    bound[Balances].hold(who, Hold(case, unit.id), 1)
    with breaks_invariant(Balances.check_ended):
        settlement.refund(bound[InferenceMarket], unit, Refund.INCONCLUSIVE)
        settlement.forget(bound[InferenceMarket], unit.id)


def test_a_race_that_is_drawn_again_leaves_no_collateral() -> None:
    bound, unit, _ = racing()
    bound[Balances].hold(CUSTOMER.stash, Hold(COLLATERAL, unit.id), 1)
    with breaks_invariant(Balances.check_ended):
        queue.requeue(bound[InferenceMarket], unit)


def test_a_service_an_offer_and_a_device_leave_nothing_held() -> None:
    chain = MarketChain(named_keys(2))
    keys = chain.validators[0]
    bound = chain.now()
    market, devices = bound[InferenceMarket], bound[Devices]
    for hold in (service_hold(0), offer_hold(0, keys.device), Hold(FREE_BOND, keys.device)):
        bound[Balances].hold(CUSTOMER.stash, hold, 1)
    with breaks_invariant(Balances.check_ended):
        catalogue.close(market, 0, CUSTOMER.stash)
    with breaks_invariant(Balances.check_ended):
        catalogue.withdraw_offer(market, keys.device, 0)
    with breaks_invariant(Balances.check_ended):
        bound.dispatch(Devices.unregister_device(device=keys.device), Signed(keys.stash))
    assert devices.devices[keys.device] is None


# ---------------------------------------------------------------------------------------------------------------- cases


FIRST, SECOND = b"1" * 32, b"2" * 32


def device_of(bound: Bound, keys: Keys) -> Device:
    found = bound[Devices].devices[keys.device]
    assert found is not None
    return found


def fully_secured() -> tuple[Bound, Keys]:
    """Return a device whose whole bond secures two units, and which works on one of them."""
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
    """Burn a part of a device's hold for a unit."""
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
    with breaks_invariant(HoldBook.change):
        charge(bound, keys, FIRST, half + 1)
    bound, keys = fully_secured()
    bound[Devices].unsecure(keys.device, SECOND)
    with breaks_invariant(HoldBook.change):
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


def test_a_race_that_still_holds_collateral_is_not_over() -> None:
    bound, _ = fully_secured()
    with breaks_invariant(Balances.check_ended):
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
        assert held == racer.collateral == collateral_of(unit)
    chain.blocks(60)  # no racer commits: two misses, and the unit waits again
    assert not [key for key, _ in chain.now()[Balances].held_cases.items() if key[1] == Hold(COLLATERAL, unit_id)]
    assert {paid.case for paid in chain.happened(Paid) if paid.reason is COLLATERAL} == {unit_id}


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
