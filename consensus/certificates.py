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
    evidence: DoubleProposal | DoubleBallot,
    validators: ValidatorSet,
    genesis_hash: bytes,
    verify_signature: VerifyEd25519,
) -> bool:
    """Return True if evidence E2, E3 or E4 convicts its accused, a member of the set of the statements' epoch."""
    if evidence.first.epoch != validators.epoch or evidence.accused not in validators.index:
        return False
    return are_signed(evidence, genesis_hash, verify_signature)


@struct
class Certificate:
    """One ballot, its signers (bit i of byte i // 8: the i-th member), and their signatures."""

    version: U8
    ballot: Ballot
    signers: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]
    signatures: Annotated[tuple[Signature, ...], Bounded(ACTIVE_VALIDATORS_MAX)]


CERTIFICATE: Codec[Certificate] = codec(Certificate)


def make_certificate(ballot: Ballot, validators: ValidatorSet, signatures: Mapping[bytes, bytes]) -> Certificate:
    """Return the certificate of a ballot, given signatures by session key."""
    signer_indices = sorted(validators.index[session_key] for session_key in signatures)
    ordered_signatures = tuple(signatures[validators.members[member_index].session] for member_index in signer_indices)
    return Certificate(VERSION_ED25519, ballot, make_bitmap(signatures, validators), ordered_signatures)


def make_bitmap(session_keys: Iterable[bytes], validators: ValidatorSet) -> bytes:
    """Return the bitmap of these members: bit i of byte i // 8 is the i-th member."""
    bitmap = bytearray(-(-len(validators.members) // 8))
    for member_index in (validators.index[session_key] for session_key in session_keys):
        bitmap[member_index // 8] |= 1 << (member_index % 8)
    return bytes(bitmap)


def signers_of(certificate: Certificate, validators: ValidatorSet) -> tuple[bytes, ...] | None:
    """Return the session keys of the signers, in order. Return None if the bitmap does not fit this set."""
    return read_bitmap(certificate.signers, validators)


def read_bitmap(bitmap: bytes, validators: ValidatorSet) -> tuple[bytes, ...] | None:
    """Return the session keys that a bitmap names, in order. Return None if the bitmap does not fit this set."""
    member_count = len(validators.members)
    if len(bitmap) != -(-member_count // 8):
        return None
    bitmap_value = int.from_bytes(bitmap, "little")
    # Bits beyond the last member must be 0, so that a set of signers has exactly one encoding.
    if bitmap_value >> member_count:
        return None
    return tuple(
        member.session for member_index, member in enumerate(validators.members) if bitmap_value >> member_index & 1
    )


def verify_certificate(
    certificate: Certificate, validators: ValidatorSet, genesis_hash: bytes, verify_signature: VerifyEd25519
) -> bool:
    """Return True if more than two thirds of the set signed.

    Checks the weight before any signature, which costs more.
    """
    # Other versions are reserved for aggregate signatures (ADR 4).
    if certificate.version != VERSION_ED25519 or certificate.ballot.epoch != validators.epoch:
        return False
    session_keys = signers_of(certificate, validators)
    if session_keys is None or len(session_keys) != len(certificate.signatures):
        return False
    if not validators.is_quorum(sum(validators.weight_of(session_key) for session_key in session_keys)):
        return False
    payload = ballot_payload(genesis_hash, certificate.ballot)
    return all(
        verify_signature(session_key, payload, signature)
        for session_key, signature in zip(session_keys, certificate.signatures, strict=True)
    )
