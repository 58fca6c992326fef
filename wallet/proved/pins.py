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
        chain_kind = "development" if self.is_development else "live"
        return (
            f"{self.chain!r}, genesis {self.genesis}, {chain_kind}, {self.parameters} parameters, spec "
            f"{self.spec_version}"
        )


def compare(folder: Path, current_pin: Pin) -> bool:
    """Return whether the folder has a chain. Raise ChainChangedError if it is another than this one."""
    pin_path = folder / PIN_FILE
    stored_pin = read_pin(folder)
    if stored_pin is not None and stored_pin != current_pin:
        raise ChainChangedError(
            f"this is another chain than before: {pin_path} holds {stored_pin}; the node serves {current_pin}. "
            "Nothing was signed; remove that file if you mean the change"
        )
    return stored_pin is not None


def hold_to(folder: Path, current_pin: Pin) -> bool:
    """Store the chain at first use and return True, else compare. Raise ChainChangedError if it is another."""
    if compare(folder, current_pin):
        return False
    try:
        write_new(folder / PIN_FILE, (json.dumps(asdict(current_pin), indent=2) + "\n").encode())
    except FileExistsError:  # another program stored it a moment before
        return not compare(folder, current_pin)
    return True


def check_genesis(genesis_hash: bytes, requested_hash: bytes) -> None:
    """Raise ChainChangedError unless the node's genesis hash is the requested one."""
    if genesis_hash != requested_hash:
        raise ChainChangedError(
            f"the node serves the chain 0x{genesis_hash.hex()}, not 0x{requested_hash.hex()} of --genesis. "
            "Correct --genesis, or give the --url of a node of that chain"
        )


def read_pin(folder: Path) -> Pin | None:
    """Return a folder's chain; None before its first use. Raise WalletError if the file is damaged."""
    pin_path = folder / PIN_FILE
    try:
        file_bytes = read_private(pin_path, PIN_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        pin_fields = json.loads(file_bytes)
        stored_pin = Pin(**pin_fields)
    except (ValueError, TypeError, RecursionError):
        raise WalletError(f"{pin_path} does not say which chain this is: restore it, or remove it") from None
    field_types = {"str": str, "bool": bool, "int": int}
    # Exact types: True would pass for the number 1.
    if any(
        type(getattr(stored_pin, pin_field.name)) is not field_types[str(pin_field.type)]
        for pin_field in fields(stored_pin)
    ):
        raise WalletError(f"{pin_path} does not say which chain this is: restore it, or remove it")
    return stored_pin
