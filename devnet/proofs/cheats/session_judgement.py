"""The required outcomes of sessions: claims by signed vouchers alone, payments to the grain, bounded honest losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from devnet.proofs.cheats.findings import AmountCheck, CheatFinding
from devnet.proofs.cheats.session_scenes import CustomerScene, ProviderScene
from devnet.stage.cheating.races import ACCEPTED_ANSWER
from devnet.stage.cheating.session_cheats import FORGING_MODE
from devnet.stage.measuring.session_ledger import SessionTrace, price_of_period
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.dispute_events import VoterCharged
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.sessions.events import PeriodClaimed, SessionEnded
from gpu_tasks.market.sessions.records import SPARE_PERIOD, SessionEnd
from gpu_tasks.market.sessions.spares import proof_totals
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.sessions.messages import UNPAID_TOKENS_MAX
from runtime.pallets.staking.trust_lock import Paid


@dataclass(slots=True)
class PlayedSession:
    """One session of a scene, as its customer saw it."""

    id: bytes
    scene: ProviderScene | CustomerScene
    signed: list[Voucher] = field(default_factory=list)
    """The vouchers that the provider may claim by, in order."""
    tokens: int = 0
    """The tokens that the customer got."""
    code: str = ""
    """The code with which the stream ended."""
    problems: list[str] = field(default_factory=list)

    @property
    def claimable(self) -> list[Voucher]:
        """The voucher of each claim, by period. A provider that claims by an old one takes the first."""
        is_old = isinstance(self.scene, ProviderScene) and self.scene.mode == FORGING_MODE
        vouchers = reversed(self.signed) if is_old else self.signed
        by_period = {voucher.period: voucher for voucher in vouchers}
        return [by_period[period] for period in sorted(by_period)]

    @property
    def unpaid(self) -> int:
        """The tokens that the customer got and no voucher pays."""
        newest = {voucher.period: voucher.totals.tokens_out for voucher in self.signed}
        return self.tokens - sum(newest.values())


@dataclass(frozen=True, slots=True)
class JudgedSession:
    """One session that has ended, with its events."""

    played: PlayedSession
    trace: SessionTrace
    attempts: tuple[Mapping[str, Any], ...] = ()
    """The provider's false calls, with the chain's answers."""

    def record_in(self, finding: CheatFinding) -> None:
        """Add the session to the findings of its scene."""
        finding.sessions += 1
        finding.tried += len(self.attempts)
        finding.refused += sum(attempt["answer"] != ACCEPTED_ANSWER for attempt in self.attempts)
        finding.checks += self.amounts()
        for claim in self.trace.claims.values():
            finding.count(f"claim {claim.outcome.name if claim.outcome is not None else 'open'}")
        for attempt in self.attempts:
            finding.count(f"{attempt['what']}: {attempt['answer'].partition(':')[0]}")
        if self.played.code:
            finding.count(self.played.code)
        finding.failures += [f"session 0x{self.played.id.hex()[:8]}: {failure}" for failure in self.failures()]

    def amounts(self) -> list[AmountCheck]:
        """Return the amounts of claims, the pay of places, the cost and the lost collateral, beside the tables'."""
        trace, unit = self.trace, f"0x{self.played.id.hex()}"
        amounts = self._amounts_of_claims()
        claims = trace.all(PeriodClaimed)
        checks = [
            AmountCheck("PeriodClaimed", unit, height, event.amount, amounts.get(event.period, 0))
            for height, event in claims
        ]
        checks += [
            AmountCheck("SessionEnded", unit, height, event.paid, trace.cost)
            for height, event in trace.all(SessionEnded)
        ]
        expected = sum(grains for (_, reason, _), grains in trace.payments.items() if reason == COLLATERAL.name)
        paid = [(height, event) for height, event in trace.all(Paid) if event.reason == COLLATERAL]
        if expected or paid:
            lost = sum(event.amount for _, event in paid)
            checks.append(AmountCheck(COLLATERAL.name, unit, paid[0][0] if paid else 0, lost, expected))
        return checks

    def failures(self) -> Iterator[str]:
        """Yield a sentence for each failed requirement."""
        yield from self.played.problems
        yield from self._end_failures()
        yield from self._claim_failures()
        yield from self._loss_failures()
        yield from self.trace.wrong()
        for attempt in self.attempts:
            if attempt["answer"] == ACCEPTED_ANSWER:
                yield f"the chain accepted {attempt['what']}"
        for check in self.amounts():
            if check.taken != check.expected:
                yield f"{check.what} has {check.taken} grains, not {check.expected}"

    def _amounts_of_claims(self) -> dict[int, int]:
        record = self.trace.record
        if record is None:
            return {}
        totals = {voucher.period: voucher.totals for voucher in self.played.claimable}
        totals[SPARE_PERIOD] = proof_totals(bytes(32))
        return {period: price_of_period(each, record.rate, record.input_share) for period, each in totals.items()}

    def _end_failures(self) -> Iterator[str]:
        scene = self.played.scene
        ends = [event.end for event in self.trace.events(SessionEnded)]
        if ends != [SessionEnd.SETTLED]:
            yield f"it ended as {ends}"
        if isinstance(scene, CustomerScene) and self.played.code != scene.code:
            yield f"its stream ended with {self.played.code!r}, not {scene.code!r}"

    def _claim_failures(self) -> Iterator[str]:
        scene, claimed = self.played.scene, [event.period for event, _ in self.trace.periods]
        periods = [voucher.period for voucher in self.played.claimable]
        if claimed != periods:
            yield f"the periods {claimed} were claimed, and {periods} were promised"
        outcome = scene.outcome if isinstance(scene, ProviderScene) else ClaimOutcome.PASSED
        for _, claim in self.trace.periods:
            if claim.outcome is not outcome:
                yield f"a claim ended as {claim.outcome}, not {outcome}"

    def _loss_failures(self) -> Iterator[str]:
        """Yield a sentence for a loss of an honest party that the documents rule out."""
        scene = self.played.scene
        limit = scene.tokens if isinstance(scene, CustomerScene) else UNPAID_TOKENS_MAX
        if self.played.unpaid > limit:
            yield f"the provider sent {self.played.unpaid} unpaid tokens, and {limit} are the limit"
        is_refuted = isinstance(scene, ProviderScene) and scene.outcome is ClaimOutcome.REFUTED
        if is_refuted and self.trace.cost > self._fees() + self.trace.spare_pay:
            yield f"the customer of a refuted provider paid {self.trace.cost} grains"
        for charge in self.trace.events(VoterCharged):
            yield f"0x{charge.voter.hex()[:8]} lost {charge.amount} grains as a voter"

    def _fees(self) -> int:
        """Return the fees of passed checks, which a customer pays in any case."""
        return sum(claim.fees_paid for claim in self.trace.claims.values())
