"""Items of claims: fetched from their provider, checked, and computed again.

Invariant: nothing that a provider delivers counts before `read_delivery` has compared it with the chain.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpu_tasks.batches.leaf_draws import index_at, leaf_weight, total_weight, weight_floor
from gpu_tasks.batches.leaves import Leaf, leaf_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.batches.sum_tree import totals_of
from gpu_tasks.data.blob_client import DELIVERY_PATH
from gpu_tasks.data.claim_delivery import (
    ClaimedUnit,
    Delivered,
    DeliveryError,
    delivery_max,
    encode_delivery,
    gathered_delivery,
    item_claim,
    read_delivery,
)
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.findings import FINGERPRINT_BYTES, ItemSample
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs import deliveries
from gpu_tasks.provider.chain.port import ChainError, ClaimPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from runtime.encoding.codec import DecodeError

FETCH_SECONDS = 120.0
"""The most seconds of one attempt to fetch a delivery: 17 MiB at the least rate of a transfer need less."""
NO_FINGERPRINT = bytes(FINGERPRINT_BYTES)
"""The fingerprint of a refused request: nothing is computed."""


@dataclass(frozen=True, slots=True)
class UnitItems:
    """The items of a unit: how to compute them, and how to weigh them."""

    genesis: bytes
    unit_id: bytes
    form: WorkloadForm
    salt: bytes
    requests: tuple[bytes, ...]
    floor: int
    input_share: int

    def leaf(self, index: int, outcome: BatchOutcome) -> Leaf:
        """Return the leaf of an outcome."""
        return leaf_of(self.genesis, self.unit_id, self.salt, index, outcome)

    def claim_of(self, index: int, outcome: BatchOutcome) -> bytes:
        """Return the claim of an item with this outcome."""
        return item_claim(len(self.requests), index, self.leaf(index, outcome))


@dataclass(frozen=True, slots=True)
class ClaimedItems(UnitItems):
    """The items of a claim, with the provider's outcomes."""

    outcomes: tuple[BatchOutcome, ...]
    leaves: tuple[Leaf, ...]

    def index_at(self, point: int) -> int:
        """Return the item at a point. Raise ExecutionError for a point outside the claim."""
        try:
            return index_at(self.leaves, self.floor, point, input_share=self.input_share)
        except ValueError as error:
            raise ExecutionError(str(error), code="no_such_point") from None


async def fetched_items(
    parts: Parts[ClaimPort], claim_id: bytes, claim: ResultClaim, dispute_id: bytes | None = None
) -> ClaimedItems:
    """Return the items of a claim from its provider, for a checker or for a voter of a dispute.

    Raise BlobError or DeliveryError if the provider does not deliver them, or ChainError or ExecutionError if this
    machine cannot read them.
    """
    unit = await final_unit(parts, claim_id)
    form = await parts.form_of(unit)
    provider = await parts.chain.provider(claim.terms.provider)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        raise DeliveryError("the provider has no store", code="no_store")
    identity = parts.identity

    async def part(number: int) -> bytes:
        question = deliveries.part_question(identity, claim_id, dispute_id, number)
        try:
            return identity.seal_key.open(await parts.blobs.ask(endpoint, DELIVERY_PATH, question))
        except SealError as error:
            raise DeliveryError(str(error), code="malformed_delivery") from error

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            delivery = await gathered_delivery(part, delivery_max(unit.terms.requests))
    except TimeoutError:
        raise DeliveryError("the provider was too slow", code="store_slow") from None
    return await _claimed_items(parts, claim_id, claim, unit, form, delivery)


async def own_items(parts: Parts[ClaimPort], claim_id: bytes, claim: ResultClaim) -> ClaimedItems:
    """Return the items of this provider's own claim, from its journal and its copy of the input.

    Raise ExecutionError if the journal has no such result, BlobError or UnusableInputError without an input, or
    ChainError.
    """
    unit = await final_unit(parts, claim_id)
    form = await parts.form_of(unit)
    entries = (entry for key, entry in parts.journal.races.items() if key[0] == claim_id)
    results = (entry.result for entry in entries if entry.result is not None)
    result = next((found for found in results if found.output_root == claim.terms.root), None)
    if result is None:
        raise ExecutionError("the journal lacks this result", code="no_result")
    delivery = encode_delivery(await parts.inputs.content(claim_id, unit), result.outcomes)
    try:
        return await _claimed_items(parts, claim_id, claim, unit, form, delivery)
    except DeliveryError as error:
        # A damaged entry must not be shown: wrong samples count as a lie.
        raise ExecutionError(f"the journal's result differs from the claim: {error}", code="other_commitment") from None


