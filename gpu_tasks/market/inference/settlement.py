"""The end of a unit: one payment of the whole lock, and the release of all holds.

Invariants: a unit ends once. Then only the deposit of its customer is held for it, and it is on no schedule of a race.
Its devices stay bound until no audit can come. From then on its record stays readable for the `keep_blocks` of its
rules. Then it is dropped, and the deposit returns.
"""

from dataclasses import replace

from gpu_tasks.market.inference import catalogue, money, race_results, schedules, turns
from gpu_tasks.market.inference.events import ProviderRebated, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.race_results import RaceResult
from gpu_tasks.market.inference.sleeping import sleepers
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import (
    UNIT_DEPOSIT,
    UNIT_MONEY,
    OpenUnit,
    Racer,
    Refund,
    Unit,
    UnitState,
    is_open,
)
from runtime.frame.holds import Hold
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.staking.slashing import Share, part


def settle(
    market: InferenceStorage,
    open_unit: OpenUnit,
    race_result: RaceResult,
    *,
    is_watched: bool = False,
    set_aside: tuple[Hold, int] | None = None,
) -> None:
    """Pay for a right result: the winner, and the agreeing runner-up as witness.

    `is_watched` means that a case about it may come, so its racers stay liable until `let_go`. `set_aside` names a hold
    and an amount of the customer's money that stays held for the unit's auditor.
    """
    held_grains, due_grains = held_money(market, open_unit), money.due(open_unit.record, race_result.winner)
    if set_aside is not None:
        auditor_hold, auditor_grains = set_aside
        market.lock.rededicate(open_unit.record.customer, Hold(UNIT_MONEY, open_unit.id), auditor_hold, auditor_grains)
        held_grains -= auditor_grains
    paid_shares = money.settlement(
        open_unit.record,
        held_grains,
        winner=race_result.winner,
        witness=race_result.witness,
        treasury=TREASURY,
    )
    returned_grains = sum(
        paid_share.amount for paid_share in paid_shares if paid_share.payee == open_unit.record.customer
    )
    paid_grains = open_unit.record.escrow + open_unit.record.bond - returned_grains
    ended_unit = replace(
        open_unit.record,
        state=UnitState.SETTLED,
        output_root=race_result.output_root,
        paid=paid_grains,
        is_watched=is_watched,
    )
    _end(market, open_unit, paid_shares, ended_unit)
    _rebate(market, race_result.winner.owner, open_unit.record, due_grains)
    market.emit(_settled(open_unit, race_result, due_grains, paid_grains))


def refund(market: InferenceStorage, open_unit: OpenUnit, reason: Refund) -> None:
    """Return the held money, except a part of the bond if the customer cancelled."""
    paid_shares = money.refund(open_unit.record, held_money(market, open_unit), reason)
    returned_grains = sum(
        paid_share.amount for paid_share in paid_shares if paid_share.payee == open_unit.record.customer
    )
    lost_grains = open_unit.record.escrow + open_unit.record.bond - returned_grains
    _end(
        market,
        open_unit,
        paid_shares,
        replace(open_unit.record, state=UnitState.REFUNDED, refund=reason, paid=lost_grains),
    )
    market.emit(UnitRefunded(open_unit.id, reason, lost_grains))


