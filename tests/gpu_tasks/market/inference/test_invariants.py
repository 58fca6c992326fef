"""The market's assertions, each with a planted inconsistency. No case pays from another's money."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from broken_invariants import breaks_invariant
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, Device
from gpu_tasks.market.inference import catalogue, money, queue, race, race_results, schedules, settlement
from gpu_tasks.market.inference.events import UnknownService
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.schedules import FINAL_BUDGET, HEIGHT_BUDGET
from gpu_tasks.market.inference.services import ServiceTerms, offer_hold, service_hold
from gpu_tasks.market.inference.sleeping import sleepers
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, OpenUnit, Racer, Refund, Reveal, UnitState
from runtime.encoding.types import Signed
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.runtime import Bound
from runtime.frame.schedule import WeightMeter
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon, FinalBlock
from runtime.pallets.hold_book import HoldBook
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import Paid, TrustLock
from runtime.pallets.system import System
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


def queued() -> tuple[Bound, OpenUnit]:
    """Return a state to spoil, and its one open unit, which waits for its draw."""
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    bound = chain.now()
    return bound, bound[InferenceMarket].open_unit(unit_id)


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


def lose(bound: Bound, who: bytes, hold: Hold) -> None:
    """Take one grain from a hold. The books themselves stay right."""
    bound[Balances].release(who, hold, 1)


def change(bound: Bound, device: bytes, changed: Callable[[Device], Device]) -> None:
    """Change a device's record against its history."""
    before = bound[Devices].devices[device]
    assert before is not None
    bound[Devices].devices[device] = changed(before)


# ----------------------------------------------------------------------------------------------------- a unit's end


def test_as_it_is_a_unit_ends_with_nothing_left() -> None:
    bound, unit = queued()
    market = bound[InferenceMarket]
    settlement.refund(market, unit, Refund.EXPIRED)
    settlement.forget(market, unit.id)
    assert not bound[Balances].holds[CUSTOMER.stash]


def test_a_unit_without_its_money_does_not_end() -> None:
    bound, unit = queued()
    lose(bound, CUSTOMER.stash, Hold(UNIT_MONEY, unit.id))
    with pytest.raises(AssertionError, match="alone take money"):
        settlement.refund(bound[InferenceMarket], unit, Refund.EXPIRED)


def test_a_record_without_its_deposit_is_not_dropped() -> None:
    bound, unit = queued()
    market = bound[InferenceMarket]
    settlement.refund(market, unit, Refund.EXPIRED)
    lose(bound, CUSTOMER.stash, Hold(UNIT_DEPOSIT, unit.id))
    with breaks_invariant(HoldBook.change):
        settlement.forget(market, unit.id)


def test_a_deposit_that_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, unit = queued()
    market = bound[InferenceMarket]
    settlement.refund(market, unit, Refund.EXPIRED)
    monkeypatch.setattr(TrustLock, "unlock", lambda *_: None)
    with breaks_invariant(Balances.check_ended):
        settlement.forget(market, unit.id)


def test_neither_an_open_unit_nor_one_that_is_gone_is_forgotten() -> None:
    bound, unit = queued()
    market = bound[InferenceMarket]
    with pytest.raises(AssertionError, match="ended unit"):
        settlement.forget(market, unit.id)
    with pytest.raises(AssertionError, match="dropped once"):
        settlement.forget(market, bytes(32))


def test_a_unit_does_not_end_twice() -> None:
    bound, unit = queued()
    market = bound[InferenceMarket]
    settlement.refund(market, unit, Refund.EXPIRED)
    ended = market.units[unit.id]
    assert ended is not None
    with pytest.raises(AssertionError, match="ends once"):
        settlement.refund(market, OpenUnit(unit.id, ended), Refund.EXPIRED)


def test_shares_that_do_not_add_up_are_not_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, unit = queued()
    monkeypatch.setattr(money, "refund", lambda unit, *_: (Share(CUSTOMER.stash, unit.escrow),))
    with pytest.raises(AssertionError, match="add up to"):
        settlement.refund(bound[InferenceMarket], unit, Refund.EXPIRED)


