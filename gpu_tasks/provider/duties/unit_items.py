"""The items of units: requests with outcomes, fetched from the provider of a claim, checked and computed again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from gpu_tasks.batches.leaf_draws import index_at, leaf_weight, total_weight, weight_floor
from gpu_tasks.batches.leaves import Leaf, leaf_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.batches.sum_tree import batch_root, totals_of
from gpu_tasks.data.claim_delivery import (
    ClaimedUnit,
    Delivered,
    DeliveryError,
    delivery_max,
    encode_delivery,
    item_claim,
    read_delivery,
)
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import Dispute, seeds_of
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.chain.port import ChainError, ClaimPort
from gpu_tasks.provider.duties.item_sources import (
    NO_FINGERPRINT,
    Disputed,
    Fetching,
    ItemSource,
    fetched_delivery,
    vote_without_items,
)
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sides import DeliveredSides, Patience, sides_of
from gpu_tasks.provider.duties.work import payable_requests
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from runtime.encoding.codec import DecodeError

SIDES_KEPT = 8
"""Delivered results of disputes in memory, up to 34 MiB each, while others are missing."""


@dataclass(frozen=True, slots=True)
class UnitItems:
    """The items of a unit: how to compute them, and how to weigh them."""

    parts: Parts[ClaimPort]
    unit_id: bytes
    form: WorkloadForm
    salt: bytes
    requests: Mapping[int, bytes] | tuple[bytes, ...]
    floor: int
    input_share: int

    def leaf(self, index: int, outcome: BatchOutcome) -> Leaf:
        """Return the leaf of an outcome."""
        return leaf_of(self.parts.identity.genesis, self.unit_id, self.salt, index, outcome)

    async def computed(self, index: int, activity: Activity = Activity.VOTES) -> BatchOutcome:
        """Return the right outcome of an item, computed from the input. Raise ExecutionError if this machine cannot."""
        requests = [self.requests[index]]
        outputs = await self.parts.workers.recompute_many(self.form, requests, activity)
        (outcome,) = outcomes_of(self.form, requests, outputs)
        return outcome

    async def sample_of(self, index: int, outcome: BatchOutcome, seed: bytes) -> ItemSample:
        """Return the sample of an item with this right outcome. Raise ExecutionError if this machine cannot."""
        fingerprint, workers = NO_FINGERPRINT, self.parts.workers
        if isinstance(outcome, Completed):
            try:
                fingerprint = await workers.fingerprint(self.form, self.requests[index], outcome.output, seed)
            except BadRequestError as error:
                text = f"a computed outcome has no fingerprint: {error}"
                raise ExecutionError(text, code="no_fingerprint") from error
        return self.weighed(index, outcome, fingerprint)

    def weighed(self, index: int, outcome: BatchOutcome, fingerprint: bytes) -> ItemSample:
        """Return a sample with the weight of this outcome."""
        weight = leaf_weight(self.leaf(index, outcome), self.floor, input_share=self.input_share)
        return ItemSample(index, weight, fingerprint)


@dataclass(frozen=True, slots=True)
class ClaimedUnitItems(UnitItems):
    """The items of a claim, with the provider's outcomes."""

    outcomes: Mapping[int, BatchOutcome] | tuple[BatchOutcome, ...]
    leaves: tuple[Leaf, ...]

    def claim_of(self, index: int, outcome: BatchOutcome) -> bytes:
        """Return the claim of an item with this outcome."""
        return item_claim(len(self.leaves), index, self.leaf(index, outcome))

    def index_at(self, point: int) -> int:
        """See `FetchedItems`."""
        try:
            return index_at(self.leaves, self.floor, point, input_share=self.input_share)
        except ValueError as error:
            raise ExecutionError(str(error), code="no_such_point") from None

    async def check(self, index: int, seed: bytes, activity: Activity) -> ItemSample | None:
        """Check an item by the workload's shorter way, where it has one."""
        outcome, request = self.outcomes[index], self.requests[index]
        if not isinstance(outcome, Completed):
            is_right = await self.computed(index, activity) == outcome
            return await self.sample_of(index, outcome, seed) if is_right else None
        try:
            if outcomes_of(self.form, [request], [outcome.output]) != (outcome,):
                return None
            checked = await self.parts.workers.check(self.form, request, outcome.output, seed, activity)
        # Neither an invalid request nor bytes that are no output have a right outcome with tokens.
        except (BadRequestError, DecodeError):
            return None
        return None if checked.fingerprint is None else self.weighed(index, outcome, checked.fingerprint)

    async def is_confirmed_wrong(self, index: int, activity: Activity) -> bool:
        """See `FetchedItems`."""
        return await self.computed(index, activity) != self.outcomes[index]

    async def sample(self, index: int, seed: bytes) -> ItemSample:
        """See `OwnItems`."""
        return await self.sample_of(index, self.outcomes[index], seed)

    async def vote(self, index: int, seeds: tuple[bytes, ...]) -> ItemVote:
        """Check the provider's item, and compute it if it is wrong."""
        first, claimed = await self.check(index, seeds[0], Activity.VOTES), self.outcomes[index]
        outcome = claimed if first is not None else await self.computed(index)
        verdict = Verdict.RIGHT if outcome == claimed else Verdict.WRONG
        known = () if first is None else (first,)
        others = [await self.sample_of(index, outcome, seed) for seed in seeds[len(known) :]]
        return ItemVote(verdict, self.claim_of(index, outcome), (*known, *others))


