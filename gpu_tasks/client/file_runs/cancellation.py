"""A run that is to end before all is answered: cancelled by its customer, or because its time is over.

Always: the record says that the run is stopped before anything is taken back; what waits for its draw is taken back,
and what races is waited for, since it is paid; a unit that was drawn meanwhile fails in its batch alone.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gpu_tasks.client.batches.line_writer import CANCELLED, EXPIRED
from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.runs import expires_at
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Refund, Unit, UnitState
from runtime.frame.call import Call
from runtime.pallets.utility import Utility

CANCELS_PER_CALL = 256
"""A fourth of what a block may weigh."""
TRIES_MAX = 3
"""For each unit: whatever the chain has against it, no fee is paid for it without end."""
CODES = {"cancelled": CANCELLED, "expired": EXPIRED}
"""What a line says that has no answer, by why its run was stopped."""

SendCall = Callable[[Call], Awaitable[int]]
"""Sends a call once; its fee in grains, when it is final."""


def cancel_call(units: Sequence[bytes]) -> Call:
    """Takes units back, each for itself: one that was drawn meanwhile fails alone."""
    return Utility.force_batch(calls=tuple(InferenceMarket.cancel(unit=unit) for unit in units))


@dataclass(slots=True)
class RunStop:
    """Whether a run is to stop, and how what waits is taken back."""

    record: BatchRecord
    send: SendCall
    _tries: dict[bytes, int] = field(default_factory=dict)

    def is_due(self) -> bool:
        """Whether nothing more is to be posted; the record says why, once and for all."""
        if self.record.stopped is None and (why := self._why()) is not None:
            self.record.note_stopped(why)
        return self.record.stopped is not None

    async def take_back(self, units: Sequence[tuple[bytes, Unit | None]]) -> None:
        """Cancel those that wait for their draw."""
        queued = [
            unit_id
            for unit_id, unit in units
            if unit is not None and unit.state is UnitState.QUEUED and self._tries.get(unit_id, 0) < TRIES_MAX
        ]
        for unit_id in queued:
            self._tries[unit_id] = self._tries.get(unit_id, 0) + 1
        for first in range(0, len(queued), CANCELS_PER_CALL):
            self.record.note_fee(await self.send(cancel_call(queued[first : first + CANCELS_PER_CALL])))

    def code_of(self, unit: Unit | None) -> str | None:
        """What the lines of a unit without a result say where that is because the run was stopped."""
        if self.record.stopped is None or unit is None:
            return None
        return CODES[self.record.stopped] if unit.refund in {Refund.CANCELLED, Refund.EXPIRED} else None

    def _why(self) -> str | None:
        assert self.record.plan is not None, "a run that was begun"
        if self.record.is_whole:
            return None
        if self.record.is_cancel_asked:
            return "cancelled"
        over = expires_at(self.record.plan)
        return "expired" if over is not None and time.time() >= over else None
