"""Figures of checks of batches by their leaves, and of disputes of racers, by status and outcome.

Invariant: a scrape reads no state. The open ones are listed once, when the node starts. After that, each final block's
changes are applied. Its events are read only if one of the open ones has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from gpu_tasks.market.inference.events import UnitRefunded, UnitSettled
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.monitoring.metrics import CHECK_STATUSES, DISPUTE_STATUSES, Metrics
from runtime.frame.storage import StorageMap
from runtime.pallets.system import System

LISTED_MAX = 8_192
"""The most of each kind at the start: a check or a dispute counts as an open unit, and the chain has at most 4,096 of
these."""
_UNIT_BYTES = 32


class CheckFigures(Listener):
    """The counts of open and ended checks and disputes, by final blocks."""

    def __init__(self, chain: Chain, metrics: Metrics) -> None:
        """Create it, with the open ones of the last final state."""
        self._metrics = metrics
        self._checks = chain.runtime.item(LeafChecks.checks)
        self._disputes = chain.runtime.item(LeafDisputes.disputes)
        self._events = chain.runtime.item(System.event_records)
        state = chain.final.state
        self._open: dict[bytes, str] = {}
        """The status of each open one, by storage key."""
        for item in (self._checks, self._disputes):
            for key in islice(state.keys(item.prefix), LISTED_MAX):
                self._put(item, key, state.get(key))
        self._show()

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Apply the changes of final blocks."""
        for block in blocks:
            ended = [key for item, key, raw in self._changed(block) if self._put(item, key, raw)]
            if ended:
                self._count(block, {key[-_UNIT_BYTES:] for key in ended if key.startswith(self._disputes.prefix)})
        self._show()

    def _changed(self, block: ExecutedBlock) -> Iterator[tuple[StorageMap[Any, Any], bytes, bytes | None]]:
        prefixes = (self._checks.prefix, self._disputes.prefix)
        for key, raw in block.changes.items():
            if key.startswith(prefixes):  # every key of a full block is tested: thousands
                yield self._checks if key.startswith(self._checks.prefix) else self._disputes, key, raw

    def _put(self, item: StorageMap[Any, Any], key: bytes, raw: bytes | None) -> bool:
        """Record the status of one; return True if it was open and has ended."""
        if raw is not None:
            self._open[key] = status_of(item.decode(raw))
            return False
        return self._open.pop(key, None) is not None

    def _count(self, block: ExecutedBlock, disputes: set[bytes]) -> None:
        """Count the outcomes in a block, by its events."""
        # The bytes of an empty SCALE list, if the block wrote no events.
        told = [record.event for record in self._events.decode(block.changes.get(self._events.key()) or b"\0")]
        for event in told:
            if isinstance(event, LeafCheckEnded):
                self._metrics.checks_ended[CheckOutcome(event.outcome)].inc()
        settled = {event.unit for event in told if isinstance(event, UnitSettled)} & disputes
        refunded = {event.unit for event in told if isinstance(event, UnitRefunded)} & disputes
        for outcome, units in (
            ("settled", settled), ("refunded", refunded), ("redrawn", disputes - settled - refunded)
        ):  # fmt: skip
            self._metrics.disputes_ended[outcome].inc(len(units))

    def _show(self) -> None:
        for statuses, gauges in (
            (CHECK_STATUSES, self._metrics.checks), (DISPUTE_STATUSES, self._metrics.disputes)
        ):  # fmt: skip
            for status in statuses:
                gauges[status].set(0)
        counts: dict[str, int] = {}
        for status in self._open.values():
            counts[status] = counts.get(status, 0) + 1
        for status, count in counts.items():
            gauge = self._metrics.checks.get(status) or self._metrics.disputes[status]
            gauge.set(count)


def status_of(found: LeafCheck | LeafDispute) -> str:
    """Return the status of a check or a dispute: the step for which it waits."""
    if isinstance(found, LeafDispute):
        return "judges" if found.stage is DisputeStage.JUDGED else "trees"
    if found.stage is LeafStage.SHOWING:
        return "auditor" if found.shown else "leaves"
    return {
        LeafStage.AWAITED: "draw",
        LeafStage.CHECKING: "auditor",
        LeafStage.PROVING: "audit",
        LeafStage.DOUBTED: "court",
        LeafStage.OPEN: "customer",
    }[found.stage]
