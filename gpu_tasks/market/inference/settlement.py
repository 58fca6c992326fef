"""The end of a unit: one payment of the whole lock, and the release of all holds.

Invariants: a unit ends once. Then only the deposit of its customer is held for it, its devices are free of it, and it
is on no schedule of a race. Its record stays readable for the `keep_blocks` of its rules. Then it is dropped, and the
deposit returns.
"""

from dataclasses import replace

from gpu_tasks.market.inference import catalogue, money, race_results, schedules, sleepers, turns
from gpu_tasks.market.inference.events import ProviderRebated, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.race_results import RaceResult
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, OpenUnit, Racer, Refund, Unit, UnitState, is_open
from runtime.frame.holds import Hold
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.staking.slashing import Share, part


def settle(market: InferenceStorage, unit: OpenUnit, result: RaceResult) -> None:
    """Pay for a result whose claim has passed: the winner, and the agreeing runner-up as witness."""
    due_grains = money.due(unit.record, result.winner)
    shares = money.settlement(
        unit.record, held_money(market, unit), winner=result.winner, witness=result.witness, treasury=TREASURY
    )
    returned_grains = sum(share.amount for share in shares if share.payee == unit.record.customer)
    paid_grains = unit.record.escrow + unit.record.bond - returned_grains
    ended = replace(unit.record, state=UnitState.SETTLED, output_root=result.output_root, paid=paid_grains)
    _end(market, unit, shares, ended)
    _rebate(market, result.winner.owner, unit.record, due_grains)
    market.emit(_settled(unit, result, due_grains, paid_grains))


def refund(market: InferenceStorage, unit: OpenUnit, reason: Refund) -> None:
    """Return the held money, except a part of the bond if the customer cancelled."""
    shares = money.refund(unit.record, held_money(market, unit), reason)
    returned_grains = sum(share.amount for share in shares if share.payee == unit.record.customer)
    lost_grains = unit.record.escrow + unit.record.bond - returned_grains
    _end(market, unit, shares, replace(unit.record, state=UnitState.REFUNDED, refund=reason, paid=lost_grains))
    market.emit(UnitRefunded(unit.id, reason, lost_grains))


def forget(market: InferenceStorage, unit_id: bytes) -> None:
    """Drop the record of an ended unit, and return its deposit."""
    record = market.units[unit_id]
    assert record is not None, "a record is dropped once"
    assert not is_open(record), "only an ended unit is dropped"
    market.lock.unlock(record.customer, Hold(UNIT_DEPOSIT, unit_id), record.deposit)
    market.lock.end(Hold(UNIT_DEPOSIT, unit_id))
    del market.units[unit_id]


def release_racers(market: InferenceStorage, unit: OpenUnit) -> Unit:
    """Release the devices of a race without a result. Return the record for the next race.

    Decliners stay liable until voters have looked at the input, or the unit is claimed or ends.
    """
    record = unit.record
    decliners = (*record.decliners, *(racer for racer in record.racers if racer.has_declined))
    _release(market, unit, tuple(racer for racer in record.racers if not racer.has_declined))
    _end_duties(market, unit)
    # Decliners still hold collateral, for the voters that may look at the input.
    if not decliners:
        market.devices.end_collateral(unit.id)
    return replace(record, racers=(), decliners=decliners)


def release_all(market: InferenceStorage, unit: OpenUnit) -> Unit:
    """Release all devices that are liable for the unit, after a dispute. Return the record for the next race."""
    _release(market, unit, (*unit.record.racers, *unit.record.decliners))
    _end_duties(market, unit)
    market.devices.end_collateral(unit.id)
    return replace(unit.record, racers=(), decliners=())


def release_others(market: InferenceStorage, unit: OpenUnit, winner: Racer) -> Unit:
    """Release all devices but the winner's, at its claim. Return the record with their places."""
    record = unit.record
    others = tuple(racer for racer in record.racers if racer.owner != winner.owner)
    _release(market, unit, (*others, *record.decliners))
    for racer in others:
        del market.duties[racer.owner, unit.id]
    racers = tuple(racer if racer.owner == winner.owner else replace(racer, collateral=0) for racer in record.racers)
    return replace(record, racers=racers, decliners=())


def passed(market: InferenceStorage, unit: OpenUnit, racer: Racer) -> int:
    """Burn the miss fee of a racer that passes, and release its device. Return the fee."""
    burned_grains = part(racer.collateral, unit.record.rules.idle_penalty)
    market.devices.charge(racer.device, unit.id, (Share(None, burned_grains),))
    _release(market, unit, (racer,))
    del market.duties[racer.owner, unit.id]
    return burned_grains


