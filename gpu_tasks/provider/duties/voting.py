"""Votes about disputed items: fetch the data, compute the right outcome, commit to a vote and open it.

Invariant: all honest voters of a round give equal votes, because each follows from the final chain and the input alone.
An item is checked by the workload's shorter way where it has one, and computed as a whole only if it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, Dispute, DisputeQuestion, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemSample, ItemVote, Verdict, vote_commitment
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, View
from gpu_tasks.provider.duties.claim_items import (
    NO_FINGERPRINT,
    UnitItems,
    check_item,
    computed,
    fetched_items,
    final_unit,
    line_of,
    sample,
)
from gpu_tasks.provider.duties.duty import telling_refusals
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepKey
from gpu_tasks.provider.duties.statements import ClaimStep, StatementDuty, StatementTurn
from gpu_tasks.provider.duties.work import payable_requests
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.records import VoteEntry
from runtime.frame.call import Call


@dataclass(frozen=True, slots=True)
class VoteTurn(StatementTurn):
    """The turn of a voter in a round of a dispute."""

    dispute: Dispute


class VotingDuty(StatementDuty[VoteTurn, ItemVote, VoteEntry]):
    """The ballots of this provider."""

    def __init__(self, parts: Parts[ClaimPort]) -> None:
        """See `StatementDuty`."""
        super().__init__(parts)
        self.entries = parts.journal.votes

    async def step(self, view: View) -> None:
        """Take the due steps of all ballots."""
        self.begin_step(view)
        keys: set[StepKey] = set()
        for status in view.ballots:
            dispute = status.status.dispute
            # Disputes of other markets have other voters' duties.
            if dispute.terms.handler not in (ResultClaims.index, InferenceMarket.index):
                continue
            turn = turn_of(status)
            keys.add(turn.key)
            with telling_refusals(self.parts.telemetry, status.id):
                await self.take(turn, view.newest)
        await self.end_step(keys, view)

    async def _found(self, turn: VoteTurn) -> ItemVote:
        dispute_id, dispute = turn.key[0], await self._final(turn)
        match dispute.terms.question:
            case DisputeQuestion.ITEM:
                return await self._about_item(turn, dispute_id, dispute)
            case DisputeQuestion.SIDES:
                return await self._about_sides(turn, dispute)
            case DisputeQuestion.INPUT:
                return await self._about_input(turn, dispute)

    async def _about_item(self, turn: VoteTurn, dispute_id: bytes, dispute: Dispute) -> ItemVote:
        """Check the provider's item, and compute it if it is wrong."""
        claim_id, terms = dispute.terms.work, dispute.terms
        claim = await self.parts.chain.claim(claim_id, final=True)
        if claim is None:
            raise ChainError("the final chain does not have the claim", code="claim_not_final")
        if claim.terms.handler != InferenceMarket.index:
            raise ExecutionError("this release has no items of that market", code="unknown_market")
        with self._fetching(turn):
            items = await fetched_items(self.parts, claim_id, claim, dispute_id)
        index = terms.index if terms.point is None else items.index_at(terms.point)
        claimed, seeds = items.outcomes[index], seeds_of(dispute)
        first = await check_item(self.parts, items, index, seeds[0], Activity.VOTES)
        outcome = claimed if first is not None else await computed(self.parts, items, index)
        self.parts.telemetry.tell("recomputed" if first is None else "verified", claim=claim_id, item=index)
        verdict = Verdict.RIGHT if outcome == claimed else Verdict.WRONG
        known = () if first is None else (first,)
        others = [await sample(self.parts, items, index, outcome, seed) for seed in seeds[len(known) :]]
        return ItemVote(verdict, items.claim_of(index, outcome), (*known, *others))

    async def _about_sides(self, turn: VoteTurn, dispute: Dispute) -> ItemVote:
        """Compute the item about which results differ, from the sealed input."""
        unit_id, index = dispute.terms.work, dispute.terms.index
        unit = await final_unit(self.parts, unit_id)
        form = await self.parts.form_of(unit)
        try:
            with self._fetching(turn):
                unit_input = await self.parts.inputs.open(unit_id, unit, InputUse.LOOKED_AT)
            requests = payable_requests(form, unit_input, unit.terms)
        except UnusableInputError:
            return _input_vote(Verdict.WRONG, dispute)
        items = UnitItems(self.parts.identity.genesis, unit_id, form, unit_input.salt, requests, *line_of(unit))
        outcome = await computed(self.parts, items, index)
        samples = [await sample(self.parts, items, index, outcome, seed) for seed in seeds_of(dispute)]
        return ItemVote(Verdict.RIGHT, items.claim_of(index, outcome), tuple(samples))

    async def _about_input(self, turn: VoteTurn, dispute: Dispute) -> ItemVote:
        """Open the input, and look whether its requests are those that the customer pays for."""
        unit = await final_unit(self.parts, dispute.terms.work)
        form = await self.parts.form_of(unit)
        try:
            with self._fetching(turn):
                unit_input = await self.parts.inputs.open(dispute.terms.work, unit, InputUse.LOOKED_AT)
            payable_requests(form, unit_input, unit.terms)
        except UnusableInputError:
            return _input_vote(Verdict.WRONG, dispute)
        return _input_vote(Verdict.RIGHT, dispute)

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


def _input_vote(verdict: Verdict, dispute: Dispute) -> ItemVote:
    """Return the vote about an input as a whole: its unit is the answer, and no item is sampled."""
    # The chain takes no vote with an answer of zeros, and the customer chooses the input's commitment.
    samples = tuple(ItemSample(0, 0, NO_FINGERPRINT) for _ in seeds_of(dispute))
    return ItemVote(verdict, dispute.terms.work, samples)