async def final_unit(parts: Parts[ClaimPort], unit_id: bytes) -> Unit:
    """Return the unit in the final chain, so that no other input is examined. Raise ChainError if it has none."""
    unit_status = await parts.chain.final_unit(unit_id)
    if unit_status is None:
        raise ChainError("the final chain does not have the unit", code="unit_not_final")
    return unit_status.unit


def line_of(unit: Unit) -> tuple[int, int]:
    """Return the floor of each item's weight, in tokens, and the share of an input token, by a unit's terms."""
    return weight_floor(-(-work_allowed(unit) // TOKEN), unit.terms.requests), unit.input_share


async def check_item(
    parts: Parts[ClaimPort], items: ClaimedItems, index: int, seed: bytes, activity: Activity
) -> ItemSample | None:
    """Return the sample of a right item, or None for a wrong one. Raise ExecutionError if this machine cannot tell."""
    outcome, request = items.outcomes[index], items.requests[index]
    if not isinstance(outcome, Completed):
        is_right = await computed(parts, items, index, activity) == outcome
        return await sample(parts, items, index, outcome, seed) if is_right else None
    try:
        if outcomes_of(items.form, [request], [outcome.output]) != (outcome,):
            return None
        checked = await parts.workers.check(items.form, request, outcome.output, seed, activity)
    # Neither an invalid request nor bytes that are no output have a right outcome with tokens.
    except (BadRequestError, DecodeError):
        return None
    return None if checked.fingerprint is None else _sample(items, index, outcome, checked.fingerprint)


async def computed(
    parts: Parts[ClaimPort], items: UnitItems, index: int, activity: Activity = Activity.VOTES
) -> BatchOutcome:
    """Return the right outcome of an item, computed from the input. Raise ExecutionError if this machine cannot."""
    requests = [items.requests[index]]
    (outcome,) = outcomes_of(items.form, requests, await parts.workers.recompute_many(items.form, requests, activity))
    return outcome


async def sample(
    parts: Parts[ClaimPort], items: UnitItems, index: int, outcome: BatchOutcome, seed: bytes
) -> ItemSample:
    """Return the sample of an item with this right outcome. Raise ExecutionError if this machine cannot."""
    fingerprint = NO_FINGERPRINT
    if isinstance(outcome, Completed):
        try:
            fingerprint = await parts.workers.fingerprint(items.form, items.requests[index], outcome.output, seed)
        except BadRequestError as error:
            raise ExecutionError(f"a computed outcome has no fingerprint: {error}", code="no_fingerprint") from error
    return _sample(items, index, outcome, fingerprint)


def _sample(items: UnitItems, index: int, outcome: BatchOutcome, fingerprint: bytes) -> ItemSample:
    weight = leaf_weight(items.leaf(index, outcome), items.floor, input_share=items.input_share)
    return ItemSample(index, weight, fingerprint)


async def _claimed_items(
    parts: Parts[ClaimPort], claim_id: bytes, claim: ResultClaim, unit: Unit, form: WorkloadForm, delivery: bytes
) -> ClaimedItems:
    genesis, terms = parts.identity.genesis, unit.terms
    claimed = ClaimedUnit(genesis, claim_id, terms.input_commitment, terms.requests, claim.terms.root)
    # In a thread: to hash 4,096 outcomes takes a second, and blocks do not wait.
    found: Delivered = await asyncio.to_thread(read_delivery, delivery, claimed)
    floor, input_share = line_of(unit)
    if total_weight(totals_of(found.leaves), floor, input_share=input_share) != claim.terms.weight:
        raise ExecutionError("the claim's weight is not that of its unit", code="other_weight")
    return ClaimedItems(
        genesis, claim_id, form, found.salt, found.requests, floor, input_share, found.outcomes, found.leaves
    )
