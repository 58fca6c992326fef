"""The kinds of attestations, in one form: what a block lists, what peers gossip, what a provider hands to its node.

A SCALE enum, not a list for each kind: so a block, a gossiped message and what a node is handed have the same bytes and
one decoder, one order and one set of limits holds for all kinds together, and another kind is another variant. With two
lists every limit would be there twice, and their sum would be the limit; messages would need a mark of their own.

Always: attestations of a block ascend strictly, units before tasks, since a race is open for twelve blocks and a
milestone for longer; a unit's place in a race and a slot's step are there once.
"""

from typing import Annotated

from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.attestations.task_statement import SignedTaskAttestation, task_order_key
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import Bounded, Tagged, codec

ATTESTATIONS_PER_BLOCK_MAX = 500
ATTESTATION_BYTES_PER_BLOCK_MAX = 256_000

AnyAttestation = Annotated[SignedAttestation | SignedTaskAttestation, Tagged("ogpu::AnyAttestation")]
AttestationList = Annotated[tuple[AnyAttestation, ...], Bounded(ATTESTATIONS_PER_BLOCK_MAX)]
OrderKey = tuple[int, bytes, int, int, int]

_ANY = codec(AnyAttestation)


def encode_attestation(signed: AnyAttestation) -> bytes:
    """The bytes of one of any kind: a byte for the kind, statement, signature."""
    return _ANY.encode(signed)


def decode_attestation(raw: bytes) -> AnyAttestation:
    """One of any kind; DecodeError for anything else."""
    attestation: AnyAttestation = _ANY.decode(raw)
    return attestation


def subject_of(signed: AnyAttestation) -> bytes:
    """The unit or the task that it is about."""
    return signed.statement.task if isinstance(signed, SignedTaskAttestation) else signed.statement.unit


def order_key(signed: AnyAttestation) -> OrderKey:
    """Attestations of a block ascend strictly by this: one for each place in each race, and for each step of a slot."""
    if isinstance(signed, SignedTaskAttestation):
        return 1, *task_order_key(signed)
    return 0, signed.statement.unit, signed.statement.attempt, signed.statement.replica, 0


def size(signed: AnyAttestation) -> int:
    """Encoded length in bytes."""
    return len(_ANY.encode(signed))


def attestation_hash(signed: AnyAttestation) -> bytes:
    """What explorers name an attestation by; a node that is handed one answers with it."""
    return blake2_256(_ANY.encode(signed))
