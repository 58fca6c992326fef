"""A container that runs or has run, as its engine hands it out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.execution.containers.spec import ContainerSpec


class EndReason(Enum):
    """Why a container ended."""

    EXITED = "the program ended"
    OUT_OF_MEMORY = "it wanted more memory than its limit"
    TIME_IS_UP = "its time was up"
    STOPPED = "it was stopped"
    ENGINE_LOST = "the engine did not say how it ended"


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended."""

    reason: EndReason
    exit_code: int
    """128 and the signal's number where a signal ended it; -1 if nobody knows."""
    seconds: float
    """It ran so long."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What a container has used since it began."""

    cpu_ms: int
    memory_peak_bytes: int
    """Or what it has now, where the engine keeps no peak (control groups v2)."""


def use_of(stats: Mapping[str, Any]) -> ContainerUse:
    """What an engine's statistics say; 0 is what they do not."""
    cpu = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    memory = stats.get("memory_stats") or {}
    return ContainerUse(
        _whole(cpu.get("total_usage")) // 1_000_000, _whole(memory.get("max_usage", memory.get("usage")))
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _new_end() -> asyncio.Future[ContainerEnd]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class RunningContainer:
    """What an engine knows of a container that it started."""

    spec: ContainerSpec
    name: str
    holder: str
    log: ContainerLog
    stop_wanted: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set by who stops it, before it is."""
    hurry: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set once it is ended: an engine waits for who reads slowly what it said last."""
    end: asyncio.Future[ContainerEnd] = field(default_factory=_new_end, repr=False)
    """How it ended, once it has."""
