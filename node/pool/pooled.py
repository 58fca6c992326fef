"""An extrinsic in the pool, the extrinsics of one sender, and the result of a queue's step."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.encoding.marks import record

READY = "ready"
FUTURE = "future"


@record
class PooledExtrinsic:
    """A valid signed extrinsic; `expires_at` is the last height of a block that may hold it.

    `priority` orders by payment. The sender must be able to pay `fee` (grains, with the tip) beside the fees of its
    other extrinsics.
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
    """The changes to the pool after an extrinsic was added."""

    status: str
    usurped_hash: bytes | None = None
    promoted_hashes: tuple[bytes, ...] = ()
    dropped_hashes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The changes to the pool after a new best block; the block's chain holds the extrinsics of `used_hashes`."""

    promoted_hashes: tuple[bytes, ...] = ()
    demoted_hashes: tuple[bytes, ...] = ()
    dropped_hashes: tuple[bytes, ...] = ()
    used_hashes: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Sender:
    """The extrinsics of one account, the sum of their fees, and the number of replacements of each nonce.

    Nonces from `account_nonce` up to `ready_end`, exclusive, are ready.
    """

    account_nonce: int
    ready_end: int
    by_nonce: dict[int, PooledExtrinsic] = field(default_factory=dict)
    fees: int = 0
    replaced: dict[int, int] = field(default_factory=dict)

    def future_count(self) -> int:
        """Return the number of extrinsics that wait for a lower nonce."""
        return len(self.by_nonce) - (self.ready_end - self.account_nonce)
