"""How a unit ends: one payment of all that was locked, and everything that it held set free.

Always: a unit ends once; then nothing of its customer's is held for it but the deposit, and it is on no agenda. Its
devices are bound to it until no audit can come any more; from then on its record stays readable for `keep_blocks` of
its rules, before it is dropped and its deposit returns to its customer.
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
    unit: OpenUnit,
    result: RaceResult,
    *,
    is_watched: bool = False,
    aside: tuple[Hold, int] | None = None,
) -> None:
    """Pay for a right result: the winner, and the agreeing runner-up as witness.

    `is_watched`: a case about it may come, for which its racers stand until `let_go`. `aside` is what stays held of
    the customer for who looks at it.
    """
    held, price = held_money(market, unit), money.due(unit.record, result.winner)
    if aside is not None:
        target, amount = aside
        market.lock.rededicate(unit.record.customer, Hold(UNIT_MONEY, unit.id), target, amount)
        held -= amount
    shares = money.settlement(
        unit.record,
        held,
        winner=result.winner,
        witness=result.witness,
        treasury=TREASURY,
    )
    back = sum(share.amount for share in shares if share.payee == unit.record.customer)
    paid = unit.record.escrow + unit.record.bond - back
    ended = replace(
        unit.record, state=UnitState.SETTLED, output_root=result.output_root, paid=paid, is_watched=is_watched
    )
    _end(market, unit, shares, ended)
    _rebate(market, result.winner.owner, unit.record, price)
    market.emit(_settled(unit, result, price, paid))


def refund(market: InferenceStorage, unit: OpenUnit, reason: Refund) -> None:
    """Give back what is held: all, but a part of the bond where the customer changed its mind."""
    shares = money.refund(unit.record, held_money(market, unit), reason)
    kept = sum(share.amount for share in shares if share.payee == unit.record.customer)
    lost = unit.record.escrow + unit.record.bond - kept
    _end(market, unit, shares, replace(unit.record, state=UnitState.REFUNDED, refund=reason, paid=lost))
    market.emit(UnitRefunded(unit.id, reason, lost))


def let_go(market: InferenceStorage, unit: OpenUnit) -> None:
    """No case about the unit can come any more: its racers are free, and its record waits for its end."""
    record, height = unit.record, market.height
    _release(market, unit, (*record.racers, *record.decliners))
    market.devices.end_collateral(unit.id)
    market.units[unit.id] = replace(record, is_watched=False)
    catalogue.count_units(market, record.service, -1)
    market.expiring.put(height + record.rules.keep_blocks, unit.id)


def forget(market: InferenceStorage, unit_id: bytes) -> None:
    """Drop the record of an ended unit, and return what was deposited for it."""
    record = market.units[unit_id]
    assert record is not None, "a record is dropped once"
    assert not is_open(record), "no open unit is forgotten"
    assert not record.is_watched, "no unit is forgotten for which somebody stands"
    market.lock.unlock(record.customer, Hold(UNIT_DEPOSIT, unit_id), record.deposit)
    market.lock.end(Hold(UNIT_DEPOSIT, unit_id))
    del market.units[unit_id]


def release_racers(market: InferenceStorage, unit: OpenUnit) -> Unit:
    """Set the devices of a race free that gave no result; the record as it goes on.

    Who declined stands for that until a committee has looked at the input, or the unit ends.
    """
    record = unit.record
    decliners = (*record.decliners, *(racer for racer in record.racers if racer.has_declined))
    _release(market, unit, tuple(racer for racer in record.racers if not racer.has_declined))
    _end_duties(market, unit)
    if not decliners:
        market.devices.end_collateral(unit.id)
    return replace(record, racers=(), decliners=decliners)


def release_all(market: InferenceStorage, unit: OpenUnit) -> Unit:
    """Set everybody free who stands for something, after a case about the unit; the record as it goes on."""
    _release(market, unit, (*unit.record.racers, *unit.record.decliners))
    _end_duties(market, unit)
    market.devices.end_collateral(unit.id)
    return replace(unit.record, racers=(), decliners=())


def idle(market: InferenceStorage, unit: OpenUnit, racer: Racer) -> OpenUnit:
    """A racer did not commit in a whole commit window: a part of its collateral, and a pause."""
    return _miss(market, unit, racer, part(racer.collateral, unit.record.rules.idle_penalty))


def withheld(market: InferenceStorage, unit: OpenUnit, racer: Racer) -> OpenUnit:
    """A racer did not open its commitment, and no case comes of it: a part of the price, and a pause."""
    return _miss(market, unit, racer, part(unit.record.price, unit.record.rules.withheld_penalty))


def held_money(market: InferenceStorage, unit: OpenUnit) -> int:
    """What the customer has locked for the unit's outcome, less what a case took of it."""
    record, held = unit.record, market.lock.locked(unit.record.customer, Hold(UNIT_MONEY, unit.id))
    assert is_open(record), "a unit ends once"
    is_whole = held == record.escrow + record.bond
    assert is_whole or record.state is UnitState.JUDGING, "only a case takes anything before a unit ends"
    return held


