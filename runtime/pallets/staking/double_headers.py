"""Offence E1: two sealed headers of one author in one slot.

Invariant: two headers and their author's keys in the epochs of these headers prove it, from any reporter, even after
the author has left the set. An author that signs once for a slot cannot be accused.
"""

from collections.abc import Callable
from dataclasses import dataclass

from runtime.blocks.block import Header, block_id, seal_payload
from runtime.blocks.digest import find_author, find_pre_digest, split_seal
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import DecodeError, codec


@dataclass(frozen=True, slots=True)
class ProvenDoubleHeader:
    """The author that proposed twice, the slot, and the later epoch of its headers."""

    author: bytes
    slot: int
    epoch: int


@dataclass(frozen=True, slots=True)
class _Statement:
    """A decoded sealed header."""

    id: bytes
    author: bytes
    slot: int
    epoch: int
    header: Header


def double_proposal(
    first_header: bytes, second_header: bytes, genesis_hash: bytes, session_key: Callable[[bytes, int], bytes | None]
) -> ProvenDoubleHeader | None:
    """Return the offence that two encoded headers prove, None if they prove none.

    `session_key` returns the key of an author's stash in an epoch, None if it had no seat. The headers may belong to
    two epochs, at their edge, and carry two keys of one validator.
    """
    first = _read(first_header)
    second = _read(second_header)
    if first is None or second is None:
        return None
    # The same header twice is no offence.
    if first.id == second.id or (first.author, first.slot) != (
        second.author,
        second.slot,
    ):
        return None
    # Each header by the key of its own epoch, because keys change between epochs.
    seal_keys = [session_key(signed_statement.author, signed_statement.epoch) for signed_statement in (first, second)]
    for known_key, statement in zip(seal_keys, (first, second), strict=True):
        if known_key is None or not _is_sealed_by(known_key, statement, genesis_hash):
            return None
    return ProvenDoubleHeader(first.author, first.slot, max(first.epoch, second.epoch))


def named_epochs(first_header: bytes, second_header: bytes) -> tuple[int, ...]:
    """Return the epochs of two encoded headers, () if one of them is malformed or without a slot."""
    first = _read(first_header)
    second = _read(second_header)
    return () if first is None or second is None else (first.epoch, second.epoch)


def _read(header_bytes: bytes) -> _Statement | None:
    try:
        header = codec(Header).decode(header_bytes)
        author, pre_digest = find_author(header.digest), find_pre_digest(header.digest)
    except DecodeError:
        return None
    if author is None or pre_digest is None:
        return None
    return _Statement(block_id(header), author, pre_digest.slot, pre_digest.epoch, header)


def _is_sealed_by(key: bytes, statement: _Statement, genesis_hash: bytes) -> bool:
    try:
        _, signature = split_seal(statement.header.digest)
    except DecodeError:
        return False
    return verify_ed25519(key, seal_payload(genesis_hash, statement.header), signature)
