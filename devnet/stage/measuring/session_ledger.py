"""Sessions on the final chain: the events of each, and the money that the tables say they move.

Invariants: only final blocks are read. Expected payments come from prices, heights and the money tables, and never from
amounts that the chain states as paid. The truth about a claim comes from the scenario, which names the cheats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from devnet.stage.measuring.claim_money import BOND_REASONS, HoldFlow, HoldPayment, ReckonedClaim
from devnet.stage.measuring.ledger import EventTrace
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claim_events import ClaimEnded, ItemDisputed
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, ClaimOutcome
from gpu_tasks.market.claims.disputes import VOTER_BOND
from gpu_tasks.market.claims.money import Purse
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference.money import earned
from gpu_tasks.market.sessions.events import (
    PeriodClaimed,
    PlacePaid,
    SessionClosing,
    SessionEnded,
    SessionHandedOver,
    SessionOpened,
    SessionSeated,
)
from gpu_tasks.market.sessions.records import (
    SESSION_DEPOSIT,
    SESSION_MONEY,
    SPARE_LEG,
    SPARE_PERIOD,
    SessionRecord,
)
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.frame.holds import HoldReason
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.trust_lock import Locked, Paid, Unlocked
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient

PLACE_PART, PRICED_TOKENS, PPM = 4, 1_000, 1_000_000
"""The least pay of a place: a quarter of the price, which is for a thousand tokens."""
SPARE_PART = 4
"""The pay of a spare: a quarter of the least pay of a place."""
OWN_HOLDS = (SESSION_MONEY.name, SESSION_DEPOSIT.name, CHECKER_BOND.name, DISPUTE_BOND.name, VOTER_BOND.name)
"""The holds that a session and its claims leave empty."""


@dataclass
class ReckonedPeriod(ReckonedClaim):
    """The payments of the claim of one period."""

    reasons: ClassVar[Mapping[Purse, HoldReason]] = {
        **BOND_REASONS, Purse.CUSTOMER: SESSION_MONEY, Purse.PROVIDER: COLLATERAL,
    }  # fmt: skip

    false: frozenset[bytes] = field(kw_only=True)
    outcome: ClaimOutcome | None = None

    def is_false(self, provider: bytes) -> bool:
        """See `ReckonedClaim`."""
        return provider in self.false

    def is_deaf(self, checker: bytes) -> bool:
        """See `ReckonedClaim`."""
        return False

    @property
    def amount(self) -> int:
        """The amount of the claim in grains."""
        return self.opened.terms.price


@dataclass(slots=True)
class ReckonedLeg:
    """The part of a session at one provider, or at its spare."""

    owner: bytes
    since: int
    left_at: int = 0
    claimed: int = 0
    is_refuted: bool = False
    has_passed: bool = False
    """True once a claim of it has passed."""


@dataclass(slots=True)
class SessionTrace(EventTrace):
    """The events of one session, its claims and their disputes, and the payments by the tables."""

    opened: SessionOpened | None = None
    record: SessionRecord | None = None
    """The session after its draw. Terms alone are read from it."""
    legs: dict[int, ReckonedLeg] = field(default_factory=dict)
    """The legs by number, that of the spare included."""
    claims: dict[bytes, ReckonedPeriod] = field(default_factory=dict)
    flows: list[HoldFlow] = field(default_factory=list)
    """The pay of claims and of places."""

    @property
    def providers(self) -> int:
        """The number of providers that served it."""
        return len(self.legs.keys() - {SPARE_LEG})

    @property
    def periods(self) -> list[tuple[PeriodClaimed, ReckonedPeriod]]:
        """The claims of vouchers, by period. The proof of the spare is not one."""
        claimed = sorted(self.events(PeriodClaimed), key=lambda event: event.period)
        return [(event, self.claims[event.claim]) for event in claimed if event.period != SPARE_PERIOD]

    @property
    def spare_pay(self) -> int:
        """The grains that left the deposit for the spare that stood by."""
        proofs = [self.claims[each.claim] for each in self.events(PeriodClaimed) if each.period == SPARE_PERIOD]
        passed = sum(proof.amount for proof in proofs if proof.outcome is ClaimOutcome.PASSED)
        return passed + sum(each.amount for each in self.events(PlacePaid) if each.leg == SPARE_LEG)

    @property
    def is_over(self) -> bool:
        """True once the session has ended."""
        return bool(self.events(SessionEnded))

    @property
    def payments(self) -> Counter[HoldPayment]:
        """The sums of all payments by the tables."""
        sums: Counter[HoldPayment] = Counter()
        for flow in self.flows:
            sums[flow.payer, flow.reason, flow.payee] += flow.grains
        for claim in self.claims.values():
            sums.update(claim.payments)
        return sums

    @property
    def cost(self) -> int:
        """The grains of the deposit that the tables say have left."""
        return sum(grains for (_, reason, _), grains in self.payments.items() if reason == SESSION_MONEY.name)

    def gains(self) -> Counter[bytes]:
        """Return the grains that each account gained by the tables. A loss is negative."""
        gained: Counter[bytes] = Counter()
        for (payer, _, payee), grains in self.payments.items():
            gained[payer] -= grains
            if payee is not None:
                gained[payee] += grains
        return gained

    def wrong(self) -> Iterator[str]:
        """Yield a sentence for each payment that differs from the tables, and for money that stays locked."""
        paid: Counter[HoldPayment] = Counter()
        locked: Counter[tuple[bytes, str]] = Counter()
        for _, event in self.happened:
            if isinstance(event, Paid) and event.payee != event.who:
                paid[event.who, event.reason.name, event.payee] += event.amount
            if isinstance(event, Locked | Unlocked | Paid) and event.reason.name in OWN_HOLDS:
                locked[event.who, event.reason.name] += event.amount if isinstance(event, Locked) else -event.amount
        expected = self.payments
        for payment in sorted({*paid, *expected}, key=repr):
            if paid[payment] != expected[payment]:
                payer, reason, payee = payment
                to = "nobody" if payee is None else f"0x{payee.hex()[:8]}"
                yield f"0x{payer.hex()[:8]} paid {to} {paid[payment]} grains of {reason}, not {expected[payment]}"
        for (owner, reason), grains in locked.items():
            if grains:
                yield f"{grains} grains of 0x{owner.hex()[:8]} stay in {reason}"
        for end in self.events(SessionEnded):
            if end.paid != self.cost:
                yield f"the session says that it cost {end.paid} grains, not {self.cost}"


@dataclass(slots=True)
class SessionLedger:
    """Sessions by id, and the fees that each account paid, from `next_height` on."""

    false: frozenset[bytes] = frozenset()
    """Providers whose claims are false."""
    sessions: dict[bytes, SessionTrace] = field(default_factory=dict)
    fees: Counter[bytes] = field(default_factory=Counter)
    session_of: dict[bytes, bytes] = field(default_factory=dict)
    """The session of each claim and dispute."""
    claim_of_dispute: dict[bytes, bytes] = field(default_factory=dict)
    locked: dict[bytes, list[tuple[int, Any]]] = field(default_factory=dict)
    """Locked money by session, until the event of its opening, which comes later in the block."""

    async def take(self, chain: ChainClient, height: int, block_hash: bytes, event: Any) -> None:
        """Take an event of a final block. See `BlockFollower`."""
        match event:
            case TransactionFeePaid():
                self.fees[event.who] += event.actual_fee
                return
            case SessionOpened():
                self.sessions[event.session] = SessionTrace(self.locked.pop(event.session, []), event)
            case Locked() if event.reason in (SESSION_MONEY, SESSION_DEPOSIT):
                self.locked.setdefault(event.case, []).append((height, event))
            case PeriodClaimed():
                self.session_of[event.claim] = event.session
                claim = await chain.read(ResultClaims.claims, event.claim, at=block_hash)
                self.sessions[event.session].claims[event.claim] = ReckonedPeriod(claim, false=self.false)
            case SessionSeated():
                record = await chain.read(Sessions.sessions, event.session, at=block_hash)
                self.sessions[event.session].record = record
            case ItemDisputed() if event.claim in self.session_of:
                self.session_of[event.dispute] = self.session_of[event.claim]
                self.claim_of_dispute[event.dispute] = event.claim
        subject = _subject_of(event)
        session_id = self.session_of.get(subject, subject)
        if session_id in self.sessions:
            trace = self.sessions[session_id]
            trace.happened.append((height, event))
            claim_id = self.claim_of_dispute.get(subject, subject)
            if claim_id in trace.claims:
                trace.claims[claim_id].take(height, event)
            _reckon(trace, height, event)

    def moved(self, account: bytes) -> int:
        """Return the expected gain of an account: that of all sessions by the tables, less its fees."""
        return sum(trace.gains()[account] for trace in self.sessions.values()) - self.fees[account]


def price_of_period(totals: Totals, rate: int, input_share: int) -> int:
    """Return the price of a period by the documents: at the session's rate, rounded up."""
    work = totals.tokens_out * PPM + totals.tokens_in * input_share
    return -(-work * rate // (PRICED_TOKENS * PPM))


def _subject_of(event: Any) -> bytes:
    names = ("dispute", "claim", "session", "case")
    subject = next((getattr(event, name) for name in names if hasattr(event, name)), b"")
    return subject if isinstance(subject, bytes) else b""


def _reckon(trace: SessionTrace, height: int, event: Any) -> None:
    """Note the heights of legs and the outcomes of claims, and add their pay."""
    match event:
        case SessionSeated():
            trace.legs[0] = ReckonedLeg(event.owner, height)
            if trace.record is not None and trace.record.spare is not None:
                trace.legs[SPARE_LEG] = ReckonedLeg(trace.record.spare.owner, height)
        case SessionHandedOver():
            _leave(trace, height)
            trace.legs[1] = ReckonedLeg(event.owner, height)
        case SessionClosing():
            assert trace.opened is not None, "a session opens before it closes"
            # A hook may close it some blocks after its term.
            _leave(trace, min(height, trace.opened.expires_at))
        case PeriodClaimed():
            _leg_of(trace, event).claimed += trace.claims[event.claim].amount
        case ClaimEnded():
            claim = trace.claims[event.claim]
            claim.outcome = event.outcome
            [claimed] = [each for each in trace.events(PeriodClaimed) if each.claim == event.claim]
            leg = _leg_of(trace, claimed)
            leg.is_refuted = leg.is_refuted or event.outcome is ClaimOutcome.REFUTED
            leg.has_passed = leg.has_passed or event.outcome is ClaimOutcome.PASSED
            if event.outcome is ClaimOutcome.PASSED:
                _pay(trace, leg.owner, claim.amount)
        case PlacePaid():
            _pay(trace, event.owner, _place_pay(trace, event.leg))
        case _:
            pass


def _leave(trace: SessionTrace, height: int) -> None:
    """Note the block in which the legs leave that have not left before."""
    for leg in trace.legs.values():
        leg.left_at = leg.left_at or height


def _leg_of(trace: SessionTrace, claimed: PeriodClaimed) -> ReckonedLeg:
    """Return the leg of a claim."""
    if claimed.period == SPARE_PERIOD:
        return trace.legs[SPARE_LEG]
    return next(leg for number, leg in trace.legs.items() if number != SPARE_LEG and leg.owner == claimed.owner)


def _place_pay(trace: SessionTrace, number: int) -> int:
    """Return the pay of a leg's place beyond its claims, at most the rest of the deposit."""
    record, opened, leg = trace.record, trace.opened, trace.legs[number]
    assert record is not None, "a paid place was drawn"
    assert opened is not None, "a drawn session was opened"
    open_claims = [claim.opened.terms for claim in trace.claims.values() if claim.outcome is None]
    reserved = sum(terms.price + terms.fees_held for terms in open_claims)
    spent = sum(claim.fees_paid for claim in trace.claims.values() if claim.outcome is None)
    left = opened.deposit - trace.cost - (reserved - spent)
    rate = opened.rate * record.pace // (PLACE_PART * PRICED_TOKENS)
    if number == SPARE_LEG:
        rate = rate // SPARE_PART if leg.has_passed else 0
    owed = rate * (leg.left_at - leg.since) - leg.claimed
    return 0 if leg.is_refuted else max(0, min(owed, left))


def _pay(trace: SessionTrace, owner: bytes, grains: int) -> None:
    """Add a payment out of the deposit, with its settlement fee."""
    opened, record = trace.opened, trace.record
    assert opened is not None, "a paid session was opened"
    assert record is not None, "a paid session was drawn"
    for share in earned(grains, record.rules.settlement_fee, owner, TREASURY):
        if share.amount:
            trace.flows.append(HoldFlow(opened.customer, SESSION_MONEY.name, share.payee, share.amount))
