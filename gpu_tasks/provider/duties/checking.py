"""Checks of claims: as checker, compute the drawn items of others; as provider, show samples of its own.

Invariants:

* A finding and the samples follow from the final chain, the input and the journal alone, so they are the same after a
  restart.
* A checker commits before the provider shows its samples, and the provider shows them only once that commitment is
  final. So neither can copy the other.
* A checker calls an item wrong only if its own computation of the whole item agrees. It never concedes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.claims.claims import Check, CheckEnd, ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.findings import Finding, ItemSample, Samples, Verdict, finding_commitment
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, View
from gpu_tasks.provider.duties.duty import telling_refusals
from gpu_tasks.provider.duties.item_sources import FetchedItems, ItemSources, source_of
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepKey, StepMessage
from gpu_tasks.provider.duties.statements import ClaimStep, StatementDuty, StatementTurn
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.records import FindingEntry
from gpu_tasks.provider.telemetry import failure
from runtime.frame.call import Call

SHOWN_AT_ONCE = 8
"""Own results in memory at once, while their samples are computed."""


@dataclass(frozen=True, slots=True)
class CheckTurn(StatementTurn):
    """The turn of a claim's checker."""

    claim: ResultClaim

    @property
    def check(self) -> Check:
        """The present check."""
        return self.claim.checks[-1]


class CheckingDuty(StatementDuty[CheckTurn, Finding, FindingEntry]):
    """The steps of all claims."""

    def __init__(self, parts: Parts[ClaimPort], sources: ItemSources) -> None:
        """See `StatementDuty`. Checks and samples have separate places in memory."""
        super().__init__(parts)
        self.sources = sources
        self.entries = parts.journal.findings
        self._showing = asyncio.Semaphore(SHOWN_AT_ONCE)
        self._shown: dict[StepKey, tuple[bytes, Samples]] = {}
        """The computed samples of own claims, with their seed."""

    async def step(self, view: View) -> None:
        """Take the due steps of all claims."""
        self.begin_step(view)
        keys: set[StepKey] = set()
        for status in view.claims:
            # A later release may have further markets.
            if status.claim.terms.handler in self.sources:
                keys.add(_key_of(status))
                with telling_refusals(self.parts.telemetry, status.id):
                    await self._act(status, view)
        await self.end_step(keys, view)

    def forget(self, key: StepKey) -> None:
        """See `StatementDuty`."""
        super().forget(key)
        self._shown.pop(key, None)

    async def _act(self, status: ClaimStatus, view: View) -> None:
        claim, stash = status.claim, self.parts.identity.stash
        is_checker = bool(claim.checks) and claim.checks[-1].checker == stash
        if claim.stage in (ClaimStage.COMMITTING, ClaimStage.OPENING) and is_checker:
            await self.take(_turn_of(status), view.newest)
        is_own_turn = claim.stage is ClaimStage.SHOWING and claim.terms.provider == stash
        if is_own_turn and self.book.is_due(_key_of(status), ClaimStep.SHOW):
            self.book.tasks.start(_key_of(status), self._show(status))

    # ----------------------------------------------------------------------------------------------------- the checker

    async def _found(self, turn: CheckTurn) -> Finding:
        claim_id, claim = turn.key[0], await self._final(turn)
        with self._fetching(turn):
            items = await source_of(self.sources, claim.terms.handler).fetched(claim_id, claim)
        samples: dict[int, ItemSample] = {}
        indices = [items.index_at(point) for point in claim.points]
        for place, index in enumerate(indices):
            if index in samples:
                continue
            found = await items.check(index, turn.check.seed, Activity.CHECKS)
            if found is None:
                await _confirm_wrong(items, index)
                self.parts.telemetry.tell("item_refuted", claim=claim_id, item=index)
                return Finding(Verdict.WRONG, place, ())
            samples[index] = found
        return Finding(Verdict.RIGHT, 0, tuple(samples[index] for index in indices))

    async def _final(self, turn: CheckTurn) -> ResultClaim:
        """Return the claim in the final chain. Raise ChainError if it has other points or another check."""
        final = await self.parts.chain.claim(turn.key[0], final=True)
        if final is None or (final.terms, final.points) != (turn.claim.terms, turn.claim.points):
            raise ChainError("the final chain does not have the claim's points", code="claim_not_final")
        seeds = [check.seed for check in final.checks]
        if seeds != [check.seed for check in turn.claim.checks]:
            raise ChainError("the final chain does not have the check", code="claim_not_final")
        return final

    def _cannot_fetch(self, turn: CheckTurn) -> Finding:
        # A drawn place: a provider that knew it in advance would compute only the item there.
        place = int.from_bytes(turn.check.seed, "little") % len(turn.claim.points)
        return Finding(Verdict.UNAVAILABLE, place, ())

    def _entry(self, statement: Finding, salt: bytes) -> FindingEntry:
        return FindingEntry(statement, salt)

    def _commitment(self, turn: CheckTurn, entry: FindingEntry) -> bytes:
        identity, (claim_id, number) = self.parts.identity, turn.key
        return finding_commitment(identity.genesis, claim_id, number, identity.stash, entry.statement, entry.salt)

    def _call(self, turn: CheckTurn, step: ClaimStep, entry: FindingEntry) -> Call:
        claim_id = turn.key[0]
        if step is ClaimStep.COMMIT:
            return ResultClaims.commit_finding(claim=claim_id, commitment=self._commitment(turn, entry))
        return ResultClaims.open_finding(claim=claim_id, finding=entry.statement, salt=entry.salt)

    async def _final_commitment(self, turn: CheckTurn) -> bytes | None:
        claim_id, number = turn.key
        final = await self.parts.chain.claim(claim_id, final=True)
        return None if final is None or len(final.checks) != number + 1 else final.checks[number].commitment

    # ---------------------------------------------------------------------------------------------------- the provider

    async def _show(self, status: ClaimStatus) -> None:
        """Show the samples of the drawn items at the seed of a check whose commitment is final."""
        claim_id, key, seed = status.id, _key_of(status), status.claim.checks[-1].seed
        tell = self.parts.telemetry.tell
        try:
            final = await self._committed(claim_id, key[1], seed)
            if self._shown.get(key, (b"",))[0] != seed:
                async with self._showing:
                    self._shown[key] = seed, await self._samples(claim_id, final, seed)
            call = ResultClaims.show_samples(claim=claim_id, samples=self._shown[key][1])
            await self.book.send(StepMessage(call, "samples_shown", {"claim": claim_id}))
            self.book.note_sent(key, ClaimStep.SHOW)
        except (ChainError, ExecutionError, BlobError, UnusableInputError) as error:
            tell("samples_not_shown", claim=claim_id, **failure(error))

    async def _committed(self, claim_id: bytes, number: int, seed: bytes) -> ResultClaim:
        """Return the claim in the final chain. Raise ChainError before a check's finding is committed there."""
        final = await self.parts.chain.claim(claim_id, final=True)
        if final is None or not _is_committed(final, number, seed):
            raise ChainError("the final chain does not have the checker's commitment", code="claim_not_final")
        return final

    async def _samples(self, claim_id: bytes, claim: ResultClaim, seed: bytes) -> Samples:
        items = await source_of(self.sources, claim.terms.handler).own(claim_id, claim)
        indices = [items.index_at(point) for point in claim.points]
        samples = {index: await items.sample(index, seed) for index in sorted(set(indices))}
        return tuple(samples[index] for index in indices)

    async def _is_over(self, subject: bytes) -> bool:
        return await self.parts.chain.claim(subject, final=True) is None


