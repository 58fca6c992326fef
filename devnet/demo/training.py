"""The demo's training task: sold to sealed bids, run and paid beside the units, in a thread of its own.

Always: what the thread fails at is a failure of the demo; what was paid is compared with the money table.
"""

from __future__ import annotations

import threading
from typing import Any

from devnet.stage.actors import task_sale
from devnet.stage.actors.purchase import name_of
from devnet.stage.actors.task_sale import TaskSale
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, following
from devnet.stage.network import Stage
from gpu_tasks.market.training.events import MilestoneCounted, SlotSettled, TaskAwarded
from wallet.amounts import format_amount

CUSTOMER = "Dave"
BIDDERS = ("Alice", "Bob")
"""Two, so that enough others are left to race for units."""
DONE = ("ON_TIME", "LATE")
PATIENCE_SECONDS = 120.0


class DemoTask:
    """A task that is sold while something else goes on."""

    def __init__(self, stage: Stage) -> None:
        """Let some bid, and submit it; from here on it is followed in a thread."""
        self._stage = stage
        self._sale: TaskSale | None = None
        self._book = TaskLedger(0)
        self._problem = ""
        task_sale.let_bid(stage, {name: task_sale.ASKS[name] for name in BIDDERS})
        self._thread = threading.Thread(target=self._sell, daemon=True)
        self._thread.start()

    def _sell(self) -> None:
        try:
            with following(self._stage.url) as self._book:
                self._sale = task_sale.sell(self._stage, task_sale.RELAY, f"//{CUSTOMER}")
        except Exception as error:  # noqa: BLE001  # it is told as a failure of the demo, in the thread that shows it
            self._problem = str(error) or repr(error)

    def end(self) -> dict[str, Any]:
        """Wait for its end, and show what was paid; for the report."""
        self._thread.join(PATIENCE_SECONDS)
        sale = self._sale
        if self._thread.is_alive() or sale is None:
            return {"failures": [f"the training task has not ended as it should: {self._problem or 'it goes on'}"]}
        trace = self._book.tasks[sale.task_id]
        sums = self._book.sums[sale.task_id]
        failures = [*([self._problem] if self._problem else []), *sums.wrong, *_unverified(self._stage, sale)]
        failures += [f"a slot ended as {name}" for name in _outcomes(trace) if name not in DONE]
        earned = {name: sums.of(stash) for name, stash in _winners(trace).items()}
        for name, grains in earned.items():
            self._stage.tell.line(f"{name} has earned {format_amount(grains)} oGPU with it, after the fee")
        return {
            "task": sale.name,
            "milestones": len(trace.all(MilestoneCounted)),
            "earned_grains": {name: str(grains) for name, grains in earned.items()},
            "outcomes": _outcomes(trace),
            "failures": failures,
        }


def _winners(trace: EventTrace) -> dict[str, bytes]:
    return {name_of(event.provider): event.provider for _, event in trace.all(TaskAwarded)}


def _outcomes(trace: EventTrace) -> list[str]:
    return [event.outcome.name for _, event in trace.all(SlotSettled)]


def _unverified(stage: Stage, sale: TaskSale) -> list[str]:
    """Return what `ogpu verify` does not find to be by the rules."""
    rows = task_sale.verified(stage, sale)
    stage.tell.line(f"{sum(row['is_right'] is True for row in rows)} of {len(rows)} checks of `ogpu verify` hold")
    return [f"`ogpu verify` does not confirm {row['what']}" for row in rows if row["is_right"] is not True]