def _miss(market: InferenceStorage, unit: OpenUnit, racer: Racer, amount: int) -> OpenUnit:
    """Burned: neither a customer nor a rival shall live on making others miss."""
    taken = min(amount, racer.collateral)
    market.devices.charge(racer.device, unit.id, (Share(None, taken),))
    market.devices.halt(racer.device, unit.id)
    market.emit(RaceMissed(unit.id, racer.owner, taken))
    racers = race_results.with_racer(unit.record.racers, replace(racer, collateral=racer.collateral - taken))
    return OpenUnit(unit.id, replace(unit.record, racers=racers))


def _end(market: InferenceStorage, unit: OpenUnit, shares: tuple[Share, ...], ended: Unit) -> None:
    record, height = unit.record, market.height
    _pay_out(market, unit, shares)
    _end_duties(market, unit)
    schedules.drop(market, record.posted_at, unit.id)
    if record.asleep_since:
        sleepers.rouse(market, record.service, record.asleep_since, unit.id)
    ended = replace(ended, ended_at=height, asleep_since=0)
    market.units[unit.id] = ended
    if ended.is_watched:
        for racer in record.racers:
            turns.free(market, racer.device, unit.id)
    else:
        let_go(market, OpenUnit(unit.id, ended))


def _release(market: InferenceStorage, unit: OpenUnit, racers: tuple[Racer, ...]) -> None:
    for racer in racers:
        turns.unsecure(market, racer.device, unit.id)


def _end_duties(market: InferenceStorage, unit: OpenUnit) -> None:
    for racer in unit.record.racers:
        del market.duties[racer.owner, unit.id]


def _pay_out(market: InferenceStorage, unit: OpenUnit, shares: tuple[Share, ...]) -> None:
    """Pay the unit's lock as the shares say; its deposit stays with its record."""
    hold = Hold(UNIT_MONEY, unit.id)
    held = market.lock.locked(unit.record.customer, hold)
    assert sum(share.amount for share in shares) == held, "the shares add up to what is held"
    market.lock.pay_out(unit.record.customer, hold, shares)
    market.lock.end(hold)


def _rebate(market: InferenceStorage, provider: bytes, record: Unit, price: int) -> None:
    """Return most of a winner's fee on its price out of the era's emission to providers, while that lasts."""
    # less than the fee, so that buying from oneself never pays
    amount = min(money.rebate(record.rules, price), market.balances.free_balance(PROVIDER_REWARDS))
    if amount:
        market.balances.debit(PROVIDER_REWARDS, amount)
        market.balances.credit(provider, amount)
        market.emit(ProviderRebated(provider, amount))


def _settled(unit: OpenUnit, result: RaceResult, price: int, paid: int) -> UnitSettled:
    reveal = result.winner.reveal
    assert reveal is not None, "a winner has revealed"
    return UnitSettled(
        unit=unit.id,
        output_root=result.output_root,
        output_blob=reveal.output_blob,
        winner=result.winner.owner,
        price=price,
        witness=result.witness.owner if result.witness else None,
        paid=paid,
    )
