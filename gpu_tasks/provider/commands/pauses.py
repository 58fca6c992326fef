"""Why a device is paused, and until when: the chain says only that it is, the daemon of this machine wrote down why.

What it told last of a device is in its `telemetry.jsonl`. Always: only for a device that the chain says is paused now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TELLING = ("not_served", "paused", "missed", "not_resumed", "resumed")
BY_NOBODY_HERE = (
    "no daemon of this base path did it: `ogpu-provider pause`, or a race missed while none ran; the next start of "
    "`run` resumes it, or `ogpu-provider resume`"
)
OVERDUE_BLOCKS = 20
OVERDUE = "; it should work again by now: does the daemon run?"


@dataclass(frozen=True, slots=True)
class PauseNote:
    """A sentence, and the block from which the daemon resumes the device; None where it will not by itself."""

    why: str
    until_block: int | None = None


def why_paused(telemetry: Path, devices: Iterable[bytes], height: int) -> dict[bytes, PauseNote]:
    """The notes about these devices, which are paused at this height."""
    told = _last_told(telemetry, {device.hex() for device in devices})
    return {device: _note(told.get(device.hex()), height) for device in devices}


def _note(event: dict[str, Any] | None, height: int) -> PauseNote:
    if event is None or event.get("event") == "resumed":
        return PauseNote(BY_NOBODY_HERE)
    until = event.get("resumes_at")
    why = str(event.get("problem") or event.get("why"))
    if not isinstance(until, int):
        return PauseNote(why)
    return PauseNote(why + (OVERDUE if height > until + OVERDUE_BLOCKS else ""), until)


def _last_told(telemetry: Path, devices: set[str]) -> dict[str, dict[str, Any]]:
    """The last event of the kinds above about each device; a line that is no event, half written say, is none."""
    found: dict[str, dict[str, Any]] = {}
    try:
        lines = telemetry.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return found
    with lines:
        for line in lines:
            if not any(f'"{name}"' in line for name in TELLING):
                continue
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("event") in TELLING and event.get("device") in devices:
                found[event["device"]] = event
    return found
