"""Who was paid what for a unit that has ended, and out of whose money.

Racers, fees and premium follow from the unit's record. What a case about it moved, and what the emission gave back to
the winner, is reckoned by the chain's own rules over the state before the block of the end, and that block's events:
proved, and there for as long as the node keeps both. Always: what came out of the customer's money adds up to what the
chain says that a settled unit cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.client.results import winner_of
from gpu_tasks.data.appeals import flows_at_end
from gpu_tasks.market.courts.cases import AUDIT_POT, CourtCase
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow, Purse
from gpu_tasks.market.inference import money, race_results
from gpu_tasks.market.inference.events import ProviderRebated, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.units import Refund, Unit, UnitState
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError
from wallet.trial import TrialError, over_state

OF_CUSTOMER = "the customer"
CUSTOMER_PURSES = (Purse.CUSTOMER_BOND, Purse.CUSTOMER_PRICE, Purse.CUSTOMER_SPARE)


@dataclass(frozen=True, slots=True)
class UnitPayment:
    """Grains that an account got, or that burned, and whose they were, as an account and in words."""

    role: str
    account: bytes | None
    grains: int
    payer: bytes
    source: str = OF_CUSTOMER


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """What the block of the end says beside the record: its events, and what a case about the unit moved."""

    events: tuple[object, ...]
    case: CourtCase | None = None
    flows: tuple[Flow, ...] = ()


async def payments_of(client: ChainClient, unit_id: bytes, unit: Unit) -> tuple[list[UnitPayment], bool]:
    """Everything that was paid for an ended unit, and whether all of it is known."""
    paid = _by_record(unit) if unit.state is UnitState.SETTLED else []
    ending = await _ending(client, unit_id, unit)
    if ending is None:
        rest = unit.paid - sum(payment.grains for payment in paid)
        if rest:
            paid.append(UnitPayment(_unnamed(unit), None, rest, unit.customer))
        return paid, unit.refund in (Refund.CANCELLED, Refund.EXPIRED)
    aside = _for_the_auditor(unit) if paid and ending.case is None else []
    return [*paid, *aside, *case_payments(unit, ending.case, ending.flows), *_of_events(unit_id, unit, ending)], True


def _by_record(unit: Unit) -> list[UnitPayment]:
    winner = winner_of(unit)
    assert winner is not None, "who was settled with is in the record"
    assert unit.output_root is not None, "a settled unit has a result"
    outcome = race_results.result(unit.racers, unit.output_root)
    witness = outcome.witness if outcome is not None else None
    shares = money.settlement(unit, unit.escrow + unit.bond, winner=winner, witness=witness, treasury=TREASURY)
    roles: dict[bytes | None, str] = {None: "burned", TREASURY: "fee", AUDIT_POT: "premium of audits"}
    roles[winner.owner] = "winner"
    if witness is not None:
        roles[witness.owner] = "witness"
    sums: dict[bytes | None, int] = {}
    for share in shares:
        if share.payee != unit.customer:
            sums[share.payee] = sums.get(share.payee, 0) + share.amount
    return [UnitPayment(roles[payee], payee, grains, unit.customer) for payee, grains in sums.items()]


def _for_the_auditor(unit: Unit) -> list[UnitPayment]:
    """Of a batch that is checked by its leaves: held for its auditor, or the audit pot, when its check ends."""
    if not unit.leaf_audit_ppm:
        return []
    fee = money.check_fee(unit.rules, unit.price, unit.terms.requests)
    return [UnitPayment("auditor of its leaves, or the audit pot", None, fee, unit.customer)]


def _unnamed(unit: Unit) -> str:
    """Who got what the customer paid beside what the record tells."""
    if unit.state is UnitState.SETTLED:
        return "judges, or the auditor of its leaves" if unit.leaf_audit_ppm else "judges"
    return "burned" if unit.refund is Refund.CANCELLED else "judges, or burned"


def case_payments(unit: Unit, case: CourtCase | None, flows: Sequence[Flow]) -> list[UnitPayment]:
    """What a case about a unit, or about its leaves, moved."""
    roles = {unit.customer: "the customer, its price back"}
    if case is not None and case.appeal is not None:
        roles[case.appeal.appellant] = "appellant"
    found = []
    for flow in flows:
        role = "burned" if flow.payee is None else roles.get(flow.payee, "judge")
        source = OF_CUSTOMER if flow.purse in CUSTOMER_PURSES else flow.purse.value
        found.append(UnitPayment(role, flow.payee, flow.amount, flow.source, source))
    return found


def _of_events(unit_id: bytes, unit: Unit, ending: UnitEnd) -> list[UnitPayment]:
    """What the end itself moved and no record says: a rebate comes right before the event of a settlement."""
    found, before = [], None
    for event in ending.events:
        if isinstance(event, UnitSettled) and event.unit == unit_id and isinstance(before, ProviderRebated):
            found.append(
                UnitPayment("winner, of its fee", before.provider, before.amount, PROVIDER_REWARDS, "the emission")
            )
        if isinstance(event, UnitRefunded) and event.unit == unit_id:
            burned = unit.paid - sum(flow.amount for flow in ending.flows if flow.purse in CUSTOMER_PURSES)
            found += [UnitPayment("burned", None, burned, unit.customer)] if burned else []
        before = event
    return found


async def _ending(client: ChainClient, unit_id: bytes, unit: Unit) -> UnitEnd | None:
    """What the block of the end and the state before it say; None if the node has not both any more."""
    try:
        block = await client.block_id(unit.ended_at)
        events = tuple(record.event for record in await client.events(block))
        ended = next((event for event in events if isinstance(event, CaseEnded) and event.case == unit_id), None)
        if not any(isinstance(event, UnitSettled | UnitRefunded) and event.unit == unit_id for event in events):
            return None  # of another block than the record says
        if ended is None:
            return UnitEnd(events)
    except (RpcError, OddAnswerError):
        return None
    moved = await moved_by(client, unit.ended_at, ended)
    return None if moved is None else UnitEnd(events, *moved)


async def moved_by(client: ChainClient, height: int, ended: CaseEnded) -> tuple[CourtCase, tuple[Flow, ...]] | None:
    """Return a case that ended in a block, with what it moved; None where the node has not the state before."""
    try:
        before = await client.block_id(height - 1)
        return await over_state(client, before, lambda bound: flows_at_end(bound, ended.case, ended))
    except (RpcError, OddAnswerError, TrialError):
        return None
