"""Figures that have a value at every moment: peers, what waits, what was refused.

What always holds: reading them costs a few look-ups, so once a second is nothing.
"""

from __future__ import annotations

from node.feed.view import NodeView, final_age_ms
from node.monitoring.metrics import Metrics


def read_gauges(view: NodeView, metrics: Metrics, now_ms: int) -> None:
    """Set every figure to what it is now."""
    peers, sync, queue = view.network.peers, view.sync, view.pools.transactions.queue
    metrics.final_age.set(final_age_ms(view, now_ms) / 1_000)
    metrics.peers.set(len(view.network.transport.peers()))
    metrics.ready.set(queue.ready_count)
    metrics.future.set(queue.future_count)
    metrics.rejected.set(sync.rejected)
    metrics.abstained.set(sync.abstained)
    metrics.penalties.set(peers.penalties)
    metrics.sync_target.set(max(sync.highest_height, view.machine.best.height))
