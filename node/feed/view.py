"""The parts of the node that the feed and the monitoring read."""

from __future__ import annotations

from dataclasses import dataclass

from consensus.machine import Machine
from node.ledger.chain import Chain
from node.peers.network import Network
from node.pool.pools import Pools
from node.sync.sync import Sync


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The readable parts of the node. A holder reads only, apart from the pools' `submit`."""

    chain: Chain
    machine: Machine
    network: Network
    sync: Sync
    pools: Pools


def final_age_ms(view: NodeView, now_ms: int) -> int:
    """Return the milliseconds since the slot of the last final block; negative if this machine's clock is behind."""
    final = view.machine.final
    return now_ms - final.slot * view.chain.parameters.slot_ms if final.height else 0
