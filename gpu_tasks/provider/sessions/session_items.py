"""The items of sessions: the requests of a claimed period, fetched from its provider, checked and computed again.

Chats are private, so a provider delivers only the items that a check or a dispute needs. An item without an output is a
prompt that the customer has paid before its first token. It is right if its request can be answered and has the
claimed tokens. The only item of a spare's proof is right if it answers the standard request of the session.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpu_tasks.batches.leaf_draws import index_at, total_weight, weight_floor
from gpu_tasks.batches.leaves import Leaf, leaf_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.batches.sum_tree import Totals, batch_root, totals_of
from gpu_tasks.data.claim_delivery import (
    DeliveredItems,
    DeliveryError,
    SessionItem,
    encode_session_delivery,
    read_session_delivery,
    session_delivery_max,
)
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.findings import ItemSample, ItemVote
from gpu_tasks.market.sessions.money import work_in
from gpu_tasks.market.sessions.records import SPARE_LEG, PeriodClaim, SessionRecord
from gpu_tasks.market.sessions.spares import PROOF_TOKENS_IN, PROOF_TOKENS_OUT
from gpu_tasks.market.sessions.vouchers import item_salt, session_claim_id
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.chain.port import ChainError, SessionPort
from gpu_tasks.provider.duties.item_sources import (
    NO_FINGERPRINT,
    Disputed,
    Fetching,
    ItemSource,
    fetched_delivery,
)
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sides import Patience
from gpu_tasks.provider.duties.unit_items import ClaimedUnitItems, UnitItems
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError
from gpu_tasks.provider.journal.schema import JournalError
from gpu_tasks.provider.sessions.session_store import SessionStore
from gpu_tasks.sessions.transcript import StreamedForm, Transcript, require_answerable
from gpu_tasks.workloads.form import RequestError, WorkloadForm
from runtime.encoding.codec import DecodeError

DRAWN_ITEMS = 0
"""The delivery of all drawn items. That of the disputed item `n` has the number n + 1."""


@dataclass(frozen=True)
class ClaimedSessionItems(ClaimedUnitItems):
    """The delivered items of a session's claim. `salt` is the session's secret."""

    def leaf(self, index: int, outcome: BatchOutcome) -> Leaf:
        """See `UnitItems`. The salt binds the leaf to its request."""
        salt = item_salt(self.salt, self.requests[index])
        return leaf_of(self.parts.identity.genesis, self.unit_id, salt, index, outcome)

    async def computed(self, index: int, activity: Activity = Activity.VOTES) -> BatchOutcome:
        """See `UnitItems`. Nothing is computed for an item without an output."""
        if self._is_prompt(index):
            return prompt_outcome(self.form, self.requests[index])
        return await UnitItems.computed(self, index, activity)

    async def sample_of(self, index: int, outcome: BatchOutcome, seed: bytes) -> ItemSample:
        """See `UnitItems`."""
        if self._is_prompt(index):
            return self.weighed(index, outcome, NO_FINGERPRINT)
        return await UnitItems.sample_of(self, index, outcome, seed)

    async def check(self, index: int, seed: bytes, activity: Activity) -> ItemSample | None:
        """See `FetchedItems`."""
        if not self._is_prompt(index):
            return await ClaimedUnitItems.check(self, index, seed, activity)
        outcome = self.outcomes[index]
        is_right = prompt_outcome(self.form, self.requests[index]) == outcome
        return self.weighed(index, outcome, NO_FINGERPRINT) if is_right else None

    def _is_prompt(self, index: int) -> bool:
        outcome = self.outcomes[index]
        return isinstance(outcome, Completed) and not outcome.output


class SessionItemSource(ItemSource):
    """The items of sessions."""

    def __init__(self, parts: Parts[SessionPort], store: SessionStore) -> None:
        """It computes on any free device. Own items are in `store`."""
        self._parts = parts
        self._store = store

    async def fetched(
        self, claim_id: bytes, claim: ResultClaim, disputed: Disputed | None = None
    ) -> ClaimedSessionItems:
        """See `ItemSource`."""
        period_claim, session = await self._claimed_period(claim_id, final=True)
        terms, dispute = claim.terms, None if disputed is None else disputed[1].terms
        is_disputed = dispute is not None and dispute.point is None
        number = dispute.index + 1 if dispute is not None and is_disputed else DRAWN_ITEMS
        delivery = await fetched_delivery(
            self._parts,
            terms.provider,
            claim_id,
            None if disputed is None else disputed[0],
            number,
            session_delivery_max(terms.items),
        )
        genesis = self._parts.identity.genesis
        # In a thread: to hash 4,096 leaves takes long, and blocks do not wait.
        found = await asyncio.to_thread(read_session_delivery, delivery, genesis, claim_id, terms.root, terms.items)
        items = self._claimed(claim, period_claim, session, found)
        points = claim.points if dispute is None else () if dispute.point is None else (dispute.point,)
        wanted = [number - 1] if is_disputed else [items.index_at(point) for point in points]
        if not found.requests.keys() >= set(wanted):
            raise DeliveryError("the delivery lacks an item", code="other_requests")
        return items

    async def own(self, claim_id: bytes, claim: ResultClaim) -> ClaimedSessionItems:
        """See `ItemSource`. The items are those of this provider's disk."""
        period_claim, session = await self._claimed_period(claim_id, final=True)
        transcript = self._own_transcript(claim_id, self._form_of(session))
        leaves = await asyncio.to_thread(transcript.leaves)
        if batch_root(totals_of(leaves)) != claim.terms.root:
            raise ExecutionError("this provider's records differ from the claim", code="other_commitment")
        items = range(len(leaves))
        outcomes = {index: transcript.item(index) for index in items}
        found = DeliveredItems(
            transcript.name.secret,
            leaves,
            {index: request for index, (request, _) in outcomes.items()},
            {index: outcome for index, (_, outcome) in outcomes.items()},
        )
        try:
            return self._claimed(claim, period_claim, session, found)
        except DeliveryError as error:
            # Wrong samples count as a lie.
            raise ExecutionError(str(error), code="other_commitment") from None

    async def right_side(self, disputed: Disputed, fetching: Fetching, patience: Patience) -> ItemVote:
        """See `ItemSource`. A period has one claim."""
        raise ExecutionError("sessions have no differing results", code="unknown_question")

    async def input_vote(self, dispute: Dispute, fetching: Fetching) -> ItemVote:
        """See `ItemSource`. The customer's requests reach the provider alone."""
        raise ExecutionError("sessions have no inputs", code="unknown_question")

    async def delivery(self, work_id: bytes, claim: ResultClaim | None, item: int) -> bytes:
        """See `DeliverySource`. Nobody gets an item that is neither drawn nor disputed."""
        if claim is None or claim.terms.provider != self._parts.identity.stash:
            raise RefusedDeliveryError("no such claim here")
        _, session = await self._claimed_period(work_id, final=False)
        try:
            transcript = self._own_transcript(work_id, self._form_of(session))
        except ExecutionError as error:
            raise RefusedDeliveryError(str(error)) from None
        leaves = await asyncio.to_thread(transcript.leaves)
        if item == DRAWN_ITEMS:
            floor = floor_of(session, totals_of(leaves))
            drawn = {index_at(leaves, floor, point, input_share=session.input_share) for point in claim.points}
        else:
            drawn = await self._disputed(work_id, claim)
            if item - 1 not in drawn:
                raise RefusedDeliveryError("nobody disputes this item")
        items = []
        for index in sorted(drawn):
            request, outcome = transcript.item(index)
            items.append(SessionItem(index, request, outcome.output))
        return encode_session_delivery(transcript.name.secret, leaves, items)

    async def _disputed(self, claim_id: bytes, claim: ResultClaim) -> set[int]:
        """Return the item of the open dispute, unless it is a drawn one."""
        if claim.stage is not ClaimStage.DISPUTED:
            return set()
        dispute = await self._parts.chain.item_dispute(dispute_id_of(claim_id, claim.disputes - 1))
        if dispute is None or dispute.terms.point is not None or dispute.terms.index >= claim.terms.items:
            return set()
        return {dispute.terms.index}

    async def _claimed_period(self, claim_id: bytes, *, final: bool) -> tuple[PeriodClaim, SessionRecord]:
        """Return the period of a claim, and its session. Raise ChainError before that state of the chain has it."""
        period_claim = await self._parts.chain.period_claim(claim_id, final=final)
        status = None if period_claim is None else await self._parts.chain.session(period_claim.session, final=final)
        if period_claim is None or status is None:
            raise ChainError("the chain does not have the session of the claim", code="claim_not_final")
        return period_claim, status.session

    def _form_of(self, session: SessionRecord) -> WorkloadForm:
        try:
            return self._parts.workers.workloads.of(session)
        except UnknownWorkloadError as error:
            raise ExecutionError(f"service {session.service}: {error}", code=error.code) from None

    def _own_transcript(self, claim_id: bytes, form: WorkloadForm) -> Transcript:
        try:
            kept = self._store.period_of_claim(claim_id)
            if kept is None:
                raise ExecutionError("this provider's records lack the claim", code="no_result")
            return self._store.transcript(self._parts.identity.genesis, kept, form)
        except JournalError as error:
            raise ExecutionError(str(error), code=error.code) from error

    def _claimed(
        self, claim: ResultClaim, period_claim: PeriodClaim, session: SessionRecord, found: DeliveredItems
    ) -> ClaimedSessionItems:
        form = self._form_of(session)
        if period_claim.leg == SPARE_LEG:
            found = proof_items(form, session.spare_seed, found)
        totals = totals_of(found.leaves)
        floor, input_share = floor_of(session, totals), session.input_share
        if total_weight(totals, floor, input_share=input_share) != claim.terms.weight:
            raise DeliveryError("the claim's weight is not that of its items", code="other_commitment")
        claim_id = session_claim_id(period_claim.session, period_claim.period)
        return ClaimedSessionItems(
            self._parts, claim_id, form, found.secret, found.requests, floor, input_share, found.outcomes, found.leaves
        )


