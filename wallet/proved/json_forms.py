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


def bytes_of(node_answer: NodeJson) -> bytes:
    """Return the bytes of 0x and hexadecimal digits."""
    try:
        if isinstance(node_answer, str) and node_answer.startswith("0x"):
            return bytes.fromhex(node_answer[2:])
    except ValueError:
        pass
    raise RefutedError("the answer is not the hexadecimal text that it should be")


def hash_of(node_answer: NodeJson) -> bytes:
    """Return 32 bytes from hexadecimal digits."""
    hash_bytes = bytes_of(node_answer)
    require(len(hash_bytes) == HASH_BYTES, "the answer is not a hash")
    return hash_bytes


def header_of(node_answer: NodeJson) -> Header:
    """Return a header from the form of `chain_getHeader`."""
    answer_fields = _object(node_answer)
    digest_logs = _object(answer_fields.get("digest")).get("logs")
    if not isinstance(digest_logs, list) or len(digest_logs) > DIGEST_ITEMS_MAX:
        raise RefutedError("the answer holds no header")
    try:
        digest = tuple(DIGEST_ITEM.decode(bytes_of(log_text)) for log_text in digest_logs)
    except DecodeError as error:
        raise RefutedError(f"the header's digest is malformed ({error})") from error
    return Header(
        hash_of(answer_fields.get("parentHash")),
        _height(answer_fields.get("number")),
        hash_of(answer_fields.get("stateRoot")),
        hash_of(answer_fields.get("extrinsicsRoot")),
        digest,
    )


def block_of(node_answer: NodeJson) -> tuple[Header, tuple[bytes, ...]]:
    """Return header and extrinsics from the form of `chain_getBlock`."""
    block_fields = _object(_object(node_answer).get("block"))
    return header_of(block_fields.get("header")), bytes_list(block_fields.get("extrinsics"))


def certified_of(node_answer: NodeJson) -> tuple[Header, bytes]:
    """Return header and certificate from the form of `ogpu_certifiedHeader`."""
    answer_fields = _object(node_answer)
    return header_of(answer_fields.get("header")), bytes_of(answer_fields.get("certificate"))


def proof_of(node_answer: NodeJson) -> list[bytes]:
    """Return the trie nodes from the form of `state_getReadProof` and `ogpu_callProof`."""
    return list(bytes_list(_object(node_answer).get("proof")))


def bytes_list(node_answer: NodeJson) -> tuple[bytes, ...]:
    """Return the bytes of a list of hexadecimal texts."""
    if not isinstance(node_answer, list):
        raise RefutedError("the answer is not the list that it should be")
    return tuple(bytes_of(hex_text) for hex_text in node_answer)


def _object(node_answer: NodeJson) -> dict[str, NodeJson]:
    if not isinstance(node_answer, dict):
        raise RefutedError("the answer is not the object that it should be")
    return node_answer


def _height(node_answer: NodeJson) -> int:
    if (
        not isinstance(node_answer, str)
        or not 2 < len(node_answer) <= HEIGHT_DIGITS_MAX
        or not node_answer.startswith("0x")
    ):
        raise RefutedError("the header has no height")
    return int.from_bytes(bytes_of("0x" + node_answer[2:].zfill(8)))
