"""The delivery of this provider's claims to checkers and voters.

Invariants:

* Only a checker of the open claim, or a voter of an open dispute about the unit, receives a delivery. It proves itself
  by a signature of its provider key.
* A delivery is sealed to the reader's key on the chain, so a copied question returns a blob that only the reader can
  open.
"""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import encode_delivery, part_of
from gpu_tasks.data.sealing import seal
from gpu_tasks.provider.blobs.inputs import Inputs, UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, ClaimPort, Identity
from gpu_tasks.provider.journal.journal import Journal
from runtime.cryptography.signatures import Scheme, verify
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, DecodeError, Fixed, codec, struct
from runtime.encoding.types import Hash

QUESTION_BYTES_MAX = 256
DELIVERIES_KEPT = 2
"""The encoded deliveries in memory, up to 17 MiB each. A reader asks for the parts of one after another."""


class RefusedDeliveryError(Exception):
    """The caller may not have this delivery or state, or it is not here."""


class NoReaderError(RefusedDeliveryError):
    """The caller has not proved that it checks, votes or judges here: a stranger, or a reader whose turn is over."""


@struct
class _PartQuestion:
    claim: Hash
    """The unit of the claim."""
    dispute: Hash | None
    """The dispute in which the reader votes, or None for a checker."""
    number: U8
    provider_key: Hash


@struct
class _SignedPart:
    question: _PartQuestion
    signature: Annotated[bytes, Fixed(64)]


_PART_QUESTION = codec(_PartQuestion)
_SIGNED_PART = codec(_SignedPart)


def part_question(identity: Identity, claim: bytes, dispute: bytes | None, number: int) -> bytes:
    """Return the body for `POST /deliveries`: a checker's or, with its dispute, a voter's question for one part."""
    part = _PartQuestion(claim, dispute, number, identity.key.public_key)
    return _SIGNED_PART.encode(_SignedPart(part, identity.key.sign(_part_payload(identity.genesis, part))))


class Deliverer:
    """The answers to questions of checkers and voters about this provider's claims."""

    def __init__(self, genesis_hash: bytes, journal: Journal, inputs: Inputs, chain: ClaimPort) -> None:
        """It reads outcomes from the journal, inputs from this provider's copies, and claims from the chain."""
        self._genesis = genesis_hash
        self._journal = journal
        self._inputs = inputs
        self._claim_port = chain
        self._deliveries: dict[tuple[bytes, bytes], bytes] = {}

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
        stash = await self._claim_port.stash_of(question.provider_key)
        if stash is None or not await self._may_read(stash, question):
            raise NoReaderError("the key belongs to no checker of the claim and no voter about it")
        reader = await self._claim_port.provider(stash)
        delivery = await self._delivery(question.claim)
        part = part_of(delivery, question.number)
        if part is None or reader is None:
            raise RefusedDeliveryError("the delivery has no such part")
        return seal(part, [reader.seal_key])

    async def _may_read(self, stash: bytes, question: _PartQuestion) -> bool:
        """Return True for a checker of the open claim, present or earlier, or for a voter of the named dispute."""
        if question.dispute is None:
            claim = await self._claim_port.claim(question.claim)
            return claim is not None and any(check.checker == stash for check in claim.checks)
        dispute = await self._claim_port.item_dispute(question.dispute)
        is_about = dispute is not None and dispute.terms.work == question.claim
        return dispute is not None and is_about and (stash in dispute.voters or stash in dispute.electorate)

    async def _delivery(self, unit_id: bytes) -> bytes:
        unit_status = await self._claim_port.unit(unit_id)
        # An earlier attempt may have another result, which is no claim.
        entry = None if unit_status is None else self._journal.races.get((unit_id, unit_status.unit.attempt))
        if unit_status is None or entry is None or entry.result is None:
            raise RefusedDeliveryError("no result of this unit here")
        key = unit_id, entry.result.output_root
        if key not in self._deliveries:
            content = await self._inputs.content(unit_id, unit_status.unit)
            self._deliveries[key] = encode_delivery(content, entry.result.outcomes)
            while len(self._deliveries) > DELIVERIES_KEPT:
                del self._deliveries[next(iter(self._deliveries))]
        return self._deliveries[key]


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
