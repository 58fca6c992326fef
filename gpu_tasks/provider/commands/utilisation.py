"""`utilisation`: the working and idle time of the devices of this base path."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cli.session import note
from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.earnings import payments
from gpu_tasks.provider.utilisation import (
    COMPUTING,
    UTILISATION_FOLDER,
    PresentNote,
    UsedBy,
    UsedSum,
    device_days,
    used_sums,
)
from wallet.amounts import Grains

RATES = ("tokens", "tokens_per_second", "earned", "earned_per_hour")
COLUMNS = ("up", "computing", "idle", *RATES)
PLAIN = ("up_ms", "computing_ms", "idle_ms", *RATES, "computing_by", "idle_by")
STATES = ("state", "time", "share")
NOW = ("device", "state", "since", "why")
SILENT_MS = 15_000
"""A daemon that has written nothing for this time has ended, or hangs."""


def utilisation(options: ProviderOptions, by: str) -> None:
    """Print the utilisation of the devices."""
    folder = options.base_path / UTILISATION_FOLDER
    device_sums = used_sums(device_days(folder), payments(options.base_path), UsedBy(by))
    if not device_sums:
        note(f"{options.base_path} has no measurements. Give the daemon's --base-path")
    if options.output.as_json:
        options.output.rows("", (by, *PLAIN), [plain_row(device_sum, by) for device_sum in device_sums])
        return
    options.output.rows("Utilisation", (by, *COLUMNS), [shown_row(device_sum, by) for device_sum in device_sums])
    state_table = [row | {by: device_sum.name} for device_sum in device_sums for row in state_rows(device_sum)]
    options.output.rows("Of this time", (by, *STATES), state_table)


def plain_row(used_sum: UsedSum, grouping: str) -> dict[str, Any]:
    """Return a row for programs: times in milliseconds, also by state."""
    ms_by_state = dict(sorted(used_sum.ms.items()))
    return {
        grouping: used_sum.name,
        "up_ms": used_sum.up_ms,
        "computing_ms": used_sum.computing_ms,
        "idle_ms": used_sum.up_ms - used_sum.computing_ms,
        "computing_by": {activity: spent_ms for activity, spent_ms in ms_by_state.items() if activity in COMPUTING},
        "idle_by": {activity: spent_ms for activity, spent_ms in ms_by_state.items() if activity not in COMPUTING},
        **_rate_columns(used_sum),
    }


def shown_row(used_sum: UsedSum, grouping: str) -> dict[str, Any]:
    """Return a row for people: hours, and shares of the daemon's running time."""
    return {
        grouping: used_sum.name,
        "up": _hours_text(used_sum.up_ms),
        "computing": _share_text(used_sum.computing_ms, used_sum.up_ms),
        "idle": _share_text(used_sum.up_ms - used_sum.computing_ms, used_sum.up_ms),
        **_rate_columns(used_sum),
    }


def state_rows(used_sum: UsedSum) -> list[dict[str, Any]]:
    """Return rows of computing states, then of idle reasons, the longest first."""
    ordered_states = sorted(used_sum.ms.items(), key=lambda item: (item[0] not in COMPUTING, -item[1]))
    return [
        {
            "state": activity if activity in COMPUTING else f"idle: {activity}",
            "time": _hours_text(spent_ms),
            "share": _share_text(spent_ms, used_sum.up_ms),
        }
        for activity, spent_ms in ordered_states
        if spent_ms
    ]


def now_rows(present_notes: Mapping[str, PresentNote], at_ms: int | None = None) -> list[dict[str, Any]]:
    """Return each device's present state, from the daemon's last record."""
    now_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    device_rows = []
    for device_name, present_note in sorted(present_notes.items()):
        # A daemon that was killed leaves its last state in the file.
        is_silent = now_ms - present_note.at_ms > SILENT_MS
        state_text = present_note.state if present_note.state in COMPUTING else f"idle: {present_note.state}"
        device_rows.append(
            {
                "device": device_name,
                "state": "no daemon" if is_silent else state_text,
                "since": _utc_text(present_note.at_ms if is_silent else present_note.since_ms),
                "why": "no daemon of this base path runs" if is_silent else present_note.words or None,
            }
        )
    return device_rows


def _rate_columns(used_sum: UsedSum) -> dict[str, Any]:
    per_hour = used_sum.grains_per_hour
    return {
        "tokens": used_sum.tokens,
        "tokens_per_second": used_sum.tokens_per_second,
        "earned": Grains(used_sum.grains),
        "earned_per_hour": None if per_hour is None else Grains(per_hour),
    }


def _hours_text(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _share_text(part_ms: int, whole_ms: int) -> str:
    return f"{100 * part_ms / whole_ms:.1f} %" if whole_ms else "-"


def _utc_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
