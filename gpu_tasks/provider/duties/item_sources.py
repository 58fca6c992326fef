"""The items of claims as duties use them. Each market has a source of its own.

Invariants:

* All honest checkers and voters come to the same statement about an item.
* Nothing that a provider delivers counts before it was compared with the chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gpu_tasks.data.blob_client import DELIVERY_PATH
from gpu_tasks.data.claim_delivery import DeliveryError, gathered_delivery
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.findings import FINGERPRINT_BYTES, ItemSample, ItemVote, Verdict
from gpu_tasks.provider.blobs.deliveries import DeliverySource, part_question
from gpu_tasks.provider.chain.port import ClaimPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sides import Patience
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError

FETCH_SECONDS = 120.0
"""The most seconds of one attempt to fetch a delivery: 17 MiB at the least rate of a transfer need less."""
NO_FINGERPRINT = bytes(FINGERPRINT_BYTES)
"""The fingerprint where nothing is computed, such as that of a refused request."""

Fetching = Callable[[], AbstractContextManager[None]]
"""Returns a context in which this provider waits for data of others."""
Disputed = tuple[bytes, Dispute]
"""The id of a dispute, and the dispute."""


class OwnItems(Protocol):
    """The items of this provider's own claim."""

    def index_at(self, point: int) -> int:
        """Return the item at a point. Raise ExecutionError for a point outside the claim."""
        ...

    async def sample(self, index: int, seed: bytes) -> ItemSample:
        """Return the sample of an item. Raise ExecutionError if this machine cannot."""
        ...


class FetchedItems(Protocol):
    """The items of a claim that a check or a dispute is about, as their provider delivered them."""

    def index_at(self, point: int) -> int:
        """Return the item at a point. Raise ExecutionError for a point outside the claim."""
        ...

    async def check(self, index: int, seed: bytes, activity: Activity) -> ItemSample | None:
        """Return the sample of a right item, or None for a wrong one.

        Raise ExecutionError if this machine cannot tell.
        """
        ...

    async def is_confirmed_wrong(self, index: int, activity: Activity) -> bool:
        """Return True if another computation, of the whole item, finds it wrong too."""
        ...

    async def vote(self, index: int, seeds: tuple[bytes, ...]) -> ItemVote:
        """Return a voter's statement about an item. Raise ExecutionError if this machine cannot tell."""
        ...


class ItemSource(DeliverySource, Protocol):
    """The items of one market.

    Every method may raise ChainError. Data that others withhold raise BlobError or DeliveryError, and a machine that
    cannot tell raises ExecutionError.
    """

    async def fetched(self, claim_id: bytes, claim: ResultClaim, disputed: Disputed | None = None) -> FetchedItems:
        """Return the items at the points of a claim, or the disputed one for a voter, from the claim's provider."""
        ...

    async def own(self, claim_id: bytes, claim: ResultClaim) -> OwnItems:
        """Return the items of this provider's own claim. Raise BlobError or UnusableInputError without its input."""
        ...

    async def right_side(self, disputed: Disputed, fetching: Fetching, patience: Patience) -> ItemVote:
        """Return the vote about results that differ. Its answer is the right root."""
        ...

    async def input_vote(self, dispute: Dispute, fetching: Fetching) -> ItemVote:
        """Return the vote about an input that others could not open."""
        ...


ItemSources = Mapping[int, ItemSource]
"""The source of each market, by the index of its pallet."""


def source_of(sources: ItemSources, handler: int) -> ItemSource:
    """Return the source of a market. Raise ExecutionError for a market that this release does not have."""
    source = sources.get(handler)
    if source is None:
        raise ExecutionError("this release has no items of that market", code="unknown_market")
    return source


def vote_without_items(verdict: Verdict, work: bytes, seeds: Sequence[bytes]) -> ItemVote:
    """Return a vote for which nothing is computed: the disputed work is the answer, and no item is sampled."""
    # The chain takes no vote with an answer of zeros, and the customer chooses the input's commitment.
    return ItemVote(verdict, work, tuple(ItemSample(0, 0, NO_FINGERPRINT) for _ in seeds))


async def fetched_delivery(
    parts: Parts[ClaimPort], owner: bytes, work_id: bytes, dispute_id: bytes | None, item: int, bytes_max: int
) -> bytes:
    """Return the delivery of a provider (its stash) for a claim or a disputed work, of at most `bytes_max`.

    Raise BlobError, DeliveryError or ChainError.
    """
    provider = await parts.chain.provider(owner)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        raise DeliveryError("the provider has no store", code="no_store")
    identity = parts.identity

    async def part(number: int) -> bytes:
        question = part_question(identity, work_id, dispute_id, item, number)
        try:
            return identity.seal_key.open(await parts.blobs.ask(endpoint, DELIVERY_PATH, question))
        except SealError as error:
            raise DeliveryError(str(error), code="malformed_delivery") from error

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await gathered_delivery(part, bytes_max)
    except TimeoutError:
        raise DeliveryError("the provider was too slow", code="store_slow") from None
