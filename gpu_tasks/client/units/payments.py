"""The payments of an ended unit, and the losses of its racers.

Winner, witness and fees follow from the unit's record. The checkers' pay and the winner's rebate come from the block of
the end: the claim in the state before that block, by the chain's own money table, and the block's events. Both are
proved, and available while the node keeps them.

Invariant: the payments from the customer's money add up to the recorded cost of the unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.client.claim_ends import check_facts, claim_at_end, paid_checks
from gpu_tasks.client.units.results import claimant_of
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference import money, race_results
from gpu_tasks.market.inference.events import ProviderRebated, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.units import Racer, Refund, Unit, UnitState, revealed_root
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.staking.slashing import part
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

OF_CUSTOMER = "the customer"
OF_COLLATERAL = "the collateral of a false result"
OF_REPLACED = "a replaced checker"
FOUND_FALSE = "finder, voters, or burned"


@dataclass(frozen=True, slots=True)
class UnitPayment:
    """Grains that an account received, or that burned, with their payer as an account and in words."""

    role: str
    account: bytes | None
    grains: int
    payer: bytes
    source: str = OF_CUSTOMER


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """The facts that the block of the end adds to the record: its events, and the claim in the state before."""

    events: tuple[object, ...]
    claim: ResultClaim | None = None

    def check_facts(self) -> list[dict[str, Any]]:
        """Return the checks of the claim for programs."""
        return check_facts(self.claim)


async def unit_end(client: ChainClient, unit_id: bytes, unit: Unit) -> UnitEnd | None:
    """Return the facts of the end's block and of the state before it, or None if the node lacks one."""
    try:
        block = await client.block_id(unit.ended_at)
        events = tuple(record.event for record in await client.events(block))
        if not any(isinstance(event, UnitSettled | UnitRefunded) and event.unit == unit_id for event in events):
            return None  # The events are of another block than the record names.
        before = await client.block_id(unit.ended_at - 1)
        claim: ResultClaim | None = await client.read(ResultClaims.claims, unit_id, at=before)
    except (RpcError, OddAnswerError):
        return None
    return UnitEnd(events, None if claim is None else claim_at_end(unit_id, claim, events))


def payments_of(unit_id: bytes, unit: Unit, ending: UnitEnd | None) -> tuple[list[UnitPayment], bool]:
    """Return all payments of an ended unit, and True if they are complete."""
    if unit.state is not UnitState.SETTLED:
        return _of_refund(unit), True
    payments = _by_record(unit)
    checks_grains = unit.paid - sum(payment.grains for payment in payments)
    if ending is None:
        return [*payments, *_unnamed("checkers", checks_grains, unit)], False
    checkers = [] if ending.claim is None else _of_checks(ending.claim)
    from_customer = sum(payment.grains for payment in checkers if payment.source == OF_CUSTOMER)
    rest = _unnamed("checkers", checks_grains - from_customer, unit)
    return [*payments, *checkers, *rest, *_of_rebate(unit_id, ending)], True


def check_fees_of(unit: Unit) -> int:
    """Return the part of a unit's cost that paid checks and voters."""
    if unit.state is not UnitState.SETTLED:
        return unit.paid if unit.refund is not Refund.CANCELLED else 0
    return unit.paid - sum(payment.grains for payment in _by_record(unit))


def lost_by(unit: Unit, racer: Racer) -> int | None:
    """Return the collateral that a racer lost, in grains, by the rules of the unit.

    Return None for a racer without a commitment, once another one has claimed: the record does not tell whether it had
    its whole commit window.
    """
    if not unit.price:
        return 0
    held, claimant = money.collateral_of(unit), claimant_of(unit)
    if claimant is None or claimant.owner == racer.owner:
        return max(0, held - racer.collateral)
    # The claim released all others, so their records hold nothing.
    root = revealed_root(racer)
    if root is not None:
        return held if root != unit.output_root else 0
    if racer.commitment is not None:
        return min(part(unit.price, unit.rules.withheld_penalty), held)
    return None if racer.is_out else 0


def _by_record(unit: Unit) -> list[UnitPayment]:
    winner = claimant_of(unit)
    assert winner is not None, "a settled unit has a winner"
    assert unit.output_root is not None, "a settled unit has a result"
    outcome = race_results.result(unit.racers, unit.output_root)
    witness = outcome.witness if outcome is not None else None
    shares = money.settlement(unit, unit.escrow + unit.bond, winner=winner, witness=witness, treasury=TREASURY)
    roles: dict[bytes | None, str] = {None: "burned", TREASURY: "fee"}
    roles[winner.owner] = "winner"
    if witness is not None:
        roles[witness.owner] = "witness"
    sums: dict[bytes | None, int] = {}
    for share in shares:
        if share.payee != unit.customer:
            sums[share.payee] = sums.get(share.payee, 0) + share.amount
    return [UnitPayment(roles[payee], payee, grains, unit.customer) for payee, grains in sums.items()]


def _of_refund(unit: Unit) -> list[UnitPayment]:
    """Return the payments of a unit without a result."""
    payments = _unnamed("burned" if unit.refund is Refund.CANCELLED else "voters, or burned", unit.paid, unit)
    if unit.refund is not Refund.REFUTED:
        return payments
    claimant = claimant_of(unit)
    assert claimant is not None, "a refuted result was claimed"
    lost_grains = lost_by(unit, claimant) or 0
    return [*payments, UnitPayment(FOUND_FALSE, None, lost_grains, claimant.owner, OF_COLLATERAL)]


def _unnamed(role: str, grains: int, unit: Unit) -> list[UnitPayment]:
    return [UnitPayment(role, None, grains, unit.customer)] if grains else []


def _of_checks(claim: ResultClaim) -> list[UnitPayment]:
    return [
        UnitPayment(
            "burned" if paid.payee is None else "checker",
            paid.payee,
            paid.grains,
            paid.payer,
            OF_CUSTOMER if paid.is_of_customer else OF_REPLACED,
        )
        for paid in paid_checks(claim)
    ]


def _of_rebate(unit_id: bytes, ending: UnitEnd) -> list[UnitPayment]:
    """Return the winner's rebate. It comes right before the event of its settlement."""
    for event_before, event in zip(ending.events, ending.events[1:], strict=False):
        if isinstance(event, UnitSettled) and event.unit == unit_id and isinstance(event_before, ProviderRebated):
            return [
                UnitPayment(
                    "winner, fee rebate", event_before.provider, event_before.amount, PROVIDER_REWARDS, "the emission"
                )
            ]
    return []
