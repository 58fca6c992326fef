"""Sessions on the final chain: their events, the payments that the rules state, and the sums that differ.

Invariant: the expected sums come from the amounts of claims and places and the share of the settlement fee. The
payments come from the chain's own events of paid holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from devnet.stage.actors.purchase import name_of_account
from devnet.stage.measuring.ledger import EventTrace
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.events import (
    PeriodClaimed,
    PlacePaid,
    SessionClosing,
    SessionEnded,
    SessionHandedOver,
    SessionOpened,
    SessionSeated,
)
from gpu_tasks.market.sessions.records import SESSION_MONEY, SessionEnd
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part
from runtime.pallets.staking.trust_lock import Paid
from runtime.pallets.transaction_payment import TransactionFeePaid

SESSION_EVENTS = (
    SessionOpened, SessionSeated, PeriodClaimed, SessionClosing, SessionHandedOver, PlacePaid, SessionEnded,
)  # fmt: skip


@dataclass(slots=True)
class SessionTrace(EventTrace):
    """The events of one session and of its claims, and the payments out of its deposit."""

    @property
    def claims(self) -> list[PeriodClaimed]:
        """Its claims, in order."""
        return self.events(PeriodClaimed)

    @property
    def outcomes(self) -> dict[bytes, ClaimOutcome]:
        """The outcome of each ended claim."""
        return {ended.claim: ended.outcome for ended in self.events(ClaimEnded)}

    @property
    def end(self) -> SessionEnded | None:
        """Its end, or None before it."""
        return next(iter(self.events(SessionEnded)), None)

    def paid_to(self, payee: bytes | None) -> int:
        """Return the grains that left the deposit for an account, or were burned."""
        return sum(payment.amount for payment in self.events(Paid) if payment.payee == payee)

    def wrong_sums(self, settlement_fee: int) -> Iterator[str]:
        """Yield a sentence for each sum of the ended session that is not as the rules state."""
        ends = self.events(SessionEnded)
        if [end.end for end in ends] != [SessionEnd.SETTLED]:
            yield f"the session ended {len(ends)} times: {', '.join(end.end.name for end in ends)}"
            return
        expected: Counter[bytes | None] = Counter()
        outcomes = self.outcomes
        payments = [
            *((claim.owner, claim.amount) for claim in self.claims if outcomes.get(claim.claim) is ClaimOutcome.PASSED),
            *((place.owner, place.amount) for place in self.events(PlacePaid)),
        ]
        for owner, amount in payments:
            fee = part(amount, settlement_fee)
            expected[owner] += amount - fee
            expected[TREASURY] += fee // 2
            expected[None] += fee - fee // 2
        paid: Counter[bytes | None] = Counter()
        for payment in self.events(Paid):
            paid[payment.payee] += payment.amount
        for payee in {*expected, *paid}:
            if expected[payee] != paid[payee]:
                name = "nobody" if payee is None else name_of_account(payee)
                yield f"{name} got {paid[payee]} grains, and claims and places come to {expected[payee]}"
        if ends[0].paid != paid.total():
            yield f"the session states {ends[0].paid} paid grains, and {paid.total()} left its deposit"
        if outcomes.keys() != {claim.claim for claim in self.claims}:
            yield f"{len(outcomes)} of {len(self.claims)} claims have ended"


@dataclass(slots=True)
class SessionBook:
    """Sessions by id, and the fees of each account (`EventBook`)."""

    next_height: int = 1
    sessions: dict[bytes, SessionTrace] = field(default_factory=dict)
    fees: Counter[bytes] = field(default_factory=Counter)
    _session_of_claim: dict[bytes, bytes] = field(default_factory=dict)

    def take(self, height: int, event: object) -> None:
        """See `EventBook`."""
        if isinstance(event, TransactionFeePaid):
            self.fees[event.who] += event.actual_fee
            return
        session = self._session_of(event)
        if session is None:
            return
        self.sessions.setdefault(session, SessionTrace()).happened.append((height, event))
        if isinstance(event, PeriodClaimed):
            self._session_of_claim[event.claim] = session

    def _session_of(self, event: Any) -> bytes | None:
        if isinstance(event, SESSION_EVENTS):
            session: bytes = event.session
            return session
        if isinstance(event, ClaimEnded):
            return self._session_of_claim.get(event.claim)
        is_paid = isinstance(event, Paid) and event.reason.name == SESSION_MONEY.name
        return event.case if is_paid else None
