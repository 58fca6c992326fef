"""Addresses that led to their peers, kept over a restart: one a line, as text.

What always holds: the file is bounded; a line that is damaged costs that line and nothing else; no file is no fault.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from node.durable import write_durably
from node.p2p.addresses import Address, AddressError, parse_address

MAX_KEPT: Final = 256
MAX_FILE_BYTES: Final = 64 * 1024
_LOG: Final = logging.getLogger(__name__)


def load(path: Path) -> list[Address]:
    """What is in the file, as far as it can be read."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        _LOG.warning("%s cannot be read: %s; peers are found anew", path, error)
        return []
    found = [address for line in text.splitlines() if (address := _read(line)) is not None]
    return found[:MAX_KEPT]


def save(path: Path, addresses: Iterable[Address]) -> None:
    """Write the first `MAX_KEPT` of them; a disk that refuses is worth a line in the log and no more."""
    lines = [f"{address}\n" for address in addresses][:MAX_KEPT]
    try:
        write_durably(path, "".join(lines).encode("ascii"))
    except OSError as error:
        _LOG.warning("%s cannot be written: %s; peers are found anew after a restart", path, error)


def _read(line: str) -> Address | None:
    try:
        return parse_address(line)
    except AddressError:
        return None
