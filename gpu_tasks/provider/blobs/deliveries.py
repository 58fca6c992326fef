"""The delivery of this provider's claims to checkers and voters.

Invariants:

* Only a checker of the open claim, or a voter of an open dispute about the work, receives a delivery. It proves itself
  by a signature of its provider key.
* A delivery is sealed to the reader's key on the chain, so a copied question returns a blob that only the reader can
  open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Protocol

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import part_of
from gpu_tasks.data.sealing import seal
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, Identity
from runtime.cryptography.signatures import Scheme, verify
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, DecodeError, Fixed, codec, struct
from runtime.encoding.types import Hash

QUESTION_BYTES_MAX = 256
DELIVERIES_KEPT = 2
"""The encoded deliveries in memory, up to 17 MiB each. A reader asks for the parts of one after another."""


class RefusedDeliveryError(Exception):
    """The caller may not have this delivery, or it is not here."""


class NoReaderError(RefusedDeliveryError):
    """The caller has not proved that it checks or votes here: a stranger, or a reader whose turn is over."""


class DeliverySource(Protocol):
    """The deliveries of one market."""

    async def delivery(self, work_id: bytes, claim: ResultClaim | None, item: int) -> bytes:
        """Return the delivery of this provider's own result for an item.

        `work_id` is a claim, or without one the work whose results differ. Raise RefusedDeliveryError, BlobError,
        UnusableInputError or ChainError if it is not here.
        """
        ...


@struct
class _PartQuestion:
    work: Hash
    """A claim, or the work whose results differ."""
    dispute: Hash | None
    """The dispute in which the reader votes, or None for a checker."""
    item: U32
    """The item that the delivery must serve. That of a unit serves all, under item 0. Of differing results of a task it
    is a segment."""
    number: U8
    provider_key: Hash


@struct
class _SignedPart:
    question: _PartQuestion
    signature: Annotated[bytes, Fixed(64)]


_PART_QUESTION = codec(_PartQuestion)
_SIGNED_PART = codec(_SignedPart)


def part_question(identity: Identity, work: bytes, dispute: bytes | None, item: int, number: int) -> bytes:
    """Return the body for `POST /deliveries`: a checker's or, with its dispute, a voter's question for one part."""
    part = _PartQuestion(work, dispute, item, number, identity.key.public_key)
    return _SIGNED_PART.encode(_SignedPart(part, identity.key.sign(_part_payload(identity.genesis, part))))


class Deliverer:
    """The answers to questions of checkers and voters about this provider's claims."""

    def __init__(self, genesis_hash: bytes, chain: ClaimPort, sources: Mapping[int, DeliverySource]) -> None:
        """It reads claims from the chain. `sources` has the deliveries of each market, by the index of its pallet."""
        self._genesis = genesis_hash
        self._claim_port = chain
        self._sources = sources
        self._deliveries: dict[tuple[bytes, bytes, int], bytes] = {}

    async def answer(self, data: bytes) -> bytes:
        """Return one part as a sealed blob. Raise RefusedDeliveryError if the caller may not have it."""
        asked = _proven_question(data, self._genesis)
        try:
            return await self._sealed(asked)
        except ChainError as error:
            raise RefusedDeliveryError(f"the chain cannot be read at present: {error}") from None
        except (BlobError, UnusableInputError) as error:
            raise RefusedDeliveryError(f"the input is not here at present: {error}") from None

    async def _sealed(self, question: _PartQuestion) -> bytes:
        port = self._claim_port
        stash = await port.stash_of(question.provider_key)
        # First of all reads, because anybody can sign with a key of its own.
        if stash is None:
            raise NoReaderError("the key belongs to no provider")
        claim = await port.claim(question.work)
        dispute = None if question.dispute is None else await port.item_dispute(question.dispute)
        if not _may_read(stash, claim, question, dispute):
            raise NoReaderError("the key belongs to no checker of the claim and no voter about the work")
        reader = await port.provider(stash)
        delivery = await self._delivery(question, claim, dispute)
        part = part_of(delivery, question.number)
        if part is None or reader is None:
            raise RefusedDeliveryError("the delivery has no such part")
        return seal(part, [reader.seal_key])

    async def _delivery(self, question: _PartQuestion, claim: ResultClaim | None, dispute: Dispute | None) -> bytes:
        about = claim if claim is not None else dispute
        source = None if about is None else self._sources.get(about.terms.handler)
        if source is None:
            raise RefusedDeliveryError("no results of that market here")
        # Each attempt of a unit can have a dispute, and a result of its own.
        key = question.work, claim.terms.root if claim is not None else question.dispute or b"", question.item
        if key not in self._deliveries:
            self._deliveries[key] = await source.delivery(question.work, claim, question.item)
            while len(self._deliveries) > DELIVERIES_KEPT:
                del self._deliveries[next(iter(self._deliveries))]
        return self._deliveries[key]


def _may_read(stash: bytes, claim: ResultClaim | None, question: _PartQuestion, dispute: Dispute | None) -> bool:
    """Return True for a checker of the open claim, present or earlier, or for a voter of the named dispute."""
    if question.dispute is None:
        return claim is not None and any(check.checker == stash for check in claim.checks)
    is_about = dispute is not None and dispute.terms.work == question.work
    return dispute is not None and is_about and (stash in dispute.voters or stash in dispute.electorate)


def _part_payload(genesis_hash: bytes, question: _PartQuestion) -> bytes:
    return domain(b"delivery", genesis_hash, _PART_QUESTION.encode(question))


def _proven_question(data: bytes, genesis_hash: bytes) -> _PartQuestion:
    """Return the question in a body, signed by the provider key that it names. Raise NoReaderError for other bytes."""
    try:
        signed = _SIGNED_PART.decode(data)
    except DecodeError as error:
        raise NoReaderError(f"not a question: {error}") from None
    question: _PartQuestion = signed.question
    payload = _part_payload(genesis_hash, question)
    if not verify(Scheme.ED25519, question.provider_key, payload, signed.signature):
        raise NoReaderError("bad signature")
    return question