class UnitItemSource(ItemSource):
    """The items of units."""

    def __init__(self, parts: Parts[ClaimPort]) -> None:
        """It computes on any free device."""
        self._parts = parts
        self._sides = DeliveredSides[ClaimedUnitItems](SIDES_KEPT)

    async def fetched(self, claim_id: bytes, claim: ResultClaim, disputed: Disputed | None = None) -> ClaimedUnitItems:
        """See `ItemSource`. A delivery has all items of a unit."""
        unit = await final_unit(self._parts, claim_id)
        form = await self._parts.form_of(unit)
        dispute_id = None if disputed is None else disputed[0]
        bytes_max = delivery_max(unit.terms.requests)
        delivery = await fetched_delivery(self._parts, claim.terms.provider, claim_id, dispute_id, 0, bytes_max)
        return await self._claimed_items(claim_id, claim, unit, form, delivery)

    async def own(self, claim_id: bytes, claim: ResultClaim) -> ClaimedUnitItems:
        """See `ItemSource`. The items are those of the journal, with this provider's copy of the input."""
        unit = await final_unit(self._parts, claim_id)
        form = await self._parts.form_of(unit)
        entries = (entry for key, entry in self._parts.journal.races.items() if key[0] == claim_id)
        results = (entry.result for entry in entries if entry.result is not None)
        result = next((found for found in results if found.output_root == claim.terms.root), None)
        if result is None:
            raise ExecutionError("the journal lacks this result", code="no_result")
        delivery = encode_delivery(await self._parts.inputs.content(claim_id, unit), result.outcomes)
        try:
            return await self._claimed_items(claim_id, claim, unit, form, delivery)
        except DeliveryError as error:
            # A damaged entry must not be shown: wrong samples count as a lie.
            text = f"the journal's result differs from the claim: {error}"
            raise ExecutionError(text, code="other_commitment") from None

    async def right_side(self, disputed: Disputed, fetching: Fetching, patience: Patience) -> ItemVote:
        """Compute the first item in which the delivered results differ, until one result is left, and sample that.

        Without a right result, the unit is the answer.
        """
        dispute_id, dispute = disputed
        unit_id, seeds = dispute.terms.work, seeds_of(dispute)
        unit = await final_unit(self._parts, unit_id)
        if not await self._is_usable(unit_id, unit, fetching):
            return vote_without_items(Verdict.WRONG, unit_id, seeds)
        with fetching():
            fetch = partial(self._side, dispute_id, unit_id, unit)
            sides = await self._sides.all_of(dispute_id, _sides_of(unit), fetch, patience)
        right = await _right_items(sides)
        # Drawn from the new seed, so that a voter without a computation cannot know the sample.
        index = int.from_bytes(seeds[-1], "little") % unit.terms.requests
        first = None if right is None else await right.check(index, seeds[0], Activity.VOTES)
        self._sides.forget(dispute_id)
        if right is None or first is None:
            return vote_without_items(Verdict.RIGHT, unit_id, seeds)
        others = [await right.sample(index, seed) for seed in seeds[1:]]
        return ItemVote(Verdict.RIGHT, batch_root(totals_of(right.leaves)), (first, *others))

    async def input_vote(self, dispute: Dispute, fetching: Fetching) -> ItemVote:
        """Open the input, and look whether its requests are those that the customer pays for."""
        unit_id = dispute.terms.work
        is_usable = await self._is_usable(unit_id, await final_unit(self._parts, unit_id), fetching)
        return vote_without_items(Verdict.RIGHT if is_usable else Verdict.WRONG, unit_id, seeds_of(dispute))

    async def delivery(self, work_id: bytes, _claim: ResultClaim | None, item: int) -> bytes:
        """See `DeliverySource`. A delivery has all items of a unit."""
        unit_status = await self._parts.chain.unit(work_id)
        # An earlier attempt may have had another result.
        key = None if unit_status is None else (work_id, unit_status.unit.attempt)
        entry = None if key is None else self._parts.journal.races.get(key)
        if item or unit_status is None or entry is None or entry.result is None:
            raise RefusedDeliveryError("no result of this unit here")
        content = await self._parts.inputs.content(work_id, unit_status.unit)
        return encode_delivery(content, entry.result.outcomes)

    async def _is_usable(self, unit_id: bytes, unit: Unit, fetching: Fetching) -> bool:
        """Return True if the input has the requests that the customer pays for."""
        form = await self._parts.form_of(unit)
        try:
            with fetching():
                unit_input = await self._parts.inputs.open(unit_id, unit, InputUse.LOOKED_AT)
            payable_requests(form, unit_input, unit.terms)
        except UnusableInputError:
            return False
        return True

    async def _side(self, dispute_id: bytes, unit_id: bytes, unit: Unit, owner: bytes, root: bytes) -> ClaimedUnitItems:
        bytes_max = delivery_max(unit.terms.requests)
        delivery = await fetched_delivery(self._parts, owner, unit_id, dispute_id, 0, bytes_max)
        return await self._read_items(unit_id, root, unit, await self._parts.form_of(unit), delivery)

    async def _claimed_items(
        self, claim_id: bytes, claim: ResultClaim, unit: Unit, form: WorkloadForm, delivery: bytes
    ) -> ClaimedUnitItems:
        items = await self._read_items(claim_id, claim.terms.root, unit, form, delivery)
        floor, input_share = line_of(unit)
        if total_weight(totals_of(items.leaves), floor, input_share=input_share) != claim.terms.weight:
            raise ExecutionError("the claim's weight is not that of its unit", code="other_weight")
        return items

    async def _read_items(
        self, unit_id: bytes, root: bytes, unit: Unit, form: WorkloadForm, delivery: bytes
    ) -> ClaimedUnitItems:
        terms = unit.terms
        claimed = ClaimedUnit(self._parts.identity.genesis, unit_id, terms.input_commitment, terms.requests, root)
        # In a thread: to hash 4,096 outcomes takes a second, and blocks do not wait.
        found: Delivered = await asyncio.to_thread(read_delivery, delivery, claimed)
        return ClaimedUnitItems(
            self._parts, unit_id, form, found.salt, found.requests, *line_of(unit), found.outcomes, found.leaves
        )


