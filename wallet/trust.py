"""A node's address, and the proofs that a program requires of it. Few imports: command lines import it first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_URL = "ws://127.0.0.1:9944"
HASH_BYTES = 32
WEB_SOCKETS = {"http": "ws", "https": "wss"}


def socket_url(address: str) -> str:
    """Return the WebSocket address of a node from an HTTP or WebSocket address, or from one without a scheme."""
    url_scheme, is_parted, address_rest = address.partition("://")
    return f"{WEB_SOCKETS.get(url_scheme.lower(), url_scheme)}://{address_rest}" if is_parted else f"ws://{address}"


def hash_typed(hash_text: str) -> bytes | None:
    """Return the 32 bytes of 64 hexadecimal digits, with or without 0x; None for any other text."""
    try:
        hash_bytes = bytes.fromhex(hash_text.removeprefix("0x"))
    except ValueError:
        return None
    return hash_bytes if len(hash_bytes) == HASH_BYTES else None


@dataclass(frozen=True, slots=True)
class Trust:
    """The basis of trust: the folder that knows the chain, a genesis hash from the user, or the node alone."""

    folder: Path
    genesis: bytes | None = None
    is_blind: bool = False
    checkpoint: bytes | None = None
    """The hash of a recent final block from a source that the user trusts."""
