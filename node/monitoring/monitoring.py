"""The monitoring of one node, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass

from node.clock import Clock
from node.config import Config
from node.feed.view import NodeView, final_age_ms
from node.monitoring.check_figures import CheckFigures
from node.monitoring.figures import Figures, ImportWatch
from node.monitoring.metrics import Metrics
from node.monitoring.metrics_server import MetricsServer
from node.monitoring.poll_log import PollLog
from runtime.cryptography import ss58

# One line in the log every few seconds: the figures that an operator needs first, and warnings.
# Invariant: a warning comes with every line while its cause lasts: no peers, no new final block, a clock that is off.
INTERVAL_MS = 10_000
LAG_SLOTS_MAX = 10
"""The most slots without a final block, beyond those that may stay empty, before a warning."""
LATE_SLOTS = range(2, 60)
"""Delays of all blocks that point to this machine's clock. Older blocks belong to a node that catches up."""
NAMED_MAX = 5
"""The most validators that a warning names."""
CATCHING_UP = "catching up: #%d of #%d, which is proven final%s"
BLOCKS_LATE = (
    "blocks arrive %s after their slots began or later. This machine's clock is ahead, or the node is too slow for the "
    "chain. Synchronise the clock by NTP"
)
_LOG = logging.getLogger("node")


class StatusLine:
    """The writer of the status line."""

    def __init__(self, view: NodeView, clock: Clock, imports: ImportWatch) -> None:
        self._view = view
        self._clock = clock
        self._imports = imports
        self._begun_ms = self._written_ms = clock.now_ms()
        self._shown_height = imports.height

    def write_if_due(self) -> None:
        """Write the line if the last one is old enough."""
        now_ms = self._clock.now_ms()
        if now_ms - self._written_ms >= INTERVAL_MS:
            passed_ms, self._written_ms = now_ms - self._written_ms, now_ms
            self._write(now_ms, passed_ms)

    def _write(self, now_ms: int, passed_ms: int) -> None:
        view = self._view
        peers, queue = len(view.network.transport.peers()), view.pools.transactions.queue
        lag, parameters = self._lag_slots(now_ms), view.chain.parameters
        behind_ms = -final_age_ms(view, now_ms)
        when = f"{lag} slots ago" if behind_ms <= parameters.skew_ms else f"{_seconds(behind_ms)} ahead of this clock"
        _LOG.info(
            "peers %d, best #%d, final #%d (%s), pool %d ready and %d waiting",
            peers, view.machine.best.height, view.machine.final.height, when, queue.ready_count, queue.future_count,
        )  # fmt: skip
        if behind_ms > parameters.skew_ms:
            _LOG.warning(
                "this machine's clock is %s behind the last final block, so this node makes no block and accepts "
                "none. Set the clock, and synchronise it by NTP. If the clock is right, wait",
                _seconds(behind_ms),
            )
        late_ms = self._imports.take_late_ms()
        if late_ms // parameters.slot_ms in LATE_SLOTS:
            _LOG.warning(BLOCKS_LATE, _seconds(late_ms))
        is_progressing = self._write_progress(passed_ms)
        if not peers and not self._is_alone():
            _LOG.warning("no peers: this node receives no blocks. Check --bootnodes, the port and the firewall")
        # An idle chain makes a block only every `heartbeat_slots` slots.
        if lag > LAG_SLOTS_MAX + parameters.heartbeat_slots and not is_progressing:
            _LOG.warning("nothing became final for %d slots: %s", lag, self._why_not_final())

    def _write_progress(self, passed_ms: int) -> bool:
        """Write how far a node is that catches up. Return True if it imported blocks on the way."""
        # Both are proven. A peer's claim of a height would hide the warning about finality.
        checkpoint = self._view.chain.rules.checkpoint
        target = max(self._view.sync.sets_ahead.proven_height, 0 if checkpoint is None else checkpoint.height)
        height, blocks = self._imports.height, self._imports.height - self._shown_height
        self._shown_height = height
        if target <= max(height, self._view.machine.final.height):
            return False
        pace = ""
        if blocks:
            rest_seconds = (target - height) * passed_ms // (blocks * 1_000)
            pace = f", {blocks * 1_000 / passed_ms:.1f} blocks/s, about {_duration(rest_seconds)} left"
        _LOG.info(CATCHING_UP, height, target, pace)
        return blocks > 0

    def _why_not_final(self) -> str:
        checkpoint = self._view.chain.rules.checkpoint
        if checkpoint is None or self._view.machine.final.height >= checkpoint.height:
            return self._who_is_silent()
        named = f"the checkpoint #{checkpoint.height} 0x{checkpoint.id.hex()}"
        return (
            f"{named} is not reached. If this log names peers with another block at that height, ask a second "
            "source for the hash. If the hash is right, those peers follow another history: give other --bootnodes"
        )

    def _who_is_silent(self) -> str:
        """Return the validators of the present round whose votes do not arrive, with their stake."""
        machine = self._view.machine
        epoch, silent = self._view.chain.epochs(machine.gadget_round[0]), machine.unheard()
        if epoch is None or not silent:
            return "votes of all validators arrive, so this node lags. Wait, or check its CPU and disk"
        validators, weight = epoch.validators, sum(member.weight for member in silent)
        heaviest = sorted(silent, key=lambda member: -member.weight)[:NAMED_MAX]
        names = [ss58.encode(member.stash) for member in heaviest] + ["…"] * (len(silent) > NAMED_MAX)
        return (
            f"no votes arrive of {len(silent)} of {len(validators.members)} validators, with "
            f"{100 * weight / validators.total:.1f} % of the stake: {', '.join(names)}"
        )

    def _lag_slots(self, now_ms: int) -> int:
        """Return the slots since the last final block, or since the start of this node if that was later."""
        slot_ms, final = self._view.chain.parameters.slot_ms, self._view.machine.final
        return max(0, now_ms - max(final.slot * slot_ms, self._begun_ms)) // slot_ms

    def _is_alone(self) -> bool:
        """Return whether this chain has one validator, which needs no peers."""
        epoch = self._view.chain.epochs(self._view.machine.gadget_round[0])
        return epoch is not None and len(epoch.validators.members) == 1


