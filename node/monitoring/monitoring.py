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
from wallet.amounts import format_duration

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
        self._node_view = view
        self._clock = clock
        self._import_watch = imports
        self._begun_ms = self._written_ms = clock.now_ms()
        self._shown_height = imports.height

    def write_if_due(self) -> None:
        """Write the line if the last one is old enough."""
        now_ms = self._clock.now_ms()
        if now_ms - self._written_ms >= INTERVAL_MS:
            passed_ms, self._written_ms = now_ms - self._written_ms, now_ms
            self._write_line(now_ms, passed_ms)

    def _write_line(self, now_ms: int, passed_ms: int) -> None:
        view = self._node_view
        peer_count, queue = len(view.network.transport.peers()), view.pools.transactions.queue
        lag_slots, parameters = self._lag_slots(now_ms), view.chain.parameters
        behind_ms = -final_age_ms(view, now_ms)
        accepted_when = (
            f"{lag_slots} slots ago"
            if behind_ms <= parameters.skew_ms
            else f"{_seconds(behind_ms)} ahead of this clock"
        )
        _LOG.info(
            "peers %d, best #%d, final #%d (%s), pool %d ready and %d waiting",
            peer_count,
            view.machine.best.height,
            view.machine.final.height,
            accepted_when,
            queue.ready_count,
            queue.future_count,
        )
        if behind_ms > parameters.skew_ms:
            _LOG.warning(
                "this machine's clock is %s behind the last final block, so this node makes no block and accepts "
                "none. Set the clock, and synchronise it by NTP. If the clock is right, wait",
                _seconds(behind_ms),
            )
        late_ms = self._import_watch.take_late_ms()
        if late_ms // parameters.slot_ms in LATE_SLOTS:
            _LOG.warning(BLOCKS_LATE, _seconds(late_ms))
        is_progressing = self._write_progress(passed_ms)
        if not peer_count and not self._is_alone():
            _LOG.warning("no peers: this node receives no blocks. Check --bootnodes, the port and the firewall")
        # An idle chain makes a block only every `heartbeat_slots` slots.
        if lag_slots > LAG_SLOTS_MAX + parameters.heartbeat_slots and not is_progressing:
            _LOG.warning("nothing became final for %d slots: %s", lag_slots, self._why_not_final())

    def _write_progress(self, passed_ms: int) -> bool:
        """Write how far a node is that catches up. Return True if it imported blocks on the way."""
        # Both are proven. A peer's claim of a height would hide the warning about finality.
        checkpoint = self._node_view.chain.rules.checkpoint
        target_height = max(
            self._node_view.sync.sets_ahead.proven_height, 0 if checkpoint is None else checkpoint.height
        )
        import_height, block_count = self._import_watch.height, self._import_watch.height - self._shown_height
        self._shown_height = import_height
        if target_height <= max(import_height, self._node_view.machine.final.height):
            return False
        pace_text = ""
        if block_count:
            rest_seconds = (target_height - import_height) * passed_ms // (block_count * 1_000)
            pace_text = f", {block_count * 1_000 / passed_ms:.1f} blocks/s, about {format_duration(rest_seconds)} left"
        _LOG.info(CATCHING_UP, import_height, target_height, pace_text)
        return block_count > 0

    def _why_not_final(self) -> str:
        checkpoint = self._node_view.chain.rules.checkpoint
        if checkpoint is None or self._node_view.machine.final.height >= checkpoint.height:
            return self._who_is_silent()
        checkpoint_name = f"the checkpoint #{checkpoint.height} 0x{checkpoint.id.hex()}"
        return (
            f"{checkpoint_name} is not reached. If this log names peers with another block at that height, ask a "
            "second source for the hash. If the hash is right, those peers follow another history: give other "
            "--bootnodes"
        )

    def _who_is_silent(self) -> str:
        """Return the validators whose votes do not arrive, with their stake."""
        consensus_machine = self._node_view.machine
        gadget_epoch = self._node_view.chain.epochs(consensus_machine.gadget_round[0])
        silent_members = consensus_machine.unheard()
        if gadget_epoch is None or len(silent_members) in {0, len(gadget_epoch.validators.members)}:
            return "no validator is silent alone: this node lags, or its network is cut. Check its CPU and connections"
        validators = gadget_epoch.validators
        silent_weight = sum(member.weight for member in silent_members)
        heaviest = sorted(silent_members, key=lambda member: -member.weight)[:NAMED_MAX]
        member_names = [ss58.encode(member.stash) for member in heaviest]
        if len(silent_members) > NAMED_MAX:
            member_names.append("…")
        return (
            f"no votes arrive of {len(silent_members)} of {len(validators.members)} validators, with "
            f"{100 * silent_weight / validators.total:.1f} % of the stake: {', '.join(member_names)}"
        )

    def _lag_slots(self, now_ms: int) -> int:
        """Return the slots since the last final block, or since the start of this node if that was later."""
        slot_ms, final = self._node_view.chain.parameters.slot_ms, self._node_view.machine.final
        return max(0, now_ms - max(final.slot * slot_ms, self._begun_ms)) // slot_ms

    def _is_alone(self) -> bool:
        """Return whether this chain has one validator, which needs no peers."""
        gadget_epoch = self._node_view.chain.epochs(self._node_view.machine.gadget_round[0])
        return gadget_epoch is not None and len(gadget_epoch.validators.members) == 1


def _seconds(milliseconds: int) -> str:
    return f"{-(-milliseconds // 1_000):,} s"


# Figures with a value at every moment: peers, waiting extrinsics, refusals.
# Invariant: reading them costs a few look-ups, so they may be read every second.
def read_gauges(view: NodeView, metrics: Metrics, now_ms: int) -> None:
    """Set every figure to its present value."""
    node_peers, node_sync = view.network.peers, view.sync
    queue = view.pools.transactions.queue
    metrics.final_age.set(final_age_ms(view, now_ms) / 1_000)
    metrics.peers.set(len(view.network.transport.peers()))
    metrics.ready.set(queue.ready_count)
    metrics.future.set(queue.future_count)
    metrics.rejected.set(node_sync.rejected)
    metrics.abstained.set(node_sync.abstained)
    metrics.penalties.set(node_peers.penalties)
    metrics.sync_target.set(max(node_sync.highest_height, view.machine.best.height))


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
    import_watch = ImportWatch(view.chain, clock, own_sessions)
    return Monitoring(
        view=view,
        metrics=metrics,
        clock=clock,
        figures=Figures(view.chain, view.machine, metrics, clock),
        checks=CheckFigures(view.chain, metrics),
        imports=import_watch,
        status_line=StatusLine(view, clock, import_watch),
        polls=PollLog(view.network.proofs.stashes),
    )
