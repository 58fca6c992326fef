"""Attestations of all markets in one form: for blocks, for gossip, and for a provider that submits to its node.

The form is one SCALE enum. A block, a gossiped message and a submission have the same bytes, and one decoder, one order
and one set of limits serve all kinds. A list for each kind would need every limit twice, and messages would need a tag.
The enum is open: each market adds a variant of its own (`work_source`).

Invariant: the attestations of a block ascend strictly, first by variant. Units come before tasks, because a race is
open for 12 blocks and a milestone for longer. Each place of a race and each step of a slot occurs once.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Annotated, ClassVar, Protocol

from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import Bounded, Codec, Tagged, codec
from runtime.frame.weights import work

ATTESTATIONS_PER_BLOCK_MAX = 500
ATTESTATION_BYTES_PER_BLOCK_MAX = 256_000
ATTESTATIONS_MAX = work(microseconds=200_000)
"""The weight for the attestations that an author attaches. Each of them may settle a race."""
BAD_SIGNATURE = "bad signature"
"""The problem of a statement with a signature that its key did not make."""

OrderKey = tuple[int, bytes, int, int, int]


class ProviderStatement(Protocol):
    """The common part of all statements."""

    @property
    def provider_key(self) -> bytes:
        """The ed25519 key that signs."""


class AnyAttestation(ABC):
    """A signed statement about work. Each market derives a `@variant` of its own."""

    __slots__ = ()
    __variant__: ClassVar[int]

    statement: ProviderStatement
    signature: bytes

    @property
    @abstractmethod
    def subject(self) -> bytes:
        """The unit or the task of the statement."""

    @property
    @abstractmethod
    def step(self) -> tuple[int, int, int]:
        """The statement's number within its subject. A block takes statements in ascending order."""


AttestationWire = Annotated[AnyAttestation, Tagged("ogpu::AnyAttestation")]
"""The enum of all variants that the pallets of a runtime list."""
AttestationList = Annotated[tuple[AttestationWire, ...], Bounded(ATTESTATIONS_PER_BLOCK_MAX)]


@lru_cache(maxsize=16)
def _codec(kind: type[AnyAttestation]) -> Codec[AnyAttestation]:
    return codec(Annotated[kind, Tagged()])


def encode_attestation(attestation: AnyAttestation) -> bytes:
    """Return the encoded attestation: a byte for the kind, the statement, the signature."""
    return _codec(type(attestation)).encode(attestation)


def order_key(attestation: AnyAttestation) -> OrderKey:
    """Return the sort key of an attestation, unique for each place of a race and each step of a slot."""
    return attestation.__variant__, attestation.subject, *attestation.step


def size(attestation: AnyAttestation) -> int:
    """Return the encoded length in bytes."""
    return len(encode_attestation(attestation))


def attestation_hash(attestation: AnyAttestation) -> bytes:
    """Return the hash that names an attestation in explorers and in a node's answer to a submission."""
    return blake2_256(encode_attestation(attestation))
