"""The monitoring of one node, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from node.clock import Clock
from node.config import Config
from node.feed.view import NodeView, final_age_ms
from node.monitoring.check_figures import CheckFigures
from node.monitoring.figures import Figures
from node.monitoring.metrics import Metrics
from node.monitoring.metrics_server import MetricsServer
from node.monitoring.poll_log import PollLog
from node.monitoring.status_line import StatusLine


# Figures that have a value at every moment: peers, what waits, what was refused.
#
# Always: reading them costs a few look-ups, so once a second is nothing.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """The monitoring room."""

    view: NodeView
    metrics: Metrics
    clock: Clock
    figures: Figures
    checks: CheckFigures
    status_line: StatusLine
    polls: PollLog

    def read_gauges(self) -> None:
        """Bring the figures that have a value at every moment up to date, and tell the operator of them."""
        read_gauges(self.view, self.metrics, self.clock.now_ms())
        self.status_line.write_if_due()

    def serve(self, config: Config) -> Callable[[], None]:
        """Answer Prometheus, if it was asked for -> how to stop that."""
        if config.prometheus_port is None:
            return lambda: None
        return MetricsServer(self.metrics.registry, config.prometheus_port, external=config.prometheus_external).close


def make_monitoring(view: NodeView, metrics: Metrics, clock: Clock) -> Monitoring:
    """Everything that watches the node; `metrics` are the figures that it fills."""
    figures = Figures(view.chain, view.machine, metrics, clock)
    return Monitoring(
        view=view,
        metrics=metrics,
        clock=clock,
        figures=figures,
        checks=CheckFigures(view.chain, metrics),
        status_line=StatusLine(view, clock),
        polls=PollLog(view.network.proofs.stashes),
    )
