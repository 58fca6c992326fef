"""A run as OpenAI's batch object: what `ogpu --json post FILE --out` prints for programs that know it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_tasks.client.batches.lines import LineError
from gpu_tasks.client.batches.sums import NOTHING, UnitSums
from wallet.output import plain

WINDOW_UNASKED = "24h"
"""What OpenAI's object always has; of a run that takes as long as it takes `expires_at` is null."""
ERRORS_SHOWN_MAX = 100
"""Of the lines that were refused; all of them stand in the error file."""


class BatchStatus(StrEnum):
    """Where a run stands, in OpenAI's words."""

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
    """How many requests a run has, and what came of them."""

    total: int
    completed: int
    failed: int

    def __post_init__(self) -> None:
        assert min(self.completed, self.failed) >= 0, self
        assert self.completed + self.failed <= self.total, self


@dataclass(frozen=True, slots=True)
class BatchState:
    """A run at one moment. Times are Unix seconds, by what happened: `in_progress`, `expires`, `completed`, ..."""

    batch_id: str
    endpoint: str
    status: BatchStatus
    created_at: int
    input_file: str
    output_file: str
    error_file: str
    counts: RequestCounts
    completion_window: str | None
    """As it was asked; None where the run may take as long as it takes."""
    times: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[LineError] = ()
    sums: UnitSums = NOTHING

    def json(self) -> str:
        """The object, with every name that OpenAI's has, and `costs`; a file in which nothing stands is none there."""
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
    """Where a run stands. `stopped`: why nothing more is posted; `is_running`: whether units are still open.

    `given_up`: requests without an answer for that reason. Where there are none, it was stopped too late.
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