def test_a_lock_that_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, unit = queued()
    monkeypatch.setattr(TrustLock, "pay_out", lambda *_: None)
    with breaks_invariant(Balances.check_ended):
        settlement.refund(bound[InferenceMarket], unit, Refund.EXPIRED)


def test_an_outcome_that_costs_more_than_was_locked_is_noticed() -> None:
    _, unit = queued()
    dear, held = replace(unit.record, price=2 * unit.record.escrow), unit.record.escrow + unit.record.bond
    winner = Racer(b"w" * 32, b"d" * 32, 1, reveal=Reveal(bytes(32), bytes(32), TOKENS, 9))
    with pytest.raises(AssertionError, match="than its lock"):
        money.settlement(dear, held, winner=winner, witness=None, treasury=b"t" * 32)


def test_a_service_does_not_end_more_units_than_it_had() -> None:
    bound, unit = queued()
    market = bound[InferenceMarket]
    catalogue.count_units(market, unit.record.service, -1)
    with pytest.raises(AssertionError, match="ended units"):
        settlement.refund(market, unit, Refund.EXPIRED)


def test_a_winner_that_revealed_nothing_is_noticed() -> None:
    bound, unit, _ = racing()
    result = race_results.RaceResult(b"r" * 32, unit.record.racers[0], None)
    with pytest.raises(AssertionError, match="has a reveal"):
        settlement.settle(bound[InferenceMarket], unit, result)


def test_a_race_that_agrees_on_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_results, "result", lambda *_: None)
    revealed = race_results.with_reveal(Racer(b"o" * 32, b"d" * 32, 1), Reveal(b"r" * 32, b"b" * 32, 1, 1))
    with pytest.raises(AssertionError, match="from a reveal"):
        race_results.agreed_result((revealed,))


def test_a_race_without_a_round_is_noticed() -> None:
    bound, unit, _ = racing()
    market = bound[InferenceMarket]
    with pytest.raises(AssertionError, match="has a round"):
        race.step(market, OpenUnit(unit.id, replace(unit.record, round=None)))


def test_a_claim_and_a_dispute_of_a_unit_in_another_state_are_noticed() -> None:
    bound, unit, _ = racing()
    market, ruling = bound[InferenceMarket], Ruling(None, is_appealed=False, voters=())
    with pytest.raises(AssertionError, match="open dispute has a unit"):
        market.rule(b"d" * 32, ruling)
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
    with pytest.raises(AssertionError, match="outlives its claim"):
        market.conclude(b"u" * 32, ClaimOutcome.PASSED)


# -------------------------------------------------------------------------------------------------------- the agenda


def test_a_cursor_never_falls_back() -> None:
    bound, _ = queued()
    bound[InferenceMarket].agenda.cursor.set(bound[System].number.get() + 1)
    with pytest.raises(AssertionError, match="never passes"):
        list(schedules.due(bound[InferenceMarket], WeightMeter(HEIGHT_BUDGET), WeightMeter(FINAL_BUDGET)))


def test_nothing_is_put_where_nobody_comes_by_again() -> None:
    bound, unit = queued()
    market, now = bound[InferenceMarket], bound[System].number.get()
    of_units = (market.agenda, market.final_agenda, market.price_rises, market.expiring)
    for schedule in of_units:
        schedule.put(now + 1, unit.id)
    schedules.draw_at(market, now + 1, 1, unit.id)
    for schedule in (*of_units, market.draws):
        schedule.cursor.set(now + 1)
    for schedule in of_units:
        with pytest.raises(AssertionError, match="above the cursor"):
            schedule.put(now + 1, unit.id)
    with pytest.raises(AssertionError, match="above the cursor"):
        schedules.draw_at(market, now + 1, 1, unit.id)


def test_who_left_the_queue_is_not_drawn() -> None:
    bound, unit, _ = racing()
    market = bound[InferenceMarket]
    schedules.draw_at(market, bound[System].number.get() + 1, unit.record.posted_at, unit.id)
    market.draws.cursor.set(bound[System].number.get())
    bound[Beacon].final.set(FinalBlock(bound[System].number.get() + 1, bytes(32)))
    with pytest.raises(AssertionError, match="a drawn unit"):
        queue.draw(market, WeightMeter(HEIGHT_BUDGET))


