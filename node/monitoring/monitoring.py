"""The monitoring of one node, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from node.clock import Clock
from node.config import Config
from node.feed.view import NodeView
from node.monitoring.check_figures import CheckFigures
from node.monitoring.figures import Figures
from node.monitoring.gauges import read_gauges
from node.monitoring.metrics import Metrics
from node.monitoring.metrics_server import MetricsServer
from node.monitoring.poll_log import PollLog
from node.monitoring.status_line import StatusLine


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
