"""An execution attestation of a unit: a provider's signed statement of program, device and result.

It opens the provider's commitment, so it is the reveal of a race of InferenceMarket. This module has the form: the
encoding, the signing payload, and the bounds of stated usage. An error of form makes a block invalid. The result itself
is never checked here.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.usage import Usage, impossible_usage
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, Bounded, codec, struct, variant
from runtime.encoding.types import BlockNumber, Hash, Signature

VERSION = 2
PROOF_INLINE_BYTES_MAX = 512


class ProofKind(IntEnum):
    """The means by which the work can be checked."""

    EXACT_HASH = 0
    SEEDED_SAMPLING = 1
    MATMUL_CHAIN = 2
    TRACE_ROOT = 3
    ZERO_KNOWLEDGE = 4
    TEE = 5


@struct
class Attestation:
    """The statement, without its signature. The signing payload adds the genesis hash."""

    version: U8
    unit: Hash
    attempt: U32
    replica: U8
    """The racer's place in draw order."""
    provider_key: Hash
    """The ed25519 key that signs."""
    device: Hash
    workload: Hash
    model: Hash
    input_root: Hash
    output_root: Hash
    output_blob: Hash
    """The address of the output, sealed to the customer."""
    totals: Totals
    """The totals under the output root: the tokens to pay for."""
    salt: Hash
    """The salt that opens the racer's commitment. It is random, and differs from the salt of the customer's input."""
    proof_kind: ProofKind
    proof_hash: Hash
    proof_inline: Annotated[bytes, Bounded(PROOF_INLINE_BYTES_MAX)]
    usage: Usage
    started_at: BlockNumber
    """The chain's height when the work began."""
    finished_at: BlockNumber


@variant(0, name="Unit")
class SignedAttestation(AnyAttestation):
    """A statement about a unit, and the ed25519 signature of `provider_key` over its payload."""

    statement: Attestation
    signature: Signature

    @property
    def subject(self) -> bytes:
        """The unit."""
        return self.statement.unit

    @property
    def step(self) -> tuple[int, int, int]:
        """The attempt, and the place in the race."""
        return self.statement.attempt, self.statement.replica, 0


_STATEMENT = codec(Attestation)


def signing_payload(genesis_hash: bytes, statement: Attestation) -> bytes:
    """Return the bytes that the provider key signs."""
    # The genesis hash keeps the signature from counting on another chain.
    return domain(b"attest", genesis_hash, _STATEMENT.encode(statement))


def usage_problem(statement: Attestation, *, drawn_at: int, height: int) -> str:
    """Return the reason why no provider can have done the stated work, or "" if it is possible.

    `drawn_at` is the block of the draw, `height` the block that takes the attestation.
    """
    if not drawn_at <= statement.started_at <= statement.finished_at <= height:
        return "times out of order, before the draw, or in the future"
    return impossible_usage(statement.usage, statement.finished_at - statement.started_at)