def test_what_is_called_is_there() -> None:
    bound, unit = queued()
    del bound[InferenceMarket].units[unit.id]
    bound[InferenceMarket].agenda.put(bound[System].number.get() + 1, unit.id)
    bound[System].number.set(bound[System].number.get() + 1)
    with pytest.raises(AssertionError, match="on an agenda"):
        bound[InferenceMarket].on_initialize()


def test_who_is_woken_has_slept() -> None:
    bound, unit = queued()
    with pytest.raises(AssertionError, match="woken unit"):
        sleepers.rouse(bound[InferenceMarket], 0, 3, unit.id)


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


def test_a_bond_is_locked_when_it_is_charged() -> None:
    bound, unit, racer = racing()
    change(bound, racer.device, lambda device: replace(device, bond=device.bond + 1))
    with pytest.raises(AssertionError, match="unsecured bond"):
        bound[Devices].charge(racer.device, unit.id, (Share(None, 1),))


def test_a_bond_is_locked_when_the_device_leaves() -> None:
    chain = MarketChain(named_keys(2))
    keys = chain.validators[0]
    chain.block(signed(keys.stash, InferenceMarket.withdraw_offer(device=keys.device, service=0)))
    bound = chain.now()
    lose(bound, keys.stash, Hold(FREE_BOND, keys.device))
    with pytest.raises(AssertionError, match="unsecured bond"):
        bound.dispatch(Devices.unregister_device(device=keys.device), Signed(keys.stash))


def test_a_device_that_secures_a_unit_is_there() -> None:
    bound, unit, racer = racing()
    del bound[Devices].devices[racer.device]
    with breaks_invariant(Balances.check_ended):
        settlement.refund(bound[InferenceMarket], unit, Refund.INCONCLUSIVE)


def test_no_more_offers_are_withdrawn_than_were_made() -> None:
    bound, _, racer = racing()
    change(bound, racer.device, lambda device: replace(device, offers=0))
    with pytest.raises(AssertionError, match="than offers"):
        catalogue.withdraw_offer(bound[InferenceMarket], racer.device, 0)


def test_an_open_service_holds_its_deposit() -> None:
    bound, _ = queued()
    market = bound[InferenceMarket]
    sold = market.service(0)
    market.services[0] = replace(sold, deposit=20 * OGPU)
    with breaks_invariant(HoldBook.change):
        catalogue.close(market, 0, sold.owner)


def test_an_offer_holds_its_deposit_and_its_device() -> None:
    chain = MarketChain(named_keys(2))
    keys = chain.validators[0]
    chain.block(
        signed(keys.stash, InferenceMarket.withdraw_offer(device=keys.device, service=0)),
        signed(keys.stash, InferenceMarket.offer(device=keys.device, service=0, ask=1)),
    )
    bound = chain.now()
    lose(bound, keys.stash, offer_hold(0, keys.device))
    with breaks_invariant(HoldBook.change):
        catalogue.withdraw_offer(bound[InferenceMarket], keys.device, 0)
    bound = chain.now()
    del bound[Devices].devices[keys.device]
    with pytest.raises(AssertionError, match="is registered"):
        catalogue.withdraw_offer(bound[InferenceMarket], keys.device, 0)


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


def test_a_units_end_takes_the_device_from_no_other_unit() -> None:
    bound, keys = fully_secured()
    third = b"3" * 32
    bound[Devices].engage(keys.device, third, 0)
    bound[Devices].unsecure(keys.device, FIRST)
    assert device_of(bound, keys).assignment == third


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


def test_a_units_end_leaves_the_other_units_of_its_customer_alone() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    first, second = chain.post(terms(OGPU // 10), terms(2 * OGPU))
    bound = chain.now()
    balances, market = bound[Balances], bound[InferenceMarket]
    record = market.open_unit(second).record
    settlement.refund(market, market.open_unit(first), Refund.EXPIRED)
    assert balances.held(CUSTOMER.stash, Hold(UNIT_MONEY, first)) == 0
    assert balances.held(CUSTOMER.stash, Hold(UNIT_MONEY, second)) == record.escrow + record.bond
    assert balances.held(CUSTOMER.stash, Hold(UNIT_DEPOSIT, first)) == record.deposit
    settlement.forget(market, first)
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
