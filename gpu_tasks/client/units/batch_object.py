"""A run of a file at one moment, as OpenAI's batch object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cli.output import plain
from gpu_tasks.client.units.costs import NOTHING, UnitSums
from gpu_tasks.client.units.lines import LineError

WINDOW_UNASKED = "24h"
"""The value that OpenAI's object always has. For a run without a limit, `expires_at` is null."""
ERRORS_SHOWN_MAX = 100
"""The most refused lines in the object. The errors file has all of them."""


class BatchStatus(StrEnum):
    """The status of a run, in OpenAI's words."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


_TIMES = ("in_progress", "expires", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """The number of a run's requests, and their outcomes."""

    total: int
    completed: int
    failed: int

    def __post_init__(self) -> None:
        assert min(self.completed, self.failed) >= 0, self
        assert self.completed + self.failed <= self.total, self


@dataclass(frozen=True, slots=True)
class BatchState:
    """A run at one moment. Times are Unix seconds, by event: `in_progress`, `expires`, `completed`, ..."""

    batch_id: str
    endpoint: str
    status: BatchStatus
    created_at: int
    input_file: str
    output_file: str
    error_file: str
    counts: RequestCounts
    completion_window: str | None
    """The window as requested. None if the run has no limit."""
    times: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[LineError] = ()
    sums: UnitSums = NOTHING

    def json(self) -> str:
        """Return OpenAI's object with all its names, and `costs`. An empty file is null."""
        unknown = sorted(set(self.times) - set(_TIMES))
        assert not unknown, unknown
        return json.dumps(
            {
                "id": self.batch_id,
                "object": "batch",
                "endpoint": self.endpoint,
                "errors": _errors(self.refused),
                "input_file_id": self.input_file,
                "completion_window": self.completion_window or WINDOW_UNASKED,
                "status": self.status.value,
                "output_file_id": self.output_file if self.counts.completed else None,
                "error_file_id": self.error_file if self.counts.failed else None,
                "created_at": self.created_at,
                **{f"{name}_at": self.times.get(name) for name in _TIMES},
                "request_counts": {
                    "total": self.counts.total,
                    "completed": self.counts.completed,
                    "failed": self.counts.failed,
                },
                "metadata": None,
                "costs": plain(self.sums.facts()),
            },
            indent=2,
        )


def status_of(
    counts: RequestCounts, stopped: str | None, is_running: bool, are_files_whole: bool, given_up: int = 0
) -> BatchStatus:
    """Return the status of a run. `stopped` is the reason of a stop, `is_running` tells if units are open.

    `given_up` is the number of requests without an answer because of the stop. With 0 the stop came too late.
    """
    if stopped == "cancelled" and (is_running or not are_files_whole):
        return BatchStatus.CANCELLING
    if stopped == "cancelled" and given_up:
        return BatchStatus.CANCELLED
    if is_running:
        return BatchStatus.IN_PROGRESS
    if not are_files_whole:
        return BatchStatus.FINALIZING
    if stopped == "expired" and given_up:
        return BatchStatus.EXPIRED
    return BatchStatus.COMPLETED if counts.completed + counts.failed == counts.total else BatchStatus.IN_PROGRESS


def _errors(refused: Sequence[LineError]) -> dict[str, object] | None:
    if not refused:
        return None
    data = [
        {"code": error.code, "message": error.message, "param": error.param, "line": error.number}
        for error in refused[:ERRORS_SHOWN_MAX]
    ]
    return {"object": "list", "data": data}
