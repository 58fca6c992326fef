"""Resuming devices that a missed race paused.

The chain pauses a device that missed a race. Without a resume, one slow hour would end a provider's work until an
operator notices.

Invariants:

* Only a pause for a missed race ends by itself, even across restarts.
* A device stays paused if the operator paused it, if its result was found false, or if this base path does not know the
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
    "a result of this device was found false. Another one costs its collateral again, and a third false result of "
    "training ends the stash's registration. Run `ogpu-provider doctor` first"
)


class Resumer:
    """The resumption of this provider's devices. Call `step` every few blocks."""

    def __init__(self, parts: Parts[SendPort], *, keep_paused: bool = False) -> None:
        """Start without notes. With `keep_paused`, report paused devices and leave them paused."""
        self._parts = parts
        self._pause_book = parts.pauses
        self._keep_paused = keep_paused
        self._told: dict[bytes, PauseCause] = {}
        self.tasks = KeyedTasks()

    def remember(self, own_devices: Sequence[DeviceStatus]) -> None:
        """Note devices that this base path does not know yet, before any work."""
        device_notes = self._pause_book.read()
        for device_status in own_devices:
            if device_status.id not in device_notes:
                self._note_change(
                    device_status, None, cause=PauseCause.UNKNOWN if device_status.device.is_paused else None
                )

    def did_well(self, device_id: bytes) -> None:
        """Reset the misses of a paid device: its next miss counts as the first."""
        self._pause_book.note(device_id, misses=0)

    async def step(
        self, height: int, own_devices: Sequence[DeviceStatus], promised: Mapping[bytes, Sequence[WorkloadForm]]
    ) -> None:
        """Note paused devices, and resume those that waited long enough. `promised` are the devices that work here."""
        self.remember(own_devices)
        self._pause_book.forget_others({device_status.id for device_status in own_devices})
        device_notes = self._pause_book.read()
        for device_status in own_devices:
            device_note = self._look_at_device(device_status, device_notes[device_status.id], height)
            if device_note.cause in STAYING:
                self._tell_staying(device_status.id, device_note.cause)
            is_pause_over = device_note.cause is PauseCause.MISSED and height >= (device_note.resumes_at or 0)
            if is_pause_over and not self._keep_paused and device_status.id in promised:
                self.tasks.start(
                    device_status.id, self._resume_device(device_status.id, promised[device_status.id], height)
                )

    def _look_at_device(self, device_status: DeviceStatus, device_note: NotedDevice, block_height: int) -> NotedDevice:
        """Note a device's state, and the cause of its pause."""
        if not device_status.device.is_paused:
            self._told.pop(device_status.id, None)
            # The daemon notes its own pause before the chain shows it.
            is_coming = device_note.cause in OWN_CAUSES and not device_note.is_paused
            return self._note_change(
                device_status, device_note, **({} if is_coming else {"cause": None, "why": "", "resumes_at": None})
            )
        if device_note.is_paused or device_note.cause is not None:
            return self._note_change(device_status, device_note)
        if (
            device_status.device.bond < device_note.bond
        ):  # the chain pauses and slashes at once; an operator's pause takes nothing
            return self._note_miss(device_status, device_note, block_height)
        return self._note_change(device_status, device_note, cause=PauseCause.OPERATOR, why=BY_OPERATOR)

    def _note_change(
        self, device_status: DeviceStatus, device_note: NotedDevice | None, **changes: object
    ) -> NotedDevice:
        """Note a device's state, based on its previous note."""
        device = device_status.device
        if device_note is not None and device.bond < device_note.bond:
            changes["losses"] = device_note.losses + 1
        return self._pause_book.note(device_status.id, bond=device.bond, is_paused=device.is_paused, **changes)

    def _note_miss(self, device_status: DeviceStatus, device_note: NotedDevice, block_height: int) -> NotedDevice:
        misses, tell = device_note.misses + 1, self._parts.telemetry.tell
        if self._keep_paused:
            tell("missed", device=device_status.id, in_a_row=misses, problem=KEPT)
            return self._note_change(
                device_status, device_note, cause=PauseCause.MISSED, why=KEPT, misses=misses, resumes_at=None
            )
        resumes_at = block_height + RESUME_AFTER_BLOCKS[min(misses, len(RESUME_AFTER_BLOCKS)) - 1]
        tell("missed", device=device_status.id, in_a_row=misses, resumes_at=resumes_at, problem=MISSED)
        return self._note_change(
            device_status, device_note, cause=PauseCause.MISSED, why=MISSED, misses=misses, resumes_at=resumes_at
        )

    def _tell_staying(self, device_id: bytes, cause: PauseCause) -> None:
        """Report once in this process that a device stays paused, and why."""
        if self._told.get(device_id) is not cause:
            self._told[device_id] = cause
            field_name = "why" if cause is PauseCause.OPERATOR else "problem"
            self._parts.telemetry.tell("not_resumed", device=device_id, **{field_name: STAYING[cause]})

    async def _resume_device(self, device_id: bytes, promised: Sequence[WorkloadForm], block_height: int) -> None:
        tell, again_at = self._parts.telemetry.tell, block_height + RESUME_AFTER_BLOCKS[0]
        try:
            for form in promised:
                await self._parts.workers.start(device_id, form)
            if self._pause_book.read()[device_id].cause is not PauseCause.MISSED:
                return  # the operator paused it meanwhile, or its result was refuted
            await self._parts.chain.submit(Devices.resume(device=device_id))
        except (ExecutionError, ChainError) as error:
            self._pause_book.note(device_id, resumes_at=again_at, why=str(error))
            tell("not_resumed", device=device_id, resumes_at=again_at, **failure(error))
            return
        self._pause_book.note(device_id, resumes_at=again_at)  # retry if the call is lost
        tell("resumed", device=device_id, height=block_height)


