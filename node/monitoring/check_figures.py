"""Figures of claims and disputes, by stage and outcome.

Invariant: a scrape reads no state. The open ones are listed once, when the node starts. After that, each final block's
changes are applied. Its events are read only if one of the open ones has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.monitoring.metrics import UNDECIDED, Metrics
from runtime.frame.storage import StorageMap
from runtime.pallets.system import System

LISTED_MAX = 8_192
"""The most of each kind at the start. The chain has at most 4,096 open units, each with one claim or dispute at a
time."""


class CheckFigures(Listener):
    """The counts of open and ended claims and disputes, by final blocks."""

    def __init__(self, chain: Chain, metrics: Metrics) -> None:
        """Create it, with the open ones of the last final state."""
        self._metrics = metrics
        self._maps = tuple(chain.runtime.item(item) for item in (ResultClaims.claims, Disputes.disputes))
        self._events_item = chain.runtime.item(System.event_records)
        final_state = chain.final.state
        self._open: dict[bytes, tuple[bool, str]] = {}
        """Each open one by storage key: True for a claim, and its status."""
        for item in self._maps:
            for key in islice(final_state.keys(item.prefix), LISTED_MAX):
                self._put_status(item, key, final_state.get(key))
        self._show_counts()

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Apply the changes of final blocks."""
        for block in blocks:
            if sum(self._put_status(item, key, raw) for item, key, raw in self._changed_entries(block)):
                self._count_outcomes(block)
        self._show_counts()

    def _changed_entries(self, block: ExecutedBlock) -> Iterator[tuple[StorageMap[Any, Any], bytes, bytes | None]]:
        prefixes = tuple(item.prefix for item in self._maps)
        for key, raw in block.changes.items():
            if key.startswith(prefixes):  # every key of a full block is tested: thousands
                yield next(item for item in self._maps if key.startswith(item.prefix)), key, raw

    def _put_status(self, item: StorageMap[Any, Any], key: bytes, raw: bytes | None) -> bool:
        """Record the status of one. Return True if it was open and has ended."""
        if raw is None:
            return self._open.pop(key, None) is not None
        record = item.decode(raw)
        self._open[key] = isinstance(record, ResultClaim), record.stage.name.lower()
        return False

    def _count_outcomes(self, block: ExecutedBlock) -> None:
        """Count the outcomes in a block, by its events."""
        # The bytes of an empty SCALE list, if the block wrote no events.
        for record in self._events_item.decode(block.changes.get(self._events_item.key()) or b"\0"):
            ended = record.event
            if isinstance(ended, ClaimEnded):
                self._metrics.claims_ended[ended.outcome].inc()
            elif isinstance(ended, DisputeEnded):
                outcome = UNDECIDED if ended.vote is None else ended.vote.verdict.name.lower()
                self._metrics.disputes_ended[outcome].inc()

    def _show_counts(self) -> None:
        counts = Counter(self._open.values())
        for is_claim, gauges in ((True, self._metrics.claims), (False, self._metrics.disputes)):
            for status, gauge in gauges.items():
                gauge.set(counts[is_claim, status])
