"""A container that runs or has run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.execution.containers.spec import ContainerSpec


class EndReason(Enum):
    """The causes of a container's end."""

    EXITED = "the program ended"
    OUT_OF_MEMORY = "it exceeded its memory limit"
    TIME_IS_UP = "its time was up"
    STOPPED = "it was stopped"
    ENGINE_LOST = "the engine did not report its end"


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """The end of a container."""

    reason: EndReason
    exit_code: int
    """The exit code; 128 plus the signal's number after a signal; -1 if unknown."""
    seconds: float
    """The time that it ran."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """The consumption of a container since its start."""

    cpu_ms: int
    memory_peak_bytes: int
    """The peak, or the present use where the engine keeps no peak (control groups v2)."""


def use_of(stats: Mapping[str, Any]) -> ContainerUse:
    """Return the consumption from an engine's statistics; 0 for missing values."""
    cpu_usage = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    memory_stats = stats.get("memory_stats") or {}
    return ContainerUse(
        _whole_number(cpu_usage.get("total_usage")) // 1_000_000,
        _whole_number(memory_stats.get("max_usage", memory_stats.get("usage"))),
    )


def _whole_number(engine_value: object) -> int:
    return engine_value if isinstance(engine_value, int) and engine_value >= 0 else 0


def _new_end() -> asyncio.Future[ContainerEnd]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class RunningContainer:
    """A started container."""

    spec: ContainerSpec
    name: str
    holder: str
    log: ContainerLog
    stop_wanted: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set before the container is stopped on purpose."""
    hurry: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the container ends: the log then reads without delays, because the engine waits for slow readers."""
    end: asyncio.Future[ContainerEnd] = field(default_factory=_new_end, repr=False)
    """The container's end, once it has ended."""
