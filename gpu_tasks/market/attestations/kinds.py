"""Attestations of any market in one form: what a block lists, what peers gossip, what a provider hands to its node.

A SCALE enum, not a list for each kind: so a block, a gossiped message and what a node is handed have the same bytes and
one decoder, one order and one set of limits holds for all kinds together. With two lists every limit would be there
twice, and their sum would be the limit; messages would need a mark of their own. The enum is open: each market brings a
variant of its own (`work_source`).

Always: attestations of a block ascend strictly, by the variant first: units come before tasks, since a race is open for
twelve blocks and a milestone for longer; a unit's place in a race and a slot's step are there once.
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
"""For the attestations that an author attaches: each may settle a race."""
BAD_SIGNATURE = "bad signature"
"""The problem of a statement whose key did not sign it."""

OrderKey = tuple[int, bytes, int, int, int]


class ProviderStatement(Protocol):
    """What every statement says, whatever it is about."""

    @property
    def provider_key(self) -> bytes:
        """The ed25519 key that signs."""


class AnyAttestation(ABC):
    """A signed statement about work; a market's own one is a `@variant` that derives from this."""

    __slots__ = ()
    __variant__: ClassVar[int]

    statement: ProviderStatement
    signature: bytes

    @property
    @abstractmethod
    def subject(self) -> bytes:
        """The unit or the task that it is about."""

    @property
    @abstractmethod
    def step(self) -> tuple[int, int, int]:
        """Which statement about its subject it is, ascending in the order in which a block takes them."""


AttestationWire = Annotated[AnyAttestation, Tagged("ogpu::AnyAttestation")]
"""The enum of all variants that the pallets of a runtime list."""
AttestationList = Annotated[tuple[AttestationWire, ...], Bounded(ATTESTATIONS_PER_BLOCK_MAX)]


@lru_cache(maxsize=16)
def _codec(kind: type[AnyAttestation]) -> Codec[AnyAttestation]:
    return codec(Annotated[kind, Tagged()])


def encode_attestation(signed: AnyAttestation) -> bytes:
    """The bytes of one of any kind: a byte for the kind, statement, signature."""
    return _codec(type(signed)).encode(signed)


def order_key(signed: AnyAttestation) -> OrderKey:
    """Attestations of a block ascend strictly by this: one for each place in each race, and for each step of a slot."""
    return signed.__variant__, signed.subject, *signed.step


def size(signed: AnyAttestation) -> int:
    """Encoded length in bytes."""
    return len(encode_attestation(signed))


def attestation_hash(signed: AnyAttestation) -> bytes:
    """What explorers name an attestation by; a node that is handed one answers with it."""
    return blake2_256(encode_attestation(signed))
