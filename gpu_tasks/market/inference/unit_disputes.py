"""The disputes of units: racers with different results, and inputs that two owners declined.

Nine validators vote (Disputes). About different results, they get the answers from all racers, compute the first item
in which these differ, and leave out the results that are false there or were not delivered, until one is left.

Invariants: a unit has at most one open dispute. Its parties lose at most the collateral that they hold for the unit. A
dispute without a decision costs no party anything.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.market.claims.disputes import DisputeQuestion, DisputeTerms
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.handlers import Ruling, payments_to_voters
from gpu_tasks.market.claims.money import MoneyEvent, Purse
from gpu_tasks.market.inference import money, queue, race_results, schedules, settlement, turns, unit_claims
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitDisputed
from gpu_tasks.market.inference.race_results import RevealsRead, read_reveals
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import (
    UNIT_MONEY,
    OpenUnit,
    Racer,
    Refund,
    Unit,
    UnitState,
    dispute_id_of,
    revealed_root,
)
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share, part


def dispute(market: InferenceStorage, unit: OpenUnit) -> None:
    """Open a dispute, because results differ, or several owners declined the input and nobody answered."""
    record = unit.record
    # Racers without a result have no duty any more.
    for racer in record.racers:
        turns.free(market, racer.device, unit.id)
    market.units[unit.id] = replace(record, state=UnitState.DISPUTED)
    schedules.drop(market, record.posted_at, unit.id)
    market.emit(UnitDisputed(unit.id))
    _ask_voters(market, market.disputed(unit.id))


# ------------------------------------------------------------------------------------------------- handler of Disputes


def rule(market: InferenceStorage, dispute_id: bytes, ruling: Ruling) -> None:
    """Carry out a ruling: convict the sides with another claim, and let the right one claim its pay."""
    unit_id = market.unit_of_dispute[dispute_id]
    assert unit_id is not None, "an open dispute has a unit"
    del market.unit_of_dispute[dispute_id]
    unit, vote = market.disputed(unit_id), ruling.vote
    if vote is None:
        settlement.refund(market, unit, Refund.INCONCLUSIVE)
    elif vote.verdict is not Verdict.RIGHT:
        _rule_against_input(market, unit, ruling)
    elif _is_about_input(unit.record):
        _rule_against_decliners(market, unit, ruling)
    else:
        _rule_against_sides(market, unit, vote.answer, ruling)


def _ask_voters(market: InferenceStorage, unit: OpenUnit) -> None:
    record, is_input = unit.record, _is_about_input(unit.record)
    dispute_id = dispute_id_of(unit.id, record.attempt)
    market.unit_of_dispute[dispute_id] = unit.id
    liable = _decliners(record) if is_input else _revealed(record)
    # The customer's bond pays for an input that cannot be opened.
    parties = tuple(dict.fromkeys((record.customer, *(racer.owner for racer in liable))))
    terms = DisputeTerms(
        handler=market.index,
        question=DisputeQuestion.INPUT if is_input else DisputeQuestion.SIDES,
        work=unit.id,
        index=0,
        point=None,
        seeds=(),
        parties=parties,
        excluded=unit_claims.outside(record, *parties),
        fee=_fee(record),
        sealed_at=record.terms.sealed_at,
        # Each side can differ in another item, and voters sample one more.
        run_blocks=0
        if is_input
        else market.run_blocks_of_request(record) * len({revealed_root(racer) for racer in liable}),
    )
    market.disputes.open(dispute_id, terms)


def _rule_against_input(market: InferenceStorage, unit: OpenUnit, ruling: Ruling) -> None:
    """Pay the voters out of the customer's bond. Nobody else pays: no result can be right."""
    record = unit.record
    payers = {Purse.INPUT: ((record.customer, record.bond),)}
    for shares in payments_to_voters(MoneyEvent.INPUT_BAD, payers, ruling, fee=_fee(record)).values():
        market.lock.pay_out(record.customer, Hold(UNIT_MONEY, unit.id), shares)
    settlement.refund(market, unit, Refund.INPUT_BAD)


def _rule_against_decliners(market: InferenceStorage, unit: OpenUnit, ruling: Ruling) -> None:
    """Pay the voters out of the miss fees of owners that declined a good input, and draw the unit again."""
    record = unit.record
    decliners = _decliners(record)
    fees = {racer.owner: part(racer.collateral, record.rules.idle_penalty) for racer in decliners}
    payments = payments_to_voters(
        MoneyEvent.FALSE_DISPUTE, {Purse.DISPUTER: tuple(fees.items())}, ruling, fee=_fee(record)
    )
    for racer in decliners:
        market.devices.charge(racer.device, unit.id, payments.get(racer.owner, ()))
        market.devices.halt(racer.device, unit.id)
        market.emit(RaceMissed(unit.id, racer.owner, fees[racer.owner]))
    queue.requeue_after_dispute(market, unit)


def _rule_against_sides(market: InferenceStorage, unit: OpenUnit, answer: bytes, ruling: Ruling) -> None:
    record = unit.record
    false = [racer for racer in _revealed(record) if revealed_root(racer) != answer]
    payers = {Purse.PROVIDER: tuple((racer.owner, racer.collateral) for racer in false)}
    payments = payments_to_voters(MoneyEvent.PROVIDER_FALSE, payers, ruling, fee=_fee(record))
    for racer in false:
        _convict(market, unit.id, racer, payments.get(racer.owner, ()))
    right = race_results.result(record.racers, answer)
    if right is None:
        queue.requeue_after_dispute(market, market.disputed(unit.id))
    else:
        unit_claims.claim(market, market.disputed(unit.id), right)


def _convict(market: InferenceStorage, unit_id: bytes, racer: Racer, shares: Sequence[Share]) -> None:
    """Pay the shares out of a racer's collateral, and pause its device."""
    lost_grains = sum(share.amount for share in shares)
    market.devices.charge(racer.device, unit_id, shares)
    market.devices.halt(racer.device, unit_id)
    market.emit(ProviderSlashed(unit_id, racer.owner, racer.device, lost_grains))
    record = market.disputed(unit_id).record
    racers = race_results.with_racer(record.racers, replace(racer, collateral=racer.collateral - lost_grains))
    market.units[unit_id] = replace(record, racers=racers)


def _fee(record: Unit) -> int:
    """Return the fee of each voter."""
    return money.input_fee(record) if _is_about_input(record) else money.check_fee_max(record.rules, record.price)


def _is_about_input(record: Unit) -> bool:
    """Return True if voters look at the input alone, because no racer revealed a result."""
    return read_reveals(record.racers) is RevealsRead.NOTHING


def _decliners(record: Unit) -> tuple[Racer, ...]:
    return (*record.decliners, *(racer for racer in record.racers if racer.has_declined))


def _revealed(record: Unit) -> tuple[Racer, ...]:
    """Return the racers with a result."""
    return tuple(racer for racer in record.racers if racer.reveal is not None)
