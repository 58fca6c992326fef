"""An extrinsic in the pool, those of one sender, and what a step of the queue did to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.encoding.marks import record

READY = "ready"
FUTURE = "future"


@record
class PooledExtrinsic:
    """A valid signed extrinsic: `priority` orders (what it pays), `expires_at` is the last height it may be in.

    `fee`, in grains and with its tip, is what its sender must be able to pay besides the fees of its others.
    """

    extrinsic_hash: bytes
    raw: bytes
    sender: bytes
    nonce: int
    priority: int
    expires_at: int
    fee: int = 0


@record
class Admitted:
    """What adding an extrinsic did to the pool."""

    status: str
    usurped: bytes | None = None
    promoted: tuple[bytes, ...] = ()
    dropped: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """What a new best block did to the pool; the `used` ones are in a block."""

    promoted: tuple[bytes, ...] = ()
    demoted: tuple[bytes, ...] = ()
    dropped: tuple[bytes, ...] = ()
    used: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Sender:
    """One account's extrinsics, what they pay together, and how often each nonce was replaced.

    Those with a nonce from `account_nonce` up to `ready_end`, exclusive, are ready.
    """

    account_nonce: int
    ready_end: int
    by_nonce: dict[int, PooledExtrinsic] = field(default_factory=dict)
    fees: int = 0
    replaced: dict[int, int] = field(default_factory=dict)

    def future_count(self) -> int:
        """How many wait for a lower nonce."""
        return len(self.by_nonce) - (self.ready_end - self.account_nonce)