def floor_of(session: SessionRecord, totals: Totals) -> int:
    """Return the floor of each item's weight in a period, in tokens (`sessions.money.weight_of`)."""
    return weight_floor(-(-work_in(session, totals) // TOKEN), totals.requests)


def proof_items(form: WorkloadForm, seed: bytes, found: DeliveredItems) -> DeliveredItems:
    """Return the delivered item of a spare's proof as an answer to the standard request.

    An answer to another request, or under another secret, becomes a refusal, which is never right. So does no answer.
    Raise ExecutionError for a model without a standard request.
    """
    standard = standard_request(form, seed)
    is_standard = found.secret == seed and found.requests.get(0) == standard
    outcome = found.outcomes.get(0)
    is_answer = is_standard and isinstance(outcome, Completed) and bool(outcome.output)
    outcomes: dict[int, BatchOutcome] = {0: outcome if is_answer and outcome is not None else RefusedRequest()}
    return DeliveredItems(seed, found.leaves, {0: standard}, outcomes)


def standard_request(form: WorkloadForm, seed: bytes) -> bytes:
    """Return the standard request of a session with this seed. Raise ExecutionError for a model without one."""
    try:
        return form.standard_request(seed, PROOF_TOKENS_IN, PROOF_TOKENS_OUT)
    except RequestError as error:
        raise ExecutionError(str(error), code="no_standard_request") from None


def prompt_outcome(form: StreamedForm, request: bytes) -> BatchOutcome:
    """Return the right outcome of an item without an output."""
    try:
        require_answerable(form, request)
        return Completed(b"", form.cost_in(request), 0)
    except DecodeError:
        return RefusedRequest()
