"""The disputes of units: racers with different results, and inputs that two owners declined.

Of a batch, LeafDisputes first finds an item in which the results differ. Then nine validators vote (Disputes).

Invariants: a unit has at most one open dispute. Its parties lose at most the collateral that they hold for the unit. A
dispute without a decision costs no party anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_tasks.market.claims.disputes import DisputeQuestion, DisputeTerms
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.money import EventMoney, MoneyEvent, Payee, Purse
from gpu_tasks.market.claims.money import settle as flows_of
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
from gpu_tasks.market.leaf_disputes.disputes import Side
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
    if record.terms.requests > 1 and not _is_about_input(record):
        market.leaf_disputes.open(market.index, unit.id, record.terms.requests, _sides(record))
    else:
        _ask_voters(market, market.disputed(unit.id), index=0)


# --------------------------------------------------------------------------------------------- handler of LeafDisputes


def judge_leaf(market: InferenceStorage, unit_id: bytes, index: int) -> None:
    """Ask voters about the first item in which results differ."""
    _ask_voters(market, market.disputed(unit_id), index)


def let_fall(market: InferenceStorage, unit_id: bytes, fallen: Sequence[bytes]) -> None:
    """Burn all collateral of the racers behind these roots, as liars: nobody showed the trees."""
    for racer in market.disputed(unit_id).record.racers:
        if revealed_root(racer) in fallen:
            _convict(market, unit_id, racer, (Share(None, racer.collateral),))


def agree(market: InferenceStorage, unit_id: bytes, agreed: bytes | None) -> None:
    """Let the earliest racer with the remaining root claim its pay, or requeue the unit without any."""
    unit = market.disputed(unit_id)
    result = None if agreed is None else race_results.result(unit.record.racers, agreed)
    if result is None:
        queue.requeue_after_dispute(market, unit)
    else:
        unit_claims.claim(market, unit, result)


# ------------------------------------------------------------------------------------------------- handler of Disputes


def rule(market: InferenceStorage, dispute_id: bytes, ruling: Ruling) -> None:
    """Carry out a ruling: convict the sides with another claim, and let the right one claim its pay."""
    unit_id = market.unit_of_dispute[dispute_id]
    assert unit_id is not None, "an open dispute has a unit"
    del market.unit_of_dispute[dispute_id]
    unit, vote = market.disputed(unit_id), ruling.vote
    if vote is None:
        _refund(market, unit, Refund.INCONCLUSIVE)
    elif vote.verdict is not Verdict.RIGHT:
        _rule_against_input(market, unit, ruling)
    elif _is_about_input(unit.record):
        _rule_against_decliners(market, unit, ruling)
    else:
        _rule_against_sides(market, unit, vote.answer, ruling)


def _ask_voters(market: InferenceStorage, unit: OpenUnit, index: int) -> None:
    record, is_input = unit.record, _is_about_input(unit.record)
    dispute_id = dispute_id_of(unit.id, record.attempt, index)
    market.unit_of_dispute[dispute_id] = unit.id
    liable = _decliners(record) if is_input else _standing(record)
    # The customer's bond pays for an input that cannot be opened.
    parties = tuple(dict.fromkeys((record.customer, *(racer.owner for racer in liable))))
    terms = DisputeTerms(
        handler=market.index,
        question=DisputeQuestion.INPUT if is_input else DisputeQuestion.SIDES,
        work=unit.id,
        index=index,
        point=None,
        seeds=(),
        parties=parties,
        excluded=unit_claims.outside(record, *parties),
        fee=_fee(record),
        sealed_at=record.terms.sealed_at,
        run_blocks=0 if is_input else market.run_blocks_of_request(record),
    )
    market.disputes.open(dispute_id, terms)


def _rule_against_input(market: InferenceStorage, unit: OpenUnit, ruling: Ruling) -> None:
    """Pay the voters out of the customer's bond. Nobody else pays: no result can be right."""
    record = unit.record
    payers = {Purse.INPUT: ((record.customer, record.bond),)}
    for shares in _payments(record, MoneyEvent.INPUT_BAD, payers, ruling).values():
        market.lock.pay_out(record.customer, Hold(UNIT_MONEY, unit.id), shares)
    _refund(market, unit, Refund.INPUT_BAD)


