"""How long a folder's knowledge of its chain is good for: from the newest final block that was proved to it.

A validator whose bond is out again loses nothing by signing another past. So whoever was away for longer than the
trusting period, which is shorter than the unbonding time, has to hear of a recent block from somebody else first.

Invariant: the point that is trusted never goes back, and is never one of the future.
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
"""Of mainnet, whose unbonding time is 21 days; on a development chain a longer absence is only told."""
RENEWED_AFTER_MS = DAY_MS // 24


class TrustExpiredError(WalletError):
    """What the folder knows of the chain is too old to tell who may certify it now."""


@dataclass(frozen=True, slots=True)
class SeenBlock:
    """The newest final block that was proved to a folder: which, and when its slot was."""

    genesis: str
    number: int
    block: str
    time_ms: int

    @property
    def id(self) -> bytes:
        """Its hash; ValueError if the text is none."""
        return bytes.fromhex(self.block.removeprefix("0x"))


def seen_of(genesis: bytes, found: FinalHeader, slot_ms: int) -> SeenBlock:
    """Return a final block as it is written down."""
    return SeenBlock("0x" + genesis.hex(), found.header.number, "0x" + found.id.hex(), found.slot * slot_ms)


def read_seen(folder: Path, genesis: bytes) -> SeenBlock | None:
    """What a folder saw of this chain last; None if nothing, as at first use. WalletError for a damaged file."""
    try:
        fields = json.loads(read_private(folder / SEEN_FILE, SEEN_BYTES_MAX))
        seen = SeenBlock(str(fields["genesis"]), int(fields["number"]), str(fields["block"]), int(fields["time_ms"]))
        _ = seen.id
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, RecursionError):
        raise WalletError(f"{folder / SEEN_FILE} does not say which block was seen: restore it, or remove it") from None
    return seen if seen.genesis == "0x" + genesis.hex() else None


def renew(folder: Path, before: SeenBlock | None, now: SeenBlock, clock_ms: int) -> SeenBlock | None:
    """Write down a block that is newer by `RENEWED_AFTER_MS`, and young; what the folder holds then."""
    is_young = 0 <= clock_ms - now.time_ms <= TRUSTING_PERIOD_MS
    if not is_young or (before is not None and now.time_ms < before.time_ms + RENEWED_AFTER_MS):
        return before
    with contextlib.suppress(OSError):  # another program may write it too; an older one is only stricter
        replace(folder / SEEN_FILE, (json.dumps(asdict(now), indent=2) + "\n").encode())
    return now


def forget(folder: Path) -> None:
    """Forget the known block of the chain."""
    (folder / SEEN_FILE).unlink(missing_ok=True)


def expiry(seen: SeenBlock | None, clock_ms: int) -> str | None:
    """Return a sentence if a block was seen too long ago; it says what to do."""
    if seen is None or clock_ms - seen.time_ms <= TRUSTING_PERIOD_MS:
        return None
    days = (clock_ms - seen.time_ms) // DAY_MS
    return (
        f"the last final block that was proved here, {seen.number}, is {days} days old; after "
        f"{TRUSTING_PERIOD_MS // DAY_MS} days validators may have left, and their signatures prove nothing. Ask "
        "somebody whom you trust, not this node, for the hash of a recent final block, and give it: --checkpoint 0x…"
    )
