"""Resuming devices that a missed race paused.

The chain pauses a device that missed a race. Without a resume, one slow hour would end a provider's work until an
operator notices.

Invariants:

* Only a pause for a missed race ends by itself, even across restarts.
* A device stays paused if the operator paused it, if a court refuted its result, or if this base path does not know the
  cause.
* A device is resumed only after its machine passes the conformance vectors.
* Each consecutive miss waits four times as long, so a faulty machine loses little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain.port import ChainError, SendPort
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.pause_book import OWN_CAUSES, NotedDevice, PauseCause
from gpu_tasks.provider.telemetry import failure
from gpu_tasks.workloads.form import WorkloadForm
from wallet.amounts import format_amount

RESUME_AFTER_BLOCKS = (20, 80, 320, 1_280, 5_120)
"""Blocks after the first consecutive miss, the second, and so on. The last value applies to all further misses."""
MISSED = "it missed a race and lost a part of its bond; see the log for the cause"
KEPT = "it missed a race and lost a part of its bond; it stays paused (--keep-paused) until `ogpu-provider resume`"
REFUTED = "its result was refuted; run `ogpu-provider resume` once it computes correctly"
BY_OPERATOR = "the operator paused it; run `ogpu-provider resume` to end that"
UNKNOWN = (
    "it was paused before this base path existed, so the cause is unknown here; find it, then run `ogpu-provider "
    "resume`"
)
STAYING = {PauseCause.REFUTED: REFUTED, PauseCause.OPERATOR: BY_OPERATOR, PauseCause.UNKNOWN: UNKNOWN}
"""Pauses that only the operator ends."""
OVERDUE_BLOCKS = 20
OVERDUE = "; it should be resumed by now, so check that the daemon runs"
MEANING = (
    "a court refuted a result of this device. A second refuted result costs its collateral again, and a third ends "
    "the stash's registration. Run `ogpu-provider doctor` first"
)


class Resumer:
    """The resumption of this provider's devices. Call `step` every few blocks."""

    def __init__(self, parts: Parts[SendPort], *, keep_paused: bool = False) -> None:
        """Start without notes. With `keep_paused`, report paused devices and leave them paused."""
        self._parts = parts
        self._book = parts.pauses
        self._keep_paused = keep_paused
        self._told: dict[bytes, PauseCause] = {}
        self.tasks = KeyedTasks()

    def remember(self, own: Sequence[DeviceStatus]) -> None:
        """Note devices that this base path does not know yet, before any work."""
        notes = self._book.read()
        for status in own:
            if status.id not in notes:
                self._see(status, None, cause=PauseCause.UNKNOWN if status.device.is_paused else None)

    def did_well(self, device: bytes) -> None:
        """Reset the misses of a paid device: its next miss counts as the first."""
        self._book.note(device, misses=0)

    async def step(
        self, height: int, own: Sequence[DeviceStatus], promised: Mapping[bytes, Sequence[WorkloadForm]]
    ) -> None:
        """Note paused devices, and resume those that waited long enough. `promised` are the devices that work here."""
        self.remember(own)
        self._book.forget_others({status.id for status in own})
        notes = self._book.read()
        for status in own:
            note = self._look(status, notes[status.id], height)
            if note.cause in STAYING:
                self._tell_staying(status.id, note.cause)
            is_over = note.cause is PauseCause.MISSED and height >= (note.resumes_at or 0)
            if is_over and not self._keep_paused and status.id in promised:
                self.tasks.start(status.id, self._offer(status.id, promised[status.id], height))

    def _look(self, status: DeviceStatus, note: NotedDevice, height: int) -> NotedDevice:
        """Note a device's state, and the cause of its pause."""
        if not status.device.is_paused:
            self._told.pop(status.id, None)
            # The daemon notes its own pause before the chain shows it.
            is_coming = note.cause in OWN_CAUSES and not note.is_paused
            return self._see(status, note, **({} if is_coming else {"cause": None, "why": "", "resumes_at": None}))
        if note.is_paused or note.cause is not None:
            return self._see(status, note)
        if status.device.bond < note.bond:  # the chain pauses and slashes at once; an operator's pause takes nothing
            return self._miss(status, note, height)
        return self._see(status, note, cause=PauseCause.OPERATOR, why=BY_OPERATOR)

    def _see(self, status: DeviceStatus, note: NotedDevice | None, **changes: object) -> NotedDevice:
        """Note a device's state, based on its previous note."""
        seen = status.device
        if note is not None and seen.bond < note.bond:
            changes["losses"] = note.losses + 1
        return self._book.note(status.id, bond=seen.bond, is_paused=seen.is_paused, **changes)

    def _miss(self, status: DeviceStatus, note: NotedDevice, height: int) -> NotedDevice:
        misses, tell = note.misses + 1, self._parts.telemetry.tell
        if self._keep_paused:
            tell("missed", device=status.id, in_a_row=misses, problem=KEPT)
            return self._see(status, note, cause=PauseCause.MISSED, why=KEPT, misses=misses, resumes_at=None)
        resumes_at = height + RESUME_AFTER_BLOCKS[min(misses, len(RESUME_AFTER_BLOCKS)) - 1]
        tell("missed", device=status.id, in_a_row=misses, resumes_at=resumes_at, problem=MISSED)
        return self._see(status, note, cause=PauseCause.MISSED, why=MISSED, misses=misses, resumes_at=resumes_at)

    def _tell_staying(self, device: bytes, cause: PauseCause) -> None:
        """Report once in this process that a device stays paused, and why."""
        if self._told.get(device) is not cause:
            self._told[device] = cause
            word = "why" if cause is PauseCause.OPERATOR else "problem"
            self._parts.telemetry.tell("not_resumed", device=device, **{word: STAYING[cause]})

    async def _offer(self, device: bytes, promised: Sequence[WorkloadForm], height: int) -> None:
        tell, again_at = self._parts.telemetry.tell, height + RESUME_AFTER_BLOCKS[0]
        try:
            for form in promised:
                await self._parts.workers.start(device, form)
            if self._book.read()[device].cause is not PauseCause.MISSED:
                return  # the operator paused it meanwhile, or its result was refuted
            await self._parts.chain.submit(Devices.resume(device=device))
        except (ExecutionError, ChainError) as error:
            self._book.note(device, resumes_at=again_at, why=str(error))
            tell("not_resumed", device=device, resumes_at=again_at, **failure(error))
            return
        self._book.note(device, resumes_at=again_at)  # retry if the call is lost
        tell("resumed", device=device, height=height)


