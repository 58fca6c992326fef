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
_HEAD_METHODS = {
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
            head_kind: {
                "p50_ms": percentile(latencies_ms, 50),
                "p99_ms": percentile(latencies_ms, 99),
                "blocks": len(latencies_ms),
            }
            for head_kind, latencies_ms in (("accepted", self.accepted), ("final", self.final))
        }

    def line(self) -> str:
        """Return the figures as one line."""
        return "; ".join(
            f"{head_kind} p50 {percentiles['p50_ms']} ms, p99 {percentiles['p99_ms']} ms"
            for head_kind, percentiles in self.figures().items()
        )


def percentile(latencies_ms: Sequence[int], percent_below: int) -> int | None:
    """Return the smallest value that `percent_below` percent of all values do not exceed, or None without values."""
    # The nearest rank, so that each figure is a measured time and not an interpolated one.
    return sorted(latencies_ms)[max(0, -(-len(latencies_ms) * percent_below // 100) - 1)] if latencies_ms else None


async def measure_latencies(devnet: Devnet, slot_ms: int, seconds: float) -> Latencies:
    """Listen to every node for some seconds."""
    latencies = Latencies(slot_ms)
    listening_tasks = [
        asyncio.create_task(_record_latencies(member, head_kind, latencies))
        for member in devnet.members
        for head_kind in _HEAD_METHODS
    ]
    await asyncio.sleep(seconds)
    for listening_task in listening_tasks:
        listening_task.cancel()
    await asyncio.gather(*listening_tasks, return_exceptions=True)
    return latencies


async def _record_latencies(member: NodeLayout, head_kind: str, latencies: Latencies) -> None:
    """Follow one subscription, and subscribe again after a failure.

    Its first item is an old block and does not count.
    """
    subscribe_method, unsubscribe_method = _HEAD_METHODS[head_kind]
    latencies_ms: list[int] = getattr(latencies, head_kind)
    while True:
        try:
            async with await RpcConnection.open(member.rpc_url) as connection:
                is_first = True
                async for header in await connection.subscribe(subscribe_method, unsubscribe=unsubscribe_method):
                    now_ms = time.time_ns() // 1_000_000
                    block_slot = slot_of(header)
                    if block_slot is not None and not is_first:
                        latencies_ms.append(now_ms - block_slot * latencies.slot_ms)
                    is_first = False
        except NodeUnreachableError:
            await asyncio.sleep(RETRY_SECONDS)


def digest_of(header: dict[str, Any]) -> tuple[DigestItem, ...]:
    """Return the digest of a header from JSON-RPC."""
    return tuple(DIGEST_ITEM.decode(bytes.fromhex(text[2:])) for text in header["digest"]["logs"])


def slot_of(header: dict[str, Any]) -> int | None:
    """Return the slot of a header from JSON-RPC, or None for genesis."""
    try:
        pre_digest = find_pre_digest(digest_of(header))
    except DecodeError:
        return None
    return None if pre_digest is None else pre_digest.slot
