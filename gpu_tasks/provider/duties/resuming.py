"""Offering devices again that a missed race paused.

The chain pauses a device that missed; without a resume one slow hour would end a provider's work until somebody looks.
Always: what the operator paused stays paused, and so does a device whose result a committee refuted; a machine shows
that it computes right before it is offered again; who misses again waits four times as long, so that a machine which
cannot work loses little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.workloads.form import WorkloadForm

RESUME_AFTER_BLOCKS = (20, 80, 320, 1_280, 5_120)
"""After the first miss in a row, the second, and so on; the last of them from then on."""
MISSED = "it missed a race: a part of its bond is gone; what hindered it stands above"
KEPT = "it missed a race: a part of its bond is gone; it stays paused (--keep-paused) until `ogpu-provider resume`"
REFUTED = "its result was refuted, so it is not resumed by itself: `ogpu-provider resume` once it computes right"


@dataclass(slots=True)
class _Pause:
    """A device that the chain paused."""

    resumes_at: int
    is_for_the_operator: bool = False


class Resumer:
    """Follows the own devices; call `step` every few blocks."""

    def __init__(self, parts: Parts, *, keep_paused: bool = False) -> None:
        """Nothing is known of any device. `keep_paused`: it is told what was paused, and stays so."""
        self._parts = parts
        self._keep_paused = keep_paused
        self._last: dict[bytes, DeviceStatus] = {}
        self._pauses: dict[bytes, _Pause] = {}
        self._misses: dict[bytes, int] = {}
        self._refuted: set[bytes] = set()
        self.tasks = KeyedTasks()

    def remember(self, own: Iterable[DeviceStatus]) -> None:
        """How the devices stand before any work."""
        for status in own:
            self._last.setdefault(status.id, status)

    def did_well(self, device: bytes) -> None:
        """It was paid: the next miss counts as the first."""
        self._misses.pop(device, None)

    def was_refuted(self, device: bytes) -> None:
        """A committee found another result than its."""
        self._refuted.add(device)

    async def step(
        self, height: int, own: Iterable[DeviceStatus], promised: Mapping[bytes, Sequence[WorkloadForm]]
    ) -> None:
        """Note what was paused, and offer again what has waited long enough; `promised` are those that work here."""
        for status in own:
            self._look(status, height)
            pause = self._pauses.get(status.id)
            if (
                pause is not None
                and height >= pause.resumes_at
                and not pause.is_for_the_operator
                and status.id in promised
            ):
                self.tasks.start(status.id, self._offer(status.id, pause, promised[status.id], height))

    def _look(self, status: DeviceStatus, height: int) -> None:
        before, self._last[status.id] = self._last.get(status.id), status
        if not status.device.is_paused:
            self._pauses.pop(status.id, None)
            self._refuted.discard(status.id)  # the operator has resumed it
        elif before is not None and not before.device.is_paused and status.device.bond < before.device.bond:
            # the chain pauses and slashes in one; an operator's pause takes nothing
            self._pause(status.id, height)

    def _pause(self, device: bytes, height: int) -> None:
        if device in self._refuted:
            self._leave_to_the_operator(device, height)
            return
        misses = self._misses[device] = self._misses.get(device, 0) + 1
        if self._keep_paused:
            self._pauses[device] = _Pause(height, is_for_the_operator=True)
            self._parts.telemetry.tell("missed", device=device, in_a_row=misses, problem=KEPT)
            return
        wait = RESUME_AFTER_BLOCKS[min(misses, len(RESUME_AFTER_BLOCKS)) - 1]
        self._pauses[device] = _Pause(height + wait)
        self._parts.telemetry.tell("missed", device=device, in_a_row=misses, resumes_at=height + wait, problem=MISSED)

    def _leave_to_the_operator(self, device: bytes, height: int) -> None:
        self._pauses[device] = _Pause(height, is_for_the_operator=True)
        self._parts.telemetry.tell("not_resumed", device=device, problem=REFUTED)

    async def _offer(self, device: bytes, pause: _Pause, promised: Sequence[WorkloadForm], height: int) -> None:
        tell = self._parts.telemetry.tell
        if device in self._refuted:  # its race was told of after the pause was seen
            self._leave_to_the_operator(device, height)
            return
        try:
            for form in promised:
                await self._parts.workshop.start(device, form)
            await self._parts.chain.submit(Devices.resume(device=device))
        except (ExecutionError, ChainError) as error:
            pause.resumes_at = height + RESUME_AFTER_BLOCKS[0]
            tell("not_resumed", device=device, resumes_at=pause.resumes_at, problem=str(error))
            return
        pause.resumes_at = height + RESUME_AFTER_BLOCKS[0]  # and again, should the call be lost
        tell("resumed", device=device, height=height)
