"""Headers, bytes and proofs from a node's JSON. Pure.

Only the form is checked here: RefutedError if it is wrong. A header's identity is the hash of the decoded fields.
"""

from __future__ import annotations

from typing import Any

from runtime.blocks.block import Header
from runtime.blocks.digest import DIGEST_ITEM, DIGEST_ITEMS_MAX
from runtime.cryptography.hashing import HASH_BYTES
from runtime.encoding.codec import DecodeError
from wallet.proved.refutation import RefutedError, require

# 0x and eight digits, because heights are u32.
HEIGHT_DIGITS_MAX = 10

NodeJson = Any
"""A node's answer: any JSON."""


def bytes_of(value: NodeJson) -> bytes:
    """Return the bytes of 0x and hexadecimal digits."""
    try:
        if isinstance(value, str) and value.startswith("0x"):
            return bytes.fromhex(value[2:])
    except ValueError:
        pass
    raise RefutedError("the answer is not the hexadecimal text that it should be")


def hash_of(value: NodeJson) -> bytes:
    """Return 32 bytes from hexadecimal digits."""
    found = bytes_of(value)
    require(len(found) == HASH_BYTES, "the answer is not a hash")
    return found


def header_of(value: NodeJson) -> Header:
    """Return a header from the form of `chain_getHeader`."""
    fields = _object(value)
    logs = _object(fields.get("digest")).get("logs")
    if not isinstance(logs, list) or len(logs) > DIGEST_ITEMS_MAX:
        raise RefutedError("the answer holds no header")
    try:
        digest = tuple(DIGEST_ITEM.decode(bytes_of(log)) for log in logs)
    except DecodeError as error:
        raise RefutedError(f"the header's digest is malformed ({error})") from error
    return Header(
        hash_of(fields.get("parentHash")),
        _height(fields.get("number")),
        hash_of(fields.get("stateRoot")),
        hash_of(fields.get("extrinsicsRoot")),
        digest,
    )


def block_of(value: NodeJson) -> tuple[Header, tuple[bytes, ...]]:
    """Return header and extrinsics from the form of `chain_getBlock`."""
    block = _object(_object(value).get("block"))
    return header_of(block.get("header")), bytes_list(block.get("extrinsics"))


def certified_of(value: NodeJson) -> tuple[Header, bytes]:
    """Return header and certificate from the form of `ogpu_certifiedHeader`."""
    fields = _object(value)
    return header_of(fields.get("header")), bytes_of(fields.get("certificate"))


def proof_of(value: NodeJson) -> list[bytes]:
    """Return the trie nodes from the form of `state_getReadProof` and `ogpu_callProof`."""
    return list(bytes_list(_object(value).get("proof")))


def bytes_list(value: NodeJson) -> tuple[bytes, ...]:
    """Return the bytes of a list of hexadecimal texts."""
    if not isinstance(value, list):
        raise RefutedError("the answer is not the list that it should be")
    return tuple(bytes_of(item) for item in value)


def _object(value: NodeJson) -> dict[str, NodeJson]:
    if not isinstance(value, dict):
        raise RefutedError("the answer is not the object that it should be")
    return value


def _height(value: NodeJson) -> int:
    if not isinstance(value, str) or not 2 < len(value) <= HEIGHT_DIGITS_MAX or not value.startswith("0x"):
        raise RefutedError("the header has no height")
    return int.from_bytes(bytes_of("0x" + value[2:].zfill(8)))
