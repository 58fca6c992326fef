"""How old a final header is by this machine's clock: an old one proves an old state. Pure."""

from __future__ import annotations

from consensus.parameters import Parameters
from wallet.proved.finality import FinalHeader

STALE_SLOTS = 10


def doubt_of_age(block: FinalHeader, parameters: Parameters, now_ms: int) -> str | None:
    """A sentence if the block after `block` is `STALE_SLOTS` overdue, or if `block` is of the future; else None.

    A chain without work makes a block in every `heartbeat_slots` only.
    """
    if block.header.number == 0:
        return "no block is final yet: what is shown is how the chain began"
    behind_ms = now_ms - block.slot * parameters.slot_ms
    if behind_ms < -parameters.skew_ms:
        return (
            f"final block {block.header.number} is {_seconds(-behind_ms)} in the future: this machine's clock is late"
        )
    if behind_ms <= (STALE_SLOTS + parameters.heartbeat_slots) * parameters.slot_ms:
        return None
    return (
        f"final block {block.header.number} is {_seconds(behind_ms)} old: what it shows may have changed since "
        "(the node is behind, or the chain finalises nothing)"
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000:,} s"
