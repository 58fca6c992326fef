"""CPU time of `train-int8` at its usual size: a step, a whole run, and the check of one segment.

    Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks training      about 10 seconds

BACKEND=torch-cpu chooses another backend. The text is a part of Python's own library. On a GPU, whose work process time
omits, the benchmark uses wall time.
"""

import email
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.figures import Figures
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.fingerprints import first_trail
from gpu_tasks.workloads.stepwise import SegmentedRun, states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import decode_request
from gpu_tasks.workloads.train_int8.run import TrainingRun

Result = TypeVar("Result")
STEPS, TEXT_BYTES = 1_000, 150_000
CHECKED = (0, 10, 25, 40, 49)
"""Checked segments, of the 50 in a run of 1,000 steps."""
REFERENCE_STEPS = 20


def measure() -> Figures:
    """Return the figures of one run, the median check of its segments, and some steps of the reference."""
    backend = os.environ.get("BACKEND", "numpy")
    clock = time.perf_counter if "cuda" in backend else time.process_time
    asked = decode_request(TrainingForm().encode(text(), STEPS, {}, bytes(32)))
    run = TrainingRun(arithmetic(backend), asked)
    whole, run_s = timed(clock, lambda: list(states(run)))
    digests, hashes_s = timed(clock, lambda: [state_hash(state) for state in whole])
    checks = [timed(clock, partial(checked, run, at, whole[at], digests[at + 1]))[1] for at in CHECKED]
    check_s = statistics.median(checks)
    milli_bits, metric_s = timed(clock, lambda: run.metric(whole[-1]))
    reference = TrainingRun(arithmetic("reference"), asked)
    _, reference_s = timed(clock, lambda: reference.advance(whole[0], REFERENCE_STEPS))
    return {
        "step_ms": round(1_000 * run_s / STEPS, 3),
        "step_of_the_reference_ms": round(1_000 * reference_s / REFERENCE_STEPS, 2),
        "run_of_1000_steps_s": round(run_s, 2),
        "check_of_a_segment_ms": round(1_000 * check_s, 1),
        "check_over_run": round(check_s / run_s, 4),
        "segments": run.segments,
        "state_bytes": len(whole[0]),
        "hash_of_a_state_ms": round(1_000 * hashes_s / len(whole), 2),
        "metric_ms": round(1_000 * metric_s, 1),
        "milli_bits_first": run.metric(whole[0]),
        "milli_bits_last": milli_bits,
    }


def text() -> str:
    """Return the source of modules of Python's library, one after the other."""
    files = sorted(Path(email.__file__).parent.rglob("*.py"))
    return b"".join(file.read_bytes() for file in files)[:TEXT_BYTES].decode(errors="ignore")


def checked(run: SegmentedRun, index: int, state: bytes, after: bytes) -> None:
    """Check a segment as a checker does."""
    later_state, _ = run.trailed(state, run.boundary(index + 1) - run.boundary(index), first_trail(state))
    if state_hash(later_state) != after:
        raise RuntimeError(f"segment {index} is wrong")


def timed(clock: Callable[[], float], work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of the work, and its seconds."""
    start = clock()
    return work(), clock() - start
