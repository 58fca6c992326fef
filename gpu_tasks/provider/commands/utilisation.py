"""`utilisation`: the working and idle time of the devices of this base path."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cli.session import note
from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.earnings import EARNINGS_FILE, payments
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


def utilisation(provider_options: ProviderOptions, by: str) -> None:
    """Print the utilisation of the devices."""
    folder = provider_options.base_path / UTILISATION_FOLDER
    found = used_sums(device_days(folder), payments(provider_options.base_path / EARNINGS_FILE), UsedBy(by))
    if not found:
        note(f"{provider_options.base_path} has no measurements. Give the daemon's --base-path")
    if provider_options.output.as_json:
        provider_options.output.rows("", (by, *PLAIN), [plain_row(each, by) for each in found])
        return
    provider_options.output.rows("Utilisation", (by, *COLUMNS), [shown_row(each, by) for each in found])
    rows = [row | {by: each.name} for each in found for row in state_rows(each)]
    provider_options.output.rows("Of this time", (by, *STATES), rows)


def plain_row(each: UsedSum, by: str) -> dict[str, Any]:
    """Return a row for programs: times in milliseconds, also by state."""
    ms = dict(sorted(each.ms.items()))
    return {
        by: each.name,
        "up_ms": each.up_ms,
        "computing_ms": each.computing_ms,
        "idle_ms": each.up_ms - each.computing_ms,
        "computing_by": {state: spent for state, spent in ms.items() if state in COMPUTING},
        "idle_by": {state: spent for state, spent in ms.items() if state not in COMPUTING},
        **_rates(each),
    }


def shown_row(each: UsedSum, by: str) -> dict[str, Any]:
    """Return a row for people: hours, and shares of the daemon's running time."""
    return {
        by: each.name,
        "up": _hours(each.up_ms),
        "computing": _share(each.computing_ms, each.up_ms),
        "idle": _share(each.up_ms - each.computing_ms, each.up_ms),
        **_rates(each),
    }


def state_rows(each: UsedSum) -> list[dict[str, Any]]:
    """Return rows of computing states, then of idle reasons, the longest first."""
    ordered = sorted(each.ms.items(), key=lambda found: (found[0] not in COMPUTING, -found[1]))
    return [
        {
            "state": state if state in COMPUTING else f"idle: {state}",
            "time": _hours(ms),
            "share": _share(ms, each.up_ms),
        }
        for state, ms in ordered
        if ms
    ]


def now_rows(notes: Mapping[str, PresentNote], at_ms: int | None = None) -> list[dict[str, Any]]:
    """Return each device's present state, from the daemon's last record."""
    now_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    rows = []
    for name, each in sorted(notes.items()):
        is_silent = now_ms - each.at_ms > SILENT_MS
        state = each.state if each.state in COMPUTING else f"idle: {each.state}"
        rows.append(
            {
                "device": name,
                "state": "no daemon" if is_silent else state,
                "since": _utc(each.at_ms if is_silent else each.since_ms),
                "why": "no daemon of this base path runs" if is_silent else each.words or None,
            }
        )
    return rows


def _rates(each: UsedSum) -> dict[str, Any]:
    per_hour = each.grains_per_hour
    return {
        "tokens": each.tokens,
        "tokens_per_second": each.tokens_per_second,
        "earned": Grains(each.grains),
        "earned_per_hour": None if per_hour is None else Grains(per_hour),
    }


def _hours(ms: int) -> str:
    minutes, seconds = divmod(ms // 1_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