def _rule_against_decliners(market: InferenceStorage, unit: OpenUnit, ruling: Ruling) -> None:
    """Pay the voters out of the miss fees of owners that declined a good input, and draw the unit again."""
    record = unit.record
    decliners = _decliners(record)
    fees = {racer.owner: part(racer.collateral, record.rules.idle_penalty) for racer in decliners}
    payments = _payments(record, MoneyEvent.FALSE_DISPUTE, {Purse.DISPUTER: tuple(fees.items())}, ruling)
    for racer in decliners:
        market.devices.charge(racer.device, unit.id, payments.get(racer.owner, ()))
        market.devices.halt(racer.device, unit.id)
        market.emit(RaceMissed(unit.id, racer.owner, fees[racer.owner]))
    queue.requeue_after_dispute(market, unit)


def _rule_against_sides(market: InferenceStorage, unit: OpenUnit, answer: bytes, ruling: Ruling) -> None:
    record, is_batch = unit.record, unit.record.terms.requests > 1
    claims = market.leaf_disputes.claims_of(unit.id) if is_batch else {side.root: side.root for side in _sides(record)}
    false = [racer for racer in record.racers if claims.get(revealed_root(racer) or b"", answer) != answer]
    payers = {Purse.PROVIDER: tuple((racer.owner, racer.collateral) for racer in false)}
    payments = _payments(record, MoneyEvent.PROVIDER_FALSE, payers, ruling)
    for racer in false:
        _convict(market, unit.id, racer, payments.get(racer.owner, ()))
    if is_batch:
        market.leaf_disputes.narrow(unit.id, answer)
    else:
        agree(market, unit.id, answer)


def _convict(market: InferenceStorage, unit_id: bytes, racer: Racer, shares: Sequence[Share]) -> None:
    """Pay the shares out of a racer's collateral, and pause its device."""
    lost_grains = sum(share.amount for share in shares)
    market.devices.charge(racer.device, unit_id, shares)
    market.devices.halt(racer.device, unit_id)
    market.emit(ProviderSlashed(unit_id, racer.owner, racer.device, lost_grains))
    record = market.disputed(unit_id).record
    racers = race_results.with_racer(record.racers, replace(racer, collateral=racer.collateral - lost_grains))
    market.units[unit_id] = replace(record, racers=racers)


def _refund(market: InferenceStorage, unit: OpenUnit, reason: Refund) -> None:
    if market.leaf_disputes.is_disputed(unit.id):
        market.leaf_disputes.close(unit.id)
    settlement.refund(market, unit, reason)


def _payments(
    record: Unit, event: MoneyEvent, payers: Mapping[Purse, tuple[tuple[bytes, int], ...]], ruling: Ruling
) -> dict[bytes, list[Share]]:
    """Return the payments of an event of the money table, by payer."""
    parties = EventMoney(
        fee=0,
        vote_fee=_fee(record),
        collateral=money.collateral_of(record),
        payers=dict(payers),
        payees={Payee.VOTERS: ruling.voters, Payee.APPEAL_VOTERS: ruling.appeal_voters},
    )
    payments: dict[bytes, list[Share]] = {}
    for flow in flows_of(event, parties):
        payments.setdefault(flow.source, []).append(Share(flow.payee, flow.amount))
    return payments


def _fee(record: Unit) -> int:
    """Return the fee of each voter."""
    return money.input_fee(record) if _is_about_input(record) else money.check_fee_max(record.rules, record.price)


def _is_about_input(record: Unit) -> bool:
    """Return True if voters look at the input alone, because no racer revealed a result."""
    return read_reveals(record.racers) is RevealsRead.NOTHING


def _decliners(record: Unit) -> tuple[Racer, ...]:
    return (*record.decliners, *(racer for racer in record.racers if racer.has_declined))


def _standing(record: Unit) -> tuple[Racer, ...]:
    """Return the racers with a result that have not lost their collateral."""
    return tuple(racer for racer in record.racers if racer.reveal is not None and racer.collateral)


def _sides(record: Unit) -> tuple[Side, ...]:
    """Return the roots with their accounts."""
    accounts_by_root: dict[bytes, tuple[bytes, ...]] = {}
    for racer in record.racers:
        root = revealed_root(racer)
        if root is not None:
            accounts_by_root[root] = (*accounts_by_root.get(root, ()), racer.owner)
    return tuple(Side(root, accounts) for root, accounts in accounts_by_root.items())
