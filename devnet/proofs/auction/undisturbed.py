"""The run of a task file computed here, by the integer reference, without any network: what every course must end with.

Always: nothing is read but the file and its input, whose seed is the file's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.client.task_files import load, load_input
from gpu_tasks.tasks.canonical import prepare
from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.service import IntegerTraining

BACKEND = "reference"


@dataclass(frozen=True, slots=True)
class UndisturbedRun:
    """What a run comes to."""

    task_hash: bytes
    root: bytes
    last_state: bytes


def run(path: Path) -> UndisturbedRun:
    """The whole run of the task at `path`."""
    file = load(path)
    assert file.task.seed is not None, "without a seed of its own a file has another run each time"
    prepared = prepare(file, load_input(path, file), file.task.seed)
    passed = list(states(IntegerTraining(arithmetic(BACKEND)).begin(prepared.request)))
    digests = [state_hash(state) for state in passed]
    return UndisturbedRun(prepared.task_hash, trace_root(digests), passed[-1])
