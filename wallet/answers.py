"""A node's answers as values. For other JSON they raise errors that `RpcConnection.ask` catches.

These are ValueError, TypeError and KeyError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.cryptography.hashing import HASH_BYTES
from runtime.frame.storage import StateCorrupted, StorageItem
from wallet.rpc import RpcJson

U32_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class BlockBody:
    """The parts of a block that a wallet reads."""

    height: int
    parent: bytes
    extrinsics: tuple[bytes, ...]


def status_of(status: RpcJson) -> tuple[str, str]:
    """Return the name and block hash of a status; the hash is empty for a status without one."""
    if isinstance(status, str):
        return status, ""
    status_name, block_hash = next(iter(status.items()))
    return status_name, block_hash if isinstance(block_hash, str) else ""


def bytes_of(hex_text: RpcJson) -> bytes:
    """Return the bytes of a hex answer. Raise TypeError or ValueError for any other."""
    if not isinstance(hex_text, str) or not hex_text.startswith("0x"):
        raise ValueError("not hex")
    return bytes.fromhex(hex_text[2:])


def all_bytes_of(hex_texts: RpcJson) -> list[bytes]:
    """Return the bytes of a list in hex. Raise TypeError for a mapping or a text."""
    if not isinstance(hex_texts, list):
        raise TypeError("no list")
    return [bytes_of(hex_text) for hex_text in hex_texts]


def hash_of(hex_text: RpcJson) -> bytes:
    """Return an answer of 32 bytes. Raise ValueError for another length."""
    hash_bytes = bytes_of(hex_text)
    if len(hash_bytes) != HASH_BYTES:
        raise ValueError("not a hash")
    return hash_bytes


def whole_of(answer: RpcJson, maximum: int) -> int:
    """Return an answer that is a count, as a number or in digits. Raise ValueError above `maximum`."""
    number = int(answer) if isinstance(answer, int | str) else -1
    if not 0 <= number <= maximum:
        raise ValueError(f"not a number from 0 to {maximum}")
    return number


def stored_of(item: StorageItem, encoded_value: RpcJson) -> Any:
    """Return a compiled storage item's value, or its default if the answer is null."""
    try:
        return item.default if encoded_value is None else item.decode(bytes_of(encoded_value))
    except StateCorrupted as error:  # that error is about our own state, but here a node's answer is wrong
        raise ValueError(str(error)) from error


def block_body_of(answer: RpcJson) -> BlockBody:
    """Return the block in an answer of `chain_getBlock`."""
    header, extrinsics = answer["block"]["header"], answer["block"]["extrinsics"]
    block_number = whole_of(int(header["number"], 16), U32_MAX)
    return BlockBody(
        block_number, hash_of(header["parentHash"]), tuple(bytes_of(extrinsic_hex) for extrinsic_hex in extrinsics)
    )


def hex_of(data: bytes | None) -> str | None:
    """Return bytes in the form of a request's parameter."""
    return None if data is None else "0x" + data.hex()
