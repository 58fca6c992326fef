"""How a unit ends: one payment of all that was locked, and everything that it held set free.

Always: a unit ends once; then its lock is empty, its deposit is back with its customer, its devices are
bound to it no more, and its record stays readable for `unit_keep` blocks before it is dropped.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tasks.market.inference import agenda, money
from gpu_tasks.market.inference.events import ProviderRebated, ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.races import RaceResult
from gpu_tasks.market.inference.units import Racer, Refund, Reveal, Unit, UnitState
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.staking.slashing import Share, part
from runtime.pallets.staking.trust_lock import LockReason

if TYPE_CHECKING:
    from gpu_tasks.market.inference.inference import InferenceMarket


def settle(
    market: "InferenceMarket", unit_id: bytes, unit: Unit, result: RaceResult, judges: tuple[bytes, ...] = ()
) -> None:
    """Pay for a right result: the winner, and the agreeing runner-up or else the judges as witness."""
    winner, reveal = result.winner, result.winner.reveal
    assert reveal is not None  # a winner has revealed; for the type checker
    witness = result.witness.owner if result.witness else None
    witnesses = (witness,) if witness else judges
    shares = money.settlement(unit, winner=winner.owner, witnesses=witnesses, treasury=TREASURY)
    _end(market, unit_id, replace(unit, output_root=result.output_root), shares, UnitState.SETTLED)
    _rebate(market, winner.owner, money.fee(unit.price))
    market.emit(_settled(unit_id, unit, result, reveal, shares))


def refund(
    market: "InferenceMarket", unit_id: bytes, unit: Unit, reason: Refund, judges: tuple[bytes, ...] = ()
) -> None:
    """Give the price back; what happens to the bond depends on the reason."""
    if reason is Refund.CANCELLED:
        shares = money.cancellation(unit)
    elif reason in (Refund.INPUT_DECLINED, Refund.INPUT_BAD):
        shares = money.bad_input(unit, judges)
    else:
        shares = money.whole_refund(unit)
    _end(market, unit_id, unit, shares, UnitState.REFUNDED)
    burned = sum(share.amount for share in shares if share.payee is None)
    market.emit(UnitRefunded(unit_id, reason, burned))


def release_racers(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    """Set every device of the race free, with its collateral."""
    for racer in unit.racers:
        market.devices.unsecure(racer.device, unit_id, racer.collateral)
        del market.duties[racer.owner, unit_id]


def miss(market: "InferenceMarket", unit_id: bytes, unit: Unit, racer: Racer) -> None:
    """A racer let the race down: 1 % of its device's bond, and a pause."""
    taken = market.devices.fail(racer.device, unit_id, customer=unit.customer)
    market.emit(RaceMissed(unit_id, racer.owner, taken))


def slash_liar(market: "InferenceMarket", unit_id: bytes, unit: Unit, liar: Racer, judges: tuple[bytes, ...]) -> None:
    """A racer revealed a wrong result: the unit's collateral, 10 % of its bond, and a pause."""
    collateral = market.devices.slash(liar.device, liar.collateral, victim=unit.customer, rewarded=judges)
    bond = market.lock.slash_wrong_result(liar.owner, victim=unit.customer, rewarded=judges)
    market.devices.halt(liar.device, unit_id)
    market.emit(ProviderSlashed(unit_id, liar.owner, liar.device, collateral, bond))


def _end(market: "InferenceMarket", unit_id: bytes, unit: Unit, shares: tuple[Share, ...], state: UnitState) -> None:
    height = market.system.number.get()
    market.lock.pay_out(unit.customer, LockReason.UNIT, shares)
    market.lock.unlock(unit.customer, LockReason.DEPOSIT, unit.deposit)
    release_racers(market, unit_id, unit)
    market.units[unit_id] = replace(unit, state=state, ended_at=height)
    market.count_unit(unit.service, -1)
    agenda.forget_at(market, height + market.unit_keep, unit_id)


def _rebate(market: "InferenceMarket", provider: bytes, fee: int) -> None:
    """Return 90 % of a winner's fee out of the era's emission to providers, while that lasts.

    Less than the fee, so buying from oneself never pays.
    """
    amount = min(part(fee, money.REBATE_PPM), market.balances.free_balance(PROVIDER_REWARDS))
    if amount:
        market.balances.debit(PROVIDER_REWARDS, amount)
        market.balances.credit(provider, amount)
        market.emit(ProviderRebated(provider, amount))


def _settled(unit_id: bytes, unit: Unit, result: RaceResult, reveal: Reveal, shares: tuple[Share, ...]) -> UnitSettled:
    returned = sum(share.amount for share in shares if share.payee == unit.customer)
    return UnitSettled(
        unit=unit_id,
        output_root=result.output_root,
        output_blob=reveal.output_blob,
        winner=result.winner.owner,
        price=unit.price,
        witness=result.witness.owner if result.witness else None,
        paid=unit.escrow + unit.bond - returned,
    )
