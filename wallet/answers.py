"""Answers of a node as values: ValueError, TypeError, KeyError if they are none, which `RpcConnection.ask` catches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.cryptography.hashing import HASH_BYTES
from runtime.frame.storage import StateCorrupted, StorageItem
from wallet.rpc import RpcJson

U32_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class BlockBody:
    """What a wallet reads of a block."""

    height: int
    parent: bytes
    extrinsics: tuple[bytes, ...]


def status_of(value: RpcJson) -> tuple[str, str]:
    """Name and block hash of a status; the hash is empty for states that have none."""
    if isinstance(value, str):
        return value, ""
    name, detail = next(iter(value.items()))
    return name, detail if isinstance(detail, str) else ""


def bytes_of(text: RpcJson) -> bytes:
    """Return the bytes of an answer in hex; TypeError or ValueError for any other."""
    if not isinstance(text, str) or not text.startswith("0x"):
        raise ValueError("not hex")
    return bytes.fromhex(text[2:])


def all_bytes_of(texts: RpcJson) -> list[bytes]:
    """Return the bytes of a list in hex; none of a mapping or a text."""
    if not isinstance(texts, list):
        raise TypeError("no list")
    return [bytes_of(text) for text in texts]


def hash_of(text: RpcJson) -> bytes:
    """Return an answer that is 32 bytes."""
    found = bytes_of(text)
    if len(found) != HASH_BYTES:
        raise ValueError("not a hash")
    return found


def whole_of(value: RpcJson, most: int) -> int:
    """Return an answer that counts something, as a number or in digits."""
    number = int(value) if isinstance(value, int | str) else -1
    if not 0 <= number <= most:
        raise ValueError(f"not a number from 0 to {most}")
    return number


def stored_of(item: StorageItem, raw: RpcJson) -> Any:
    """What a compiled storage item has under a key, its default where the answer is null."""
    try:
        return item.default if raw is None else item.decode(bytes_of(raw))
    except StateCorrupted as error:  # our own state would be; here it is only what a node says
        raise ValueError(str(error)) from error


def block_body_of(answer: RpcJson) -> BlockBody:
    """Return an answer of `chain_getBlock`."""
    header, extrinsics = answer["block"]["header"], answer["block"]["extrinsics"]
    height = whole_of(int(header["number"], 16), U32_MAX)
    return BlockBody(height, hash_of(header["parentHash"]), tuple(bytes_of(raw) for raw in extrinsics))


def hex_of(data: bytes | None) -> str | None:
    """As a question takes it."""
    return None if data is None else "0x" + data.hex()
