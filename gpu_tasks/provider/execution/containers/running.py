"""A container that runs or has run, as its engine hands it out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum

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
