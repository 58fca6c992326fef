"""Appeals of decisions of nine voters that contradict this provider's own computation.

Without an appeal, five of nine voters decide, so they could take an honest provider's collateral. An appeal needs no
bond. A party appeals at once. An outvoted voter waits for that appeal, and appeals last.

Invariants:

* A racer, a winner or a checker appeals a decision that contradicts its result or its finding.
* A racer that declined an input appeals only with a copy that shows the input to be unusable.
* A checker whose finding is `UNAVAILABLE` appeals only if the provider still does not deliver.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import DeliveryError
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.convictions import convicted, open_check
from gpu_tasks.market.claims.disputes import DRAWN, Dispute, DisputeQuestion, DisputeStage
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.money import Purse
from gpu_tasks.market.claims.voting import charged
from gpu_tasks.market.inference.gpu_tasks_api import DutyStatus
from gpu_tasks.market.inference.units import Racer, UnitState, racer_of
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, View
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.item_sources import ItemSources, source_of
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepKey, StepMessage
from gpu_tasks.provider.duties.statements import ClaimStep
from gpu_tasks.provider.earnings import utc_text
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.telemetry import Detail, failure
from wallet.amounts import format_amount

LAST_CALL_BLOCKS = 6
"""This many blocks before a decision becomes final, an outvoted voter appeals if nobody else has."""

IsWronged = Callable[[Dispute], Coroutine[Any, Any, bool]]
"""Whether a decision contradicts this provider's own computation."""


@dataclass(frozen=True, slots=True)
class OwnDispute:
    """An open dispute that may cost this provider money, and a test of the decision."""

    id: bytes
    subject: Mapping[str, Detail]
    """Telemetry's field for the disputed work."""
    held: int
    """This provider's grains at stake."""
    is_wronged: IsWronged


