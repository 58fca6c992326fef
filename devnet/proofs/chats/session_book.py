"""Sessions on the final chain: their events, the payments that the rules state, and the sums that differ.

Invariant: the expected sums come from the amounts of claims and places and the share of the settlement fee. The
payments come from the chain's own events of paid holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from devnet.stage.actors.purchase import name_of_account
from devnet.stage.measuring.claim_money import BOND_REASONS, ReckonedClaim
from devnet.stage.measuring.ledger import EventTrace, final_blocks
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.money import Purse
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.records import COLLATERAL
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
from runtime.frame.holds import HoldReason
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part
from runtime.pallets.staking.trust_lock import Paid
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient

SESSION_EVENTS = (
    SessionOpened, SessionSeated, PeriodClaimed, SessionClosing, SessionHandedOver, PlacePaid, SessionEnded,
)  # fmt: skip


@dataclass
class ReckonedPeriod(ReckonedClaim):
    """The payments of the claim of one period. Everybody is honest here."""

    reasons: ClassVar[Mapping[Purse, HoldReason]] = {
        **BOND_REASONS, Purse.CUSTOMER: SESSION_MONEY, Purse.PROVIDER: COLLATERAL,
    }  # fmt: skip

    def is_false(self, provider: bytes) -> bool:
        """See `ReckonedClaim`."""
        return False

    def is_deaf(self, checker: bytes) -> bool:
        """See `ReckonedClaim`."""
        return False


@dataclass(slots=True)
class SessionTrace(EventTrace):
    """The events of one session and of its claims, and the payments out of its deposit."""

    periods: list[ReckonedPeriod] = field(default_factory=list)
    """The payments of its claims by the table of claims."""

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
        for period in self.periods:
            for flow in period.flows:
                expected[flow.payee] += flow.grains if flow.reason == SESSION_MONEY.name else 0
        paid: Counter[bytes | None] = Counter()
        for payment in self.events(Paid):
            paid[payment.payee] += payment.amount
        for payee in {*expected, *paid}:
            if expected[payee] != paid[payee]:
                name = "nobody" if payee is None else name_of_account(payee)
                yield f"{name} got {paid[payee]} grains, and claims, places and checks come to {expected[payee]}"
        if ends[0].paid != paid.total():
            yield f"the session states {ends[0].paid} paid grains, and {paid.total()} left its deposit"
        if outcomes.keys() != {claim.claim for claim in self.claims}:
            yield f"{len(outcomes)} of {len(self.claims)} claims have ended"


@dataclass(slots=True)
class SessionBook:
    """Sessions by id, and the fees of each account, in the blocks below `next_height`."""

    next_height: int = 1
    sessions: dict[bytes, SessionTrace] = field(default_factory=dict)
    fees: Counter[bytes] = field(default_factory=Counter)
    periods: dict[bytes, ReckonedPeriod] = field(default_factory=dict)
    """By claim."""
    _session_of_claim: dict[bytes, bytes] = field(default_factory=dict)

    async def read_on(self, chain: ChainClient) -> None:
        """Read the new final blocks."""
        async for height, at_block, events in final_blocks(chain, self.next_height):
            for event in events:
                self.take(height, event)
                if isinstance(event, PeriodClaimed):
                    self.open_claim(event, await chain.read(ResultClaims.claims, event.claim, at=at_block))
            self.next_height = height + 1

    def take(self, height: int, event: object) -> None:
        """Take an event of the block at this height."""
        if isinstance(event, TransactionFeePaid):
            self.fees[event.who] += event.actual_fee
            return
        claim = getattr(event, "claim", None)
        if isinstance(claim, bytes) and claim in self.periods:
            self.periods[claim].take(height, event)
        session = self._session_of(event)
        if session is not None:
            self.trace(session).happened.append((height, event))

    def trace(self, session: bytes) -> SessionTrace:
        """Return the events of a session, empty at first."""
        return self.sessions.setdefault(session, SessionTrace())

    def open_claim(self, event: PeriodClaimed, claim: Any) -> None:
        """Follow the claim of a period, which opened in the event's block."""
        period = self.periods[event.claim] = ReckonedPeriod(claim)
        self.trace(event.session).periods.append(period)
        self._session_of_claim[event.claim] = event.session

    def _session_of(self, event: Any) -> bytes | None:
        if isinstance(event, SESSION_EVENTS):
            session: bytes = event.session
            return session
        if isinstance(event, ClaimEnded):
            return self._session_of_claim.get(event.claim)
        is_paid = isinstance(event, Paid) and event.reason.name == SESSION_MONEY.name
        return event.case if is_paid else None