def _key_of(status: ClaimStatus) -> StepKey:
    """Return the journal's key of the newest check. A dispute before any check has number 0."""
    return status.id, max(0, len(status.claim.checks) - 1)


def _turn_of(status: ClaimStatus) -> CheckTurn:
    claim = status.claim
    check = claim.checks[-1]
    is_open = check.end is CheckEnd.OPEN
    return CheckTurn(
        _key_of(status),
        check.commitment,
        may_commit=is_open and claim.stage is ClaimStage.COMMITTING,
        may_open=is_open and claim.stage is ClaimStage.OPENING and check.finding is None,
        deadline=claim.deadline,
        window=claim.window,
        claim=claim,
    )


def _is_committed(claim: ResultClaim, number: int, seed: bytes) -> bool:
    """Return True if a check's finding is committed."""
    if len(claim.checks) != number + 1:
        return False
    return claim.checks[number].seed == seed and claim.checks[number].commitment is not None


async def _confirm_wrong(items: FetchedItems, index: int) -> None:
    """Raise ExecutionError if a computation of the whole item does not confirm that it is wrong."""
    # A false accusation costs the checker its collateral, and its silence a fee.
    if not await items.is_confirmed_wrong(index, Activity.CHECKS):
        raise ExecutionError("this machine's check and its computation differ", code="unsure")
