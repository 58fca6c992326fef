"""Certificates: the signatures of more than two thirds of an epoch's stake on one ballot.

Invariant: a certificate that verifies carries distinct valid signatures of members of that epoch's set with a weight
above 2/3. `version` 1 is a bitmap with ed25519 signatures, in the set's order.
"""

from collections.abc import Iterable, Mapping

from consensus.parameters import ACTIVE_VALIDATORS_MAX
from consensus.validators import ValidatorSet
from runtime.blocks.evidence import DoubleBallot, DoubleProposal, are_signed
from runtime.blocks.votes import Ballot, VerifyEd25519, ballot_payload
from runtime.encoding.codec import U8, Annotated, Bounded, Codec, codec, struct
from runtime.encoding.types import Signature

VERSION_ED25519 = 1
BITMAP_BYTES_MAX = ACTIVE_VALIDATORS_MAX // 8


def verify_votes(
    evidence: DoubleProposal | DoubleBallot, members: ValidatorSet, genesis: bytes, verify: VerifyEd25519
) -> bool:
    """Return True if evidence E2, E3 or E4 convicts its accused, a member of the set of the statements' epoch."""
    if evidence.first.epoch != members.epoch or evidence.accused not in members.index:
        return False
    return are_signed(evidence, genesis, verify)


@struct
class Certificate:
    """One ballot, its signers (bit i of byte i // 8: the i-th member), and their signatures."""

    version: U8
    ballot: Ballot
    signers: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]
    signatures: Annotated[tuple[Signature, ...], Bounded(ACTIVE_VALIDATORS_MAX)]


CERTIFICATE: Codec[Certificate] = codec(Certificate)


def make_certificate(ballot: Ballot, members: ValidatorSet, signatures: Mapping[bytes, bytes]) -> Certificate:
    """Return the certificate of a ballot, given signatures by session key."""
    indices = sorted(members.index[key] for key in signatures)
    ordered = tuple(signatures[members.members[index].session] for index in indices)
    return Certificate(VERSION_ED25519, ballot, make_bitmap(signatures, members), ordered)


def make_bitmap(keys: Iterable[bytes], members: ValidatorSet) -> bytes:
    """Return the bitmap of these members: bit i of byte i // 8 is the i-th member."""
    bitmap = bytearray(-(-len(members.members) // 8))
    for index in (members.index[key] for key in keys):
        bitmap[index // 8] |= 1 << (index % 8)
    return bytes(bitmap)


def signers_of(certificate: Certificate, members: ValidatorSet) -> tuple[bytes, ...] | None:
    """Return the session keys of the signers, in order. Return None if the bitmap does not fit this set."""
    return read_bitmap(certificate.signers, members)


def read_bitmap(bitmap: bytes, members: ValidatorSet) -> tuple[bytes, ...] | None:
    """Return the session keys that a bitmap names, in order. Return None if the bitmap does not fit this set."""
    count = len(members.members)
    if len(bitmap) != -(-count // 8):
        return None
    bits = int.from_bytes(bitmap, "little")
    # Bits beyond the last member must be 0, so that a set of signers has exactly one encoding.
    if bits >> count:
        return None
    return tuple(member.session for place, member in enumerate(members.members) if bits >> place & 1)


def verify_certificate(certificate: Certificate, members: ValidatorSet, genesis: bytes, verify: VerifyEd25519) -> bool:
    """Return True if more than two thirds of the set signed.

    Checks the weight before any signature, which costs more.
    """
    # Other versions are reserved for aggregate signatures (ADR 4).
    if certificate.version != VERSION_ED25519 or certificate.ballot.epoch != members.epoch:
        return False
    keys = signers_of(certificate, members)
    if keys is None or len(keys) != len(certificate.signatures):
        return False
    if not members.is_quorum(sum(members.weight_of(key) for key in keys)):
        return False
    payload = ballot_payload(genesis, certificate.ballot)
    return all(verify(key, payload, signature) for key, signature in zip(keys, certificate.signatures, strict=True))