def _seconds(milliseconds: int) -> str:
    return f"{-(-milliseconds // 1_000):,} s"


def _duration(seconds: int) -> str:
    """Return a time in the largest unit of which it has two or more."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


# Figures with a value at every moment: peers, waiting extrinsics, refusals.
# Invariant: reading them costs a few look-ups, so they may be read every second.
def read_gauges(view: NodeView, metrics: Metrics, now_ms: int) -> None:
    """Set every figure to its present value."""
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
    imports: ImportWatch
    status_line: StatusLine
    polls: PollLog

    def read_gauges(self) -> None:
        """Update the figures with a value at every moment, and write the status line if it is due."""
        read_gauges(self.view, self.metrics, self.clock.now_ms())
        self.status_line.write_if_due()

    def serve(self, config: Config) -> Callable[[], None]:
        """Start the Prometheus server if it is configured, and return the function that stops it."""
        if config.prometheus_port is None:
            return lambda: None
        return MetricsServer(self.metrics.registry, config.prometheus_port, external=config.prometheus_external).close


def make_monitoring(view: NodeView, metrics: Metrics, clock: Clock, own_sessions: Container[bytes]) -> Monitoring:
    """Return the monitoring of the node; `metrics` are the figures that it fills."""
    imports = ImportWatch(view.chain, clock, own_sessions)
    return Monitoring(
        view=view,
        metrics=metrics,
        clock=clock,
        figures=Figures(view.chain, view.machine, metrics, clock),
        checks=CheckFigures(view.chain, metrics),
        imports=imports,
        status_line=StatusLine(view, clock, imports),
        polls=PollLog(view.network.proofs.stashes),
    )
