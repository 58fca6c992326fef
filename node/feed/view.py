"""The parts of the node that others look at: the feed, and whoever watches."""

from __future__ import annotations

from dataclasses import dataclass

from consensus.machine import Machine
from node.ledger.chain import Chain
from node.peers.network import Network
from node.pool.pools import Pools
from node.sync.sync import Sync


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The node as it may be seen; whoever holds it reads, and changes nothing but by the pools' `submit`."""

    chain: Chain
    machine: Machine
    network: Network
    sync: Sync
    pools: Pools


def final_age_ms(view: NodeView, now_ms: int) -> int:
    """Milliseconds since the slot of the last final block; negative where this machine's clock is behind it."""
    final = view.machine.final
    return now_ms - final.slot * view.chain.parameters.slot_ms if final.height else 0
