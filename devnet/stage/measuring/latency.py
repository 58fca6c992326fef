"""The time from the start of a block's slot until clients of the nodes see it accepted, and final.

Invariant: the clock is read when a node's subscription delivers the header, so a time includes the node's RPC process.
Each block counts once for each node that delivered it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from devnet.launcher.layout import Devnet, NodeLayout
from runtime.blocks.digest import DIGEST_ITEM, DigestItem, find_pre_digest
from runtime.encoding.codec import DecodeError
from wallet.rpc import NodeUnreachableError, RpcConnection

RETRY_SECONDS = 0.2
_HEADS = {
    "accepted": ("chain_subscribeNewHeads", "chain_unsubscribeNewHeads"),
    "final": ("chain_subscribeFinalizedHeads", "chain_unsubscribeFinalizedHeads"),
}


@dataclass(slots=True)
class Latencies:
    """Milliseconds from the start of a block's slot until a node reported it accepted, or final."""

    slot_ms: int
    accepted: list[int] = field(default_factory=list)
    final: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return p50 and p99 of both, with the number of samples."""
        return {
            name: {"p50_ms": percentile(values, 50), "p99_ms": percentile(values, 99), "blocks": len(values)}
            for name, values in (("accepted", self.accepted), ("final", self.final))
        }

    def line(self) -> str:
        """Return the figures as one line."""
        return "; ".join(
            f"{name} p50 {figure['p50_ms']} ms, p99 {figure['p99_ms']} ms" for name, figure in self.figures().items()
        )


def percentile(values: Sequence[int], percent: int) -> int | None:
    """Return the smallest value that at least `percent` of all values do not exceed, or None without values."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)] if values else None


async def measure(devnet: Devnet, slot_ms: int, seconds: float) -> Latencies:
    """Listen to every node for some seconds."""
    found = Latencies(slot_ms)
    tasks = [asyncio.create_task(_listen(member, kind, found)) for member in devnet.members for kind in _HEADS]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


async def _listen(member: NodeLayout, kind: str, found: Latencies) -> None:
    """Follow one subscription, and subscribe again after a failure.

    Its first item is an old block and does not count.
    """
    start, end = _HEADS[kind]
    values: list[int] = getattr(found, kind)
    while True:
        try:
            async with await RpcConnection.open(member.rpc_url) as rpc:
                is_first = True
                async for header in await rpc.subscribe(start, unsubscribe=end):
                    now_ms = time.time_ns() // 1_000_000
                    slot = slot_of(header)
                    if slot is not None and not is_first:
                        values.append(now_ms - slot * found.slot_ms)
                    is_first = False
        except NodeUnreachableError:
            await asyncio.sleep(RETRY_SECONDS)


def digest_of(header: dict[str, Any]) -> tuple[DigestItem, ...]:
    """Return the digest of a header from JSON-RPC."""
    return tuple(DIGEST_ITEM.decode(bytes.fromhex(log[2:])) for log in header["digest"]["logs"])


def slot_of(header: dict[str, Any]) -> int | None:
    """Return the slot of a header from JSON-RPC, or None for genesis."""
    try:
        found = find_pre_digest(digest_of(header))
    except DecodeError:
        return None
    return None if found is None else found.slot