def untold_loss(device_status: DeviceStatus, device_note: NotedDevice | None) -> int:
    """Return the grains by which a paused device's bond fell since the daemon last looked; 0 if it knows the reason."""
    if device_note is None or device_note.is_paused or device_note.cause is not None:
        return 0
    return max(0, device_note.bond - device_status.device.bond)


def is_by_loss(device_status: DeviceStatus, device_note: NotedDevice | None) -> bool:
    """Return True for a device that the chain paused when it took a part of its bond."""
    is_noted = device_note is not None and device_note.cause in (PauseCause.MISSED, PauseCause.REFUTED)
    return device_status.device.is_paused and (is_noted or untold_loss(device_status, device_note) > 0)


@dataclass(frozen=True, slots=True)
class PauseNote:
    """The reason of a pause, and the block from which the daemon resumes the device; None if it will not."""

    why: str
    until_block: int | None = None


def why_paused(device_status: DeviceStatus, device_note: NotedDevice | None, block_height: int) -> PauseNote:
    """Return the reason of a device's pause at this height, by the daemon's note."""
    if grains := untold_loss(device_status, device_note):
        return PauseNote(charged(grains))
    if device_note is None:
        return PauseNote(UNKNOWN)
    if device_note.cause is None:
        return PauseNote(BY_OPERATOR)
    if device_note.cause in STAYING:
        return PauseNote(STAYING[device_note.cause])
    if device_note.resumes_at is None:
        return PauseNote(device_note.why)
    is_late = device_note.cause is PauseCause.MISSED and block_height > device_note.resumes_at + OVERDUE_BLOCKS
    return PauseNote(device_note.why + (OVERDUE if is_late else ""), device_note.resumes_at)


def charged(grains: int) -> str:
    """Return a sentence about a device that the chain paused since the daemon last looked."""
    return (
        f"the chain took {format_amount(grains)} oGPU of its bond and paused it, "
        "for a missed race or a refuted result; a running daemon logs the cause within some blocks"
    )


def resuming_risk(device_status: DeviceStatus, device_note: NotedDevice | None) -> str:
    """Return the risk of resuming a device; empty if there is none."""
    if device_note is not None and device_note.cause is PauseCause.REFUTED:
        return MEANING
    grains = untold_loss(device_status, device_note)
    return charged(grains) if grains else ""
