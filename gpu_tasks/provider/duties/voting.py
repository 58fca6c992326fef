"""Votes about disputed items: fetch the data, compute the right outcome, commit to a vote and open it.

Invariant: all honest voters of a round give equal votes, because each follows from the final chain and the input alone.
An item is checked by the workload's shorter way where it has one, and computed as a whole only if it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, Dispute, DisputeQuestion, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemVote, Verdict, vote_commitment
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, View
from gpu_tasks.provider.duties.duty import telling_refusals
from gpu_tasks.provider.duties.item_sources import ItemSources, source_of
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepKey
from gpu_tasks.provider.duties.sides import Patience
from gpu_tasks.provider.duties.statements import ClaimStep, StatementDuty, StatementTurn
from gpu_tasks.provider.journal.records import VoteEntry
from runtime.frame.call import Call

ATTEMPTS_A_WINDOW = 6
"""Attempts to fetch the results of all sides in one window, so that a third of it is left for the computation."""


@dataclass(frozen=True, slots=True)
class VoteTurn(StatementTurn):
    """The turn of a voter in a round of a dispute."""

    dispute: Dispute


class VotingDuty(StatementDuty[VoteTurn, ItemVote, VoteEntry]):
    """The ballots of this provider."""

    def __init__(self, parts: Parts[ClaimPort], sources: ItemSources) -> None:
        """See `StatementDuty`."""
        super().__init__(parts)
        self.sources = sources
        self.entries = parts.journal.votes

    async def step(self, view: View) -> None:
        """Take the due steps of all ballots."""
        self.begin_step(view)
        keys: set[StepKey] = set()
        for status in view.ballots:
            dispute = status.status.dispute
            # A later release may have further markets.
            if dispute.terms.handler not in (ResultClaims.index, *self.sources):
                continue
            turn = turn_of(status)
            keys.add(turn.key)
            with telling_refusals(self.parts.telemetry, status.id):
                await self.take(turn, view.newest)
        await self.end_step(keys, view)

    async def _found(self, turn: VoteTurn) -> ItemVote:
        dispute_id, dispute = turn.key[0], await self._final(turn)
        question, handler = dispute.terms.question, dispute.terms.handler
        if question is DisputeQuestion.ITEM:
            return await self._about_item(turn, dispute_id, dispute)
        source, fetching = source_of(self.sources, handler), partial(self._fetching, turn)
        if question is DisputeQuestion.INPUT:
            return await source.input_vote(dispute, fetching)
        return await source.right_side((dispute_id, dispute), fetching, await self._patience(turn))

    async def _patience(self, turn: VoteTurn) -> Patience:
        def is_late() -> bool:
            return 0 < turn.deadline <= self.book.newest + turn.window // 2

        return Patience(turn.window * await self.parts.chain.slot_ms() / ATTEMPTS_A_WINDOW / 1_000, is_late)

    async def _about_item(self, turn: VoteTurn, dispute_id: bytes, dispute: Dispute) -> ItemVote:
        """Check the provider's item, and compute it if it is wrong."""
        claim_id, terms = dispute.terms.work, dispute.terms
        claim = await self.parts.chain.claim(claim_id, final=True)
        if claim is None:
            raise ChainError("the final chain does not have the claim", code="claim_not_final")
        source = source_of(self.sources, claim.terms.handler)
        with self._fetching(turn):
            items = await source.fetched(claim_id, claim, (dispute_id, dispute))
        index = terms.index if terms.point is None else items.index_at(terms.point)
        vote = await items.vote(index, seeds_of(dispute))
        event = "verified" if vote.verdict is Verdict.RIGHT else "recomputed"
        self.parts.telemetry.tell(event, claim=claim_id, item=index)
        return vote

    async def _final(self, turn: VoteTurn) -> Dispute:
        """Return the dispute in the final chain. Raise ChainError if it has other terms or another seed."""
        final = await self.parts.chain.item_dispute(turn.key[0], final=True)
        if final is None or (final.terms, final.seed) != (turn.dispute.terms, turn.dispute.seed):
            raise ChainError("the final chain does not have the dispute's voters", code="dispute_not_final")
        return final

    def _cannot_fetch(self, _turn: VoteTurn) -> ItemVote:
        return CANNOT_FETCH

    def _entry(self, statement: ItemVote, salt: bytes) -> VoteEntry:
        return VoteEntry(statement, salt)

    def _commitment(self, turn: VoteTurn, entry: VoteEntry) -> bytes:
        identity, (dispute_id, number) = self.parts.identity, turn.key
        return vote_commitment(identity.genesis, dispute_id, number, identity.stash, entry.statement, entry.salt)

    def _call(self, turn: VoteTurn, step: ClaimStep, entry: VoteEntry) -> Call:
        dispute_id = turn.key[0]
        if step is ClaimStep.COMMIT:
            return Disputes.commit_vote(dispute=dispute_id, commitment=self._commitment(turn, entry))
        return Disputes.open_vote(dispute=dispute_id, vote=entry.statement, salt=entry.salt)

    async def _final_commitment(self, turn: VoteTurn) -> bytes | None:
        final = await self.parts.chain.final_ballots()
        return next((each.ballot.commitment for each in final if (each.id, each.ballot.round) == turn.key), None)

    async def _is_over(self, subject: bytes) -> bool:
        return await self.parts.chain.item_dispute(subject, final=True) is None


def turn_of(status: BallotStatus) -> VoteTurn:
    """Return a voter's turn. A ballot of an earlier round has none left."""
    dispute, ballot = status.status.dispute, status.ballot
    is_present = ballot.round == (APPEAL if dispute.stage is DisputeStage.APPEAL else DRAWN)
    is_seated = is_present and dispute.round is not None and ballot.vote is None
    return VoteTurn(
        (status.id, ballot.round),
        ballot.commitment,
        may_commit=is_seated and dispute.round is not None and not dispute.round.closed_at,
        may_open=is_seated and status.status.opens_from > 0,
        deadline=status.status.commits_until,
        window=dispute.windows.commit,
        dispute=dispute,
    )
