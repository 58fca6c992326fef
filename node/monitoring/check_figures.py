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
        self._checks_map = chain.runtime.item(LeafChecks.checks)
        self._disputes_map = chain.runtime.item(LeafDisputes.disputes)
        self._events_item = chain.runtime.item(System.event_records)
        final_state = chain.final.state
        self._open_statuses: dict[bytes, str] = {}
        """The status of each open one, by storage key."""
        for item in (self._checks_map, self._disputes_map):
            for key in islice(final_state.keys(item.prefix), LISTED_MAX):
                self._put_status(item, key, final_state.get(key))
        self._show_counts()

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Apply the changes of final blocks."""
        for block in blocks:
            ended_keys = [key for item, key, raw in self._changed_entries(block) if self._put_status(item, key, raw)]
            if ended_keys:
                self._count_outcomes(
                    block,
                    {key[-_UNIT_BYTES:] for key in ended_keys if key.startswith(self._disputes_map.prefix)},
                )
        self._show_counts()

    def _changed_entries(self, block: ExecutedBlock) -> Iterator[tuple[StorageMap[Any, Any], bytes, bytes | None]]:
        prefixes = (self._checks_map.prefix, self._disputes_map.prefix)
        for key, raw in block.changes.items():
            if key.startswith(prefixes):  # every key of a full block is tested: thousands
                yield (
                    self._checks_map if key.startswith(self._checks_map.prefix) else self._disputes_map,
                    key,
                    raw,
                )

    def _put_status(self, item: StorageMap[Any, Any], key: bytes, raw: bytes | None) -> bool:
        """Record the status of one; return True if it was open and has ended."""
        if raw is not None:
            self._open_statuses[key] = status_of(item.decode(raw))
            return False
        return self._open_statuses.pop(key, None) is not None

    def _count_outcomes(self, block: ExecutedBlock, disputes: set[bytes]) -> None:
        """Count the outcomes in a block, by its events."""
        # The bytes of an empty SCALE list, if the block wrote no events.
        events = [
            record.event for record in self._events_item.decode(block.changes.get(self._events_item.key()) or b"\0")
        ]
        for event in events:
            if isinstance(event, LeafCheckEnded):
                self._metrics.checks_ended[CheckOutcome(event.outcome)].inc()
        settled_units = {event.unit for event in events if isinstance(event, UnitSettled)} & disputes
        refunded_units = {event.unit for event in events if isinstance(event, UnitRefunded)} & disputes
        redrawn_units = disputes - settled_units - refunded_units
        for outcome_name, ended_units in (
            ("settled", settled_units), ("refunded", refunded_units), ("redrawn", redrawn_units)
        ):  # fmt: skip
            self._metrics.disputes_ended[outcome_name].inc(len(ended_units))

    def _show_counts(self) -> None:
        for statuses, status_gauges in (
            (CHECK_STATUSES, self._metrics.checks), (DISPUTE_STATUSES, self._metrics.disputes)
        ):  # fmt: skip
            for status in statuses:
                status_gauges[status].set(0)
        counts: dict[str, int] = {}
        for status in self._open_statuses.values():
            counts[status] = counts.get(status, 0) + 1
        for status, count in counts.items():
            gauge = self._metrics.checks.get(status) or self._metrics.disputes[status]
            gauge.set(count)


def status_of(check_or_dispute: LeafCheck | LeafDispute) -> str:
    """Return the status of a check or a dispute: the step for which it waits."""
    if isinstance(check_or_dispute, LeafDispute):
        return "judges" if check_or_dispute.stage is DisputeStage.JUDGED else "trees"
    if check_or_dispute.stage is LeafStage.SHOWING:
        return "auditor" if check_or_dispute.shown else "leaves"
    return {
        LeafStage.AWAITED: "draw",
        LeafStage.CHECKING: "auditor",
        LeafStage.PROVING: "audit",
        LeafStage.DOUBTED: "court",
        LeafStage.OPEN: "customer",
    }[check_or_dispute.stage]
