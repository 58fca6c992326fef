"""The time for which a folder's knowledge of its chain is good: from the newest final block that was proved to it.

A validator whose bond was returned loses nothing by signing another history. A folder that was unused for longer than
the trusting period, which is shorter than the unbonding time, therefore first needs a recent block from another source.

Invariant: the trusted point never moves back, and is never one of the future.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from wallet.errors import WalletError
from wallet.private_file import read_private, replace
from wallet.proved.finality import FinalHeader

SEEN_FILE = "chain.seen"
SEEN_BYTES_MAX = 1024
DAY_MS = 24 * 60 * 60 * 1000
TRUSTING_PERIOD_MS = 14 * DAY_MS
"""For mainnet, whose unbonding time is 21 days. On a development chain a longer absence only gives a warning."""
RENEWED_AFTER_MS = DAY_MS // 24


class TrustExpiredError(WalletError):
    """The folder's knowledge of the chain is too old to tell who may certify blocks at present."""


@dataclass(frozen=True, slots=True)
class SeenBlock:
    """The newest final block that was proved to a folder, and the time of its slot."""

    genesis: str
    number: int
    block: str
    time_ms: int

    @property
    def id(self) -> bytes:
        """Its hash. Raise ValueError if the text is none."""
        return bytes.fromhex(self.block.removeprefix("0x"))


def seen_of(genesis: bytes, final_block: FinalHeader, slot_ms: int) -> SeenBlock:
    """Return a final block in its stored form."""
    return SeenBlock(
        "0x" + genesis.hex(), final_block.header.number, "0x" + final_block.id.hex(), final_block.slot * slot_ms
    )


def read_seen(folder: Path, genesis: bytes) -> SeenBlock | None:
    """Return the last block of this chain that a folder saw; None at first use.

    Raise WalletError if the file is damaged.
    """
    try:
        seen_fields = json.loads(read_private(folder / SEEN_FILE, SEEN_BYTES_MAX))
        seen_block = SeenBlock(
            str(seen_fields["genesis"]),
            int(seen_fields["number"]),
            str(seen_fields["block"]),
            int(seen_fields["time_ms"]),
        )
        _ = seen_block.id
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, RecursionError):
        raise WalletError(f"{folder / SEEN_FILE} does not say which block was seen: restore it, or remove it") from None
    return seen_block if seen_block.genesis == "0x" + genesis.hex() else None


def renew(folder: Path, stored_block: SeenBlock | None, proved_block: SeenBlock, clock_ms: int) -> SeenBlock | None:
    """Store a recent block that is newer by `RENEWED_AFTER_MS`; return the folder's block after that."""
    # A block of the future would extend the trust beyond the period.
    is_young = 0 <= clock_ms - proved_block.time_ms <= TRUSTING_PERIOD_MS
    if not is_young or (stored_block is not None and proved_block.time_ms < stored_block.time_ms + RENEWED_AFTER_MS):
        return stored_block
    with contextlib.suppress(OSError):  # another program may write it too; an older block is only stricter
        replace(folder / SEEN_FILE, (json.dumps(asdict(proved_block), indent=2) + "\n").encode())
    return proved_block


def forget(folder: Path) -> None:
    """Forget the known block of the chain."""
    (folder / SEEN_FILE).unlink(missing_ok=True)


def expiry(seen_block: SeenBlock | None, clock_ms: int) -> str | None:
    """Return an error text with the remedy if the block was seen too long ago; else None."""
    if seen_block is None or clock_ms - seen_block.time_ms <= TRUSTING_PERIOD_MS:
        return None
    age_days = (clock_ms - seen_block.time_ms) // DAY_MS
    return (
        f"the last final block that was proved here, {seen_block.number}, is {age_days} days old; after "
        f"{TRUSTING_PERIOD_MS // DAY_MS} days validators may have left, and their signatures prove nothing. Ask "
        "somebody whom you trust, not this node, for the hash of a recent final block, and give it: --checkpoint 0x…"
    )