class DisputeAppealDuty(Duty):
    """The appeals of this provider as racer, winner of a race or a task, checker or voter."""

    def __init__(
        self,
        parts: Parts[ClaimPort],
        sources: ItemSources,
        of_tasks: Callable[[], Iterable[OwnDispute]] = lambda: (),
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Nothing is appealed yet. `of_tasks` returns the open disputes about this provider's tasks.

        `clock_ns` gives nanoseconds since 1970.
        """
        self.parts = parts
        self.sources = sources
        self._of_tasks = of_tasks
        self.book: StepBook[ClaimStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self._clock = clock_ns
        self._keys: set[StepKey] = set()
        self._warned: set[bytes] = set()

    async def step(self, view: View) -> None:
        """Look at the decisions of all own disputes."""
        self.book.look(view)
        keys: set[StepKey] = set()
        for own in self._own_disputes(view):
            key = own.id, 0
            keys.add(key)
            self.book.tasks.start(key, self._look(key, own))
        for key in self._keys - keys:
            self.book.forget(key)
            self._warned.discard(key[0])
        self._keys = keys

    def _own_disputes(self, view: View) -> Iterator[OwnDispute]:
        stash = self.parts.identity.stash
        for status in view.claims:
            claim = status.claim
            if claim.stage is ClaimStage.DISPUTED and claim.terms.handler in self.sources:
                of_claim, held = dispute_id_of(status.id, claim.disputes - 1), _held(claim, stash)
                yield OwnDispute(of_claim, {"claim": status.id}, held, self._of_claim(status))
        for duty in view.duties:
            racer, dispute_id = racer_of(duty.status.unit, stash), duty.status.dispute
            if duty.status.unit.state is UnitState.DISPUTED and racer is not None and dispute_id is not None:
                yield OwnDispute(dispute_id, {"unit": duty.id}, racer.collateral, self._of_race(duty, racer))
        yield from self._of_tasks()
        for ballot in view.ballots:
            if is_outvoted(ballot, view.newest):
                work = ballot.status.dispute.terms.work
                yield OwnDispute(ballot.id, {"work": work}, ballot.ballot.held, _always)

    async def _look(self, key: StepKey, own: OwnDispute) -> None:
        """Appeal a decision that contradicts this provider's computation."""
        tell = self.parts.telemetry.tell
        try:
            dispute = await self.parts.chain.item_dispute(own.id)
            if dispute is None or dispute.stage is not DisputeStage.APPEALABLE or not await own.is_wronged(dispute):
                return
            await self._warn(own, dispute)
            if self.book.is_due(key, ClaimStep.APPEAL):
                call = Disputes.appeal(dispute=own.id)
                await self.book.send(StepMessage(call, "appealed", {**own.subject, "dispute": own.id}))
        except (ChainError, ExecutionError) as error:
            tell("refused", **own.subject, **failure(error))

    async def _warn(self, own: OwnDispute, dispute: Dispute) -> None:
        """Report a decision against this provider once: the amount at stake and the appeal deadline."""
        if own.id in self._warned:
            return
        self._warned.add(own.id)
        until = dispute.appealable_until
        blocks_left = until - self.book.newest
        until_ms = self._clock() // 1_000_000 + blocks_left * await self.parts.chain.slot_ms()
        problem = (
            f"voters decided against this provider: {format_amount(own.held)} oGPU are lost unless an appeal succeeds. "
            f"The daemon appeals; the decision is final after block {until} ({utc_text(until_ms)})"
        )
        self.parts.telemetry.tell(
            "found_wrong",
            **own.subject,
            dispute=own.id,
            grains=own.held,
            appealable_until=until,
            problem=problem,
        )

    # ---------------------------------------------------------------------------------------------- tests of a decision

    def _of_claim(self, status: ClaimStatus) -> IsWronged:
        async def is_wronged_in_claim(dispute: Dispute) -> bool:
            claim, stash = status.claim, self.parts.identity.stash
            if is_doubted(claim, dispute, stash):
                return await self._is_withheld(status, dispute)
            return is_wronged(claim, dispute, stash)

        return is_wronged_in_claim

    def _of_race(self, duty: DutyStatus, racer: Racer) -> IsWronged:
        async def is_wronged_in_race(dispute: Dispute) -> bool:
            terms, vote = dispute.terms, dispute.vote
            if vote is None or racer.owner not in terms.parties:
                return False
            if terms.question is DisputeQuestion.INPUT:
                is_charged = racer.has_declined and vote.verdict is Verdict.RIGHT
                return is_charged and await self.parts.inputs.is_shown_unusable(duty.id, duty.status.unit)
            if racer.reveal is None:
                return False
            # A racer with a result has opened the input.
            return vote.verdict is not Verdict.RIGHT or vote.answer != racer.reveal.output_root

        return is_wronged_in_race

    async def _is_withheld(self, status: ClaimStatus, dispute: Dispute) -> bool:
        """Return True if the provider of a claim delivers nothing to this checker in half of the appeal window."""
        seconds = dispute.windows.appeal * await self.parts.chain.slot_ms() / 2_000
        try:
            async with asyncio.timeout(seconds):
                await source_of(self.sources, status.claim.terms.handler).fetched(status.id, status.claim)
        except (BlobError, DeliveryError, TimeoutError):
            return True
        return False


def is_wronged(claim: ResultClaim, dispute: Dispute, stash: bytes) -> bool:
    """Return True if a decision of nine voters can be appealed and contradicts the stash's own computation.

    A checker that could not fetch an item has computed nothing: see `is_doubted`.
    """
    if dispute.stage is not DisputeStage.APPEALABLE or dispute.vote is None:
        return False
    if claim.disputer is not None:
        return stash == claim.terms.provider and dispute.vote.verdict is not Verdict.RIGHT
    found = convicted(claim, dispute.vote)
    return (stash == claim.terms.provider and found.is_provider) or stash in found.checkers


def is_doubted(claim: ResultClaim, dispute: Dispute, stash: bytes) -> bool:
    """Return True if voters fetched an item that the stash, as the claim's checker, could not fetch."""
    check = open_check(claim)
    if claim.disputer is not None or check is None or check.checker != stash or check.finding is None:
        return False
    has_fetched = dispute.vote is not None and dispute.vote.verdict is Verdict.RIGHT
    return check.finding.verdict is Verdict.UNAVAILABLE and has_fetched


def is_outvoted(status: BallotStatus, height: int) -> bool:
    """Return True if a decision that charges this voter for its vote is about to become final."""
    dispute, ballot = status.status.dispute, status.ballot
    if dispute.stage is not DisputeStage.APPEALABLE or ballot.round != DRAWN:
        return False
    # In the last blocks only: the parties appeal first, and one appeal is enough.
    is_last_call = height <= dispute.appealable_until <= height + LAST_CALL_BLOCKS
    return is_last_call and charged(ballot.vote, dispute.vote) is Purse.OUTVOTED


async def _always(_: Dispute) -> bool:
    return True


def _held(claim: ResultClaim, stash: bytes) -> int:
    """Return the grains that a party of a claim's dispute can lose."""
    if stash == claim.terms.provider:
        return claim.terms.collateral - claim.charged
    return sum(check.held for check in claim.checks if check.checker == stash)
