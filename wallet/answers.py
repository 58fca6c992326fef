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


def status_of(value: RpcJson) -> tuple[str, str]:
    """Return the name and block hash of a status; the hash is empty for a status without one."""
    if isinstance(value, str):
        return value, ""
    name, detail = next(iter(value.items()))
    return name, detail if isinstance(detail, str) else ""


def bytes_of(text: RpcJson) -> bytes:
    """Return the bytes of a hex answer. Raise TypeError or ValueError for any other."""
    if not isinstance(text, str) or not text.startswith("0x"):
        raise ValueError("not hex")
    return bytes.fromhex(text[2:])


def all_bytes_of(texts: RpcJson) -> list[bytes]:
    """Return the bytes of a list in hex. Raise TypeError for a mapping or a text."""
    if not isinstance(texts, list):
        raise TypeError("no list")
    return [bytes_of(text) for text in texts]


def hash_of(text: RpcJson) -> bytes:
    """Return an answer of 32 bytes. Raise ValueError for another length."""
    found = bytes_of(text)
    if len(found) != HASH_BYTES:
        raise ValueError("not a hash")
    return found


def whole_of(value: RpcJson, most: int) -> int:
    """Return an answer that is a count, as a number or in digits. Raise ValueError above `most`."""
    number = int(value) if isinstance(value, int | str) else -1
    if not 0 <= number <= most:
        raise ValueError(f"not a number from 0 to {most}")
    return number


def stored_of(item: StorageItem, raw: RpcJson) -> Any:
    """Return a compiled storage item's value, or its default if the answer is null."""
    try:
        return item.default if raw is None else item.decode(bytes_of(raw))
    except StateCorrupted as error:  # that error is about our own state, but here a node's answer is wrong
        raise ValueError(str(error)) from error


def block_body_of(answer: RpcJson) -> BlockBody:
    """Return the block in an answer of `chain_getBlock`."""
    header, extrinsics = answer["block"]["header"], answer["block"]["extrinsics"]
    height = whole_of(int(header["number"], 16), U32_MAX)
    return BlockBody(height, hash_of(header["parentHash"]), tuple(bytes_of(raw) for raw in extrinsics))


def hex_of(data: bytes | None) -> str | None:
    """Return bytes in the form of a request's parameter."""
    return None if data is None else "0x" + data.hex()
