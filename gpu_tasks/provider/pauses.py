"""Causes and ends of devices' pauses: the chain records only the pause, the daemon of this base path its cause."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.duties.resumer import BY_OPERATOR, STAYING, UNKNOWN, untold_loss
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseCause
from wallet.amounts import format_amount

OVERDUE_BLOCKS = 20
OVERDUE = "; it should work again by now: does the daemon run?"
MEANING = (
    "a court found a result of this device wrong. If the device computes wrong again, it loses its collateral again, "
    "and a stash that lies a third time loses its registration. Run `ogpu-provider doctor` first"
)


@dataclass(frozen=True, slots=True)
class PauseNote:
    """A sentence, and the block from which the daemon resumes the device; None where it will not by itself."""

    why: str
    until_block: int | None = None


def why_paused(status: DeviceStatus, note: NotedDevice | None, height: int) -> PauseNote:
    """Say why a device is paused at this height, by the daemon's note."""
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
    """Describe a device that the chain paused since the daemon last looked."""
    return (
        f"the chain took {format_amount(grains)} oGPU of its bond and paused it, for a missed race or a refuted "
        "result: a running daemon says which within some blocks"
    )


def resuming_risk(status: DeviceStatus, note: NotedDevice | None) -> str:
    """Return the risk of resuming a device; empty if there is none."""
    if note is not None and note.cause is PauseCause.REFUTED:
        return MEANING
    loss = untold_loss(status, note)
    return charged(loss) if loss else ""