def untold_loss(status: DeviceStatus, note: NotedDevice | None) -> int:
    """Return the grains by which a paused device's bond fell since the daemon last looked; 0 if it knows the reason."""
    if note is None or note.is_paused or note.cause is not None:
        return 0
    return max(0, note.bond - status.device.bond)


def is_by_loss(status: DeviceStatus, note: NotedDevice | None) -> bool:
    """Return True for a device that the chain paused when it took a part of its bond."""
    is_noted = note is not None and note.cause in (PauseCause.MISSED, PauseCause.REFUTED)
    return status.device.is_paused and (is_noted or untold_loss(status, note) > 0)


@dataclass(frozen=True, slots=True)
class PauseNote:
    """The reason of a pause, and the block from which the daemon resumes the device; None if it will not."""

    why: str
    until_block: int | None = None


def why_paused(status: DeviceStatus, note: NotedDevice | None, height: int) -> PauseNote:
    """Return the reason of a device's pause at this height, by the daemon's note."""
    if loss := untold_loss(status, note):
        return PauseNote(charged(loss))
    if note is None:
        return PauseNote(UNKNOWN)
    if note.cause is None:
        return PauseNote(BY_OPERATOR)
    if note.cause in STAYING:
        return PauseNote(STAYING[note.cause])
    if note.resumes_at is None:
        return PauseNote(note.why)
    is_late = note.cause is PauseCause.MISSED and height > note.resumes_at + OVERDUE_BLOCKS
    return PauseNote(note.why + (OVERDUE if is_late else ""), note.resumes_at)


def charged(grains: int) -> str:
    """Return a sentence about a device that the chain paused since the daemon last looked."""
    return (
        f"the chain took {format_amount(grains)} oGPU of its bond and paused it, for a missed race or a refuted "
        "result; a running daemon logs the cause within some blocks"
    )


def resuming_risk(status: DeviceStatus, note: NotedDevice | None) -> str:
    """Return the risk of resuming a device; empty if there is none."""
    if note is not None and note.cause is PauseCause.REFUTED:
        return MEANING
    loss = untold_loss(status, note)
    return charged(loss) if loss else ""