def let_go(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """Release the racers of an ended unit after its last possible case, and schedule the drop of its record."""
    unit_record, current_height = open_unit.record, market.height
    _release(market, open_unit, (*unit_record.racers, *unit_record.decliners))
    market.devices.end_collateral(open_unit.id)
    market.units[open_unit.id] = replace(unit_record, is_watched=False)
    catalogue.count_units(market, unit_record.service, -1)
    market.expiring.put(current_height + unit_record.rules.keep_blocks, open_unit.id)


def forget(market: InferenceStorage, unit_id: bytes) -> None:
    """Drop the record of an ended unit, and return its deposit."""
    unit_record = market.units[unit_id]
    assert unit_record is not None, "a record is dropped once"
    assert not is_open(unit_record), "only an ended unit is dropped"
    assert not unit_record.is_watched, "a watched unit is not dropped"
    market.lock.unlock(unit_record.customer, Hold(UNIT_DEPOSIT, unit_id), unit_record.deposit)
    market.lock.end(Hold(UNIT_DEPOSIT, unit_id))
    del market.units[unit_id]


def release_racers(market: InferenceStorage, open_unit: OpenUnit) -> Unit:
    """Release the devices of a race without a result. Return the record for the next race.

    Decliners stay liable until a committee has looked at the input, or the unit ends.
    """
    unit_record = open_unit.record
    decliners = (*unit_record.decliners, *(unit_racer for unit_racer in unit_record.racers if unit_racer.has_declined))
    _release(market, open_unit, tuple(unit_racer for unit_racer in unit_record.racers if not unit_racer.has_declined))
    _end_duties(market, open_unit)
    # Decliners still hold collateral, for the case that may look at the input.
    if not decliners:
        market.devices.end_collateral(open_unit.id)
    return replace(unit_record, racers=(), decliners=decliners)


def release_all(market: InferenceStorage, open_unit: OpenUnit) -> Unit:
    """Release all devices that are liable for the unit, after a case. Return the record for the next race."""
    _release(market, open_unit, (*open_unit.record.racers, *open_unit.record.decliners))
    _end_duties(market, open_unit)
    market.devices.end_collateral(open_unit.id)
    return replace(open_unit.record, racers=(), decliners=())


def idle(market: InferenceStorage, open_unit: OpenUnit, unit_racer: Racer) -> OpenUnit:
    """Punish a racer that did not commit in a whole commit window: burn a part of its collateral and pause it."""
    return _miss(market, open_unit, unit_racer, part(unit_racer.collateral, open_unit.record.rules.idle_penalty))


def withheld(market: InferenceStorage, open_unit: OpenUnit, unit_racer: Racer) -> OpenUnit:
    """Punish a racer that did not open its commitment, if no case follows: burn a part of the price and pause it."""
    return _miss(market, open_unit, unit_racer, part(open_unit.record.price, open_unit.record.rules.withheld_penalty))


def held_money(market: InferenceStorage, open_unit: OpenUnit) -> int:
    """Return the money that the customer has locked for the unit's outcome, less the payments of a case."""
    unit_record, held_grains = (
        open_unit.record,
        market.lock.locked(open_unit.record.customer, Hold(UNIT_MONEY, open_unit.id)),
    )
    assert is_open(unit_record), "a unit ends once"
    is_whole = held_grains == unit_record.escrow + unit_record.bond
    assert is_whole or unit_record.state is UnitState.JUDGING, "a case alone takes money before a unit ends"
    return held_grains


def _miss(market: InferenceStorage, open_unit: OpenUnit, unit_racer: Racer, penalty_grains: int) -> OpenUnit:
    """Burn the amount: neither a customer nor a rival may profit from making others miss."""
    burned_grains = min(penalty_grains, unit_racer.collateral)
    market.devices.charge(unit_racer.device, open_unit.id, (Share(None, burned_grains),))
    market.devices.halt(unit_racer.device, open_unit.id)
    market.emit(RaceMissed(open_unit.id, unit_racer.owner, burned_grains))
    updated_racers = race_results.with_racer(
        open_unit.record.racers, replace(unit_racer, collateral=unit_racer.collateral - burned_grains)
    )
    return OpenUnit(open_unit.id, replace(open_unit.record, racers=updated_racers))


def _end(market: InferenceStorage, open_unit: OpenUnit, paid_shares: tuple[Share, ...], ended_unit: Unit) -> None:
    unit_record, current_height = open_unit.record, market.height
    _pay_out(market, open_unit, paid_shares)
    _end_duties(market, open_unit)
    schedules.drop(market, unit_record.posted_at, open_unit.id)
    if unit_record.asleep_since:
        sleepers.rouse(market, unit_record.service, unit_record.asleep_since, open_unit.id)
    ended_unit = replace(ended_unit, ended_at=current_height, asleep_since=0)
    market.units[open_unit.id] = ended_unit
    # The devices may work again, and their collateral stays for an audit.
    if ended_unit.is_watched:
        for unit_racer in unit_record.racers:
            turns.free(market, unit_racer.device, open_unit.id)
    else:
        let_go(market, OpenUnit(open_unit.id, ended_unit))


def _release(market: InferenceStorage, open_unit: OpenUnit, freed_racers: tuple[Racer, ...]) -> None:
    for unit_racer in freed_racers:
        turns.unsecure(market, unit_racer.device, open_unit.id)


def _end_duties(market: InferenceStorage, open_unit: OpenUnit) -> None:
    for unit_racer in open_unit.record.racers:
        del market.duties[unit_racer.owner, open_unit.id]


def _pay_out(market: InferenceStorage, open_unit: OpenUnit, paid_shares: tuple[Share, ...]) -> None:
    """Pay the unit's lock by these shares. The deposit stays with the record."""
    unit_hold = Hold(UNIT_MONEY, open_unit.id)
    held_grains = market.lock.locked(open_unit.record.customer, unit_hold)
    assert sum(paid_share.amount for paid_share in paid_shares) == held_grains, "the shares add up to the hold"
    market.lock.pay_out(open_unit.record.customer, unit_hold, paid_shares)
    market.lock.end(unit_hold)


def _rebate(market: InferenceStorage, provider: bytes, unit_record: Unit, price_grains: int) -> None:
    """Pay most of a winner's fee on its price back from the era's emission to providers, while that lasts."""
    # The rebate is less than the fee, so a provider that buys from itself never gains.
    rebate_grains = min(money.rebate(unit_record.rules, price_grains), market.balances.free_balance(PROVIDER_REWARDS))
    if rebate_grains:
        market.balances.debit(PROVIDER_REWARDS, rebate_grains)
        market.balances.credit(provider, rebate_grains)
        market.emit(ProviderRebated(provider, rebate_grains))


def _settled(open_unit: OpenUnit, race_result: RaceResult, price_grains: int, paid_grains: int) -> UnitSettled:
    winning_reveal = race_result.winner.reveal
    assert winning_reveal is not None, "a winner has a reveal"
    return UnitSettled(
        unit=open_unit.id,
        output_root=race_result.output_root,
        output_blob=winning_reveal.output_blob,
        winner=race_result.winner.owner,
        price=price_grains,
        witness=race_result.witness.owner if race_result.witness else None,
        paid=paid_grains,
    )