def idle(market: InferenceStorage, unit: OpenUnit, racer: Racer) -> OpenUnit:
    """Punish a racer that did not commit in a whole commit window: burn a part of its collateral and pause it."""
    return _miss(market, unit, racer, part(racer.collateral, unit.record.rules.idle_penalty))


def withheld(market: InferenceStorage, unit: OpenUnit, racer: Racer) -> OpenUnit:
    """Punish a racer that did not open its commitment: burn a part of the price and pause it."""
    return _miss(market, unit, racer, part(unit.record.price, unit.record.rules.withheld_penalty))


def held_money(market: InferenceStorage, unit: OpenUnit) -> int:
    """Return the money that the customer has locked for the unit's outcome, less the pay of checkers and voters."""
    record, held_grains = unit.record, market.lock.locked(unit.record.customer, Hold(UNIT_MONEY, unit.id))
    assert is_open(record), "a unit ends once"
    is_whole = held_grains == record.escrow + record.bond
    is_looked_at = record.state in (UnitState.CLAIMED, UnitState.DISPUTED)
    assert is_whole or is_looked_at, "checkers and voters alone take money before a unit ends"
    return held_grains


def _miss(market: InferenceStorage, unit: OpenUnit, racer: Racer, penalty_grains: int) -> OpenUnit:
    """Burn the amount: neither a customer nor a rival may profit from making others miss."""
    burned_grains = min(penalty_grains, racer.collateral)
    market.devices.charge(racer.device, unit.id, (Share(None, burned_grains),))
    market.devices.halt(racer.device, unit.id)
    market.emit(RaceMissed(unit.id, racer.owner, burned_grains))
    racers = race_results.with_racer(unit.record.racers, replace(racer, collateral=racer.collateral - burned_grains))
    return OpenUnit(unit.id, replace(unit.record, racers=racers))


def _end(market: InferenceStorage, unit: OpenUnit, shares: tuple[Share, ...], ended: Unit) -> None:
    record, current_height = unit.record, market.height
    _pay_out(market, unit, shares)
    _end_duties(market, unit)
    schedules.drop(market, record.posted_at, unit.id)
    if record.asleep_since:
        sleepers.rouse(market, record.service, record.asleep_since, unit.id)
    market.units[unit.id] = replace(ended, ended_at=current_height, asleep_since=0)
    _release(market, unit, (*record.racers, *record.decliners))
    market.devices.end_collateral(unit.id)
    catalogue.count_units(market, record.service, -1)
    market.expiring.put(current_height + record.rules.keep_blocks, unit.id)


def _release(market: InferenceStorage, unit: OpenUnit, racers: tuple[Racer, ...]) -> None:
    for racer in racers:
        turns.unsecure(market, racer.device, unit.id)


def _end_duties(market: InferenceStorage, unit: OpenUnit) -> None:
    for racer in unit.record.racers:
        del market.duties[racer.owner, unit.id]


def _pay_out(market: InferenceStorage, unit: OpenUnit, shares: tuple[Share, ...]) -> None:
    """Pay the unit's lock by these shares. The deposit stays with the record."""
    hold = Hold(UNIT_MONEY, unit.id)
    held_grains = market.lock.locked(unit.record.customer, hold)
    assert sum(share.amount for share in shares) == held_grains, "the shares add up to the hold"
    market.lock.pay_out(unit.record.customer, hold, shares)
    market.lock.end(hold)


def _rebate(market: InferenceStorage, provider: bytes, record: Unit, price_grains: int) -> None:
    """Pay most of a winner's fee on its price back from the era's emission to providers, while that lasts."""
    # The rebate is less than the fee, so a provider that buys from itself never gains.
    rebate_grains = min(money.rebate(record.rules, price_grains), market.balances.free_balance(PROVIDER_REWARDS))
    if rebate_grains:
        market.balances.debit(PROVIDER_REWARDS, rebate_grains)
        market.balances.credit(provider, rebate_grains)
        market.emit(ProviderRebated(provider, rebate_grains))


def _settled(unit: OpenUnit, result: RaceResult, price_grains: int, paid_grains: int) -> UnitSettled:
    winning_reveal = result.winner.reveal
    assert winning_reveal is not None, "a winner has a reveal"
    return UnitSettled(
        unit=unit.id,
        output_root=result.output_root,
        output_blob=winning_reveal.output_blob,
        winner=result.winner.owner,
        price=price_grains,
        witness=result.witness.owner if result.witness else None,
        paid=paid_grains,
    )
