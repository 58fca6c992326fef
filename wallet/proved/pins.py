"""The chain of a folder: stored at first use, and required from then on.

Invariant: a program with this folder signs only for the chain and the rules of the folder's first use, until a person
removes the file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from wallet.errors import WalletError
from wallet.private_file import read_private, write_new

PIN_FILE = "chain.pin"
PIN_BYTES_MAX = 4096


class ChainChangedError(WalletError):
    """The node serves another chain, or other rules, than the folder's."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One chain: its genesis hash in hexadecimal, its name, and its rules."""

    genesis: str
    chain: str
    parameters: str
    is_development: bool
    spec_version: int

    def __str__(self) -> str:
        """Return the pin as text for a person."""
        kind = "development" if self.is_development else "live"
        return f"{self.chain!r}, genesis {self.genesis}, {kind}, {self.parameters} parameters, spec {self.spec_version}"


def compare(folder: Path, found: Pin) -> bool:
    """Return whether the folder has a chain. Raise ChainChangedError if it is another than this one."""
    path = folder / PIN_FILE
    known = read_pin(folder)
    if known is not None and known != found:
        raise ChainChangedError(
            f"this is another chain than before: {path} holds {known}; the node serves {found}. "
            "Nothing was signed; remove that file if you mean the change"
        )
    return known is not None


def hold_to(folder: Path, found: Pin) -> bool:
    """Store the chain at first use and return True, else compare. Raise ChainChangedError if it is another."""
    if compare(folder, found):
        return False
    try:
        write_new(folder / PIN_FILE, (json.dumps(asdict(found), indent=2) + "\n").encode())
    except FileExistsError:  # another program stored it a moment before
        return not compare(folder, found)
    return True


def check_genesis(found: bytes, wanted: bytes) -> None:
    """Raise ChainChangedError unless the node's genesis hash is the requested one."""
    if found != wanted:
        raise ChainChangedError(f"the node serves the chain 0x{found.hex()}, not 0x{wanted.hex()} as asked for")


def read_pin(folder: Path) -> Pin | None:
    """Return a folder's chain; None before its first use. Raise WalletError if the file is damaged."""
    path = folder / PIN_FILE
    try:
        raw = read_private(path, PIN_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        values = json.loads(raw)
        pin = Pin(**values)
    except (ValueError, TypeError, RecursionError):
        raise WalletError(f"{path} does not say which chain this is: restore it, or remove it") from None
    kinds = {"str": str, "bool": bool, "int": int}
    # Exact types: True would pass for the number 1.
    if any(type(getattr(pin, field.name)) is not kinds[str(field.type)] for field in fields(pin)):
        raise WalletError(f"{path} does not say which chain this is: restore it, or remove it")
    return pin