def _sides_of(unit: Unit) -> dict[bytes, list[bytes]]:
    return sides_of([(racer.reveal.output_root, racer.owner) for racer in unit.racers if racer.reveal is not None])


async def _right_items(sides: Mapping[bytes, ClaimedUnitItems]) -> ClaimedUnitItems | None:
    """Return the last result of which no computed item is false, or None. One result alone is not computed."""
    left = list(sides.values())
    while len(left) > 1:
        pairs = enumerate(zip(*(items.leaves for items in left), strict=True))
        # Different roots have different leaves: there are as many of them in all.
        index = next(index for index, leaves in pairs if len(set(leaves)) > 1)
        right = left[0].leaf(index, await left[0].computed(index))
        left = [items for items in left if items.leaves[index] == right]
    return left[0] if left else None


async def final_unit(parts: Parts[ClaimPort], unit_id: bytes) -> Unit:
    """Return the unit in the final chain, so that no other input is examined. Raise ChainError if it has none."""
    unit_status = await parts.chain.final_unit(unit_id)
    if unit_status is None:
        raise ChainError("the final chain does not have the unit", code="unit_not_final")
    return unit_status.unit


def line_of(unit: Unit) -> tuple[int, int]:
    """Return the floor of each item's weight, in tokens, and the share of an input token, by a unit's terms."""
    return weight_floor(-(-work_allowed(unit) // TOKEN), unit.terms.requests), unit.input_share
