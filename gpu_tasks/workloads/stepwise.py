"""What a workload is that runs in steps: states at the ends of segments, as bytes, from any of which it goes on.

    s(0) --segment 0--> s(1) --segment 1--> ... --segment n-1--> s(n)

Always: the same request has the same states on every conforming machine, and a state's bytes decide all that follows:
who holds s(i), fetched from anywhere, gets the s(i + 1) of an undisturbed run. `gpu_tasks/traces/trace.py` puts their
hashes under one root.
"""

from collections.abc import Iterator
from typing import Protocol, cast

from gpu_tasks.workloads.workload import Workload


class SegmentedRun(Protocol):
    """One request on one backend."""

    @property
    def segments(self) -> int:
        """How many segments there are: 1 to `SEGMENTS_MAX` of `gpu_tasks/traces/trace.py`."""
        ...

    def boundary(self, index: int) -> int:
        """The steps that are done at s(index), from 0 at s(0) to all of them at s(segments)."""
        ...

    def initial_state(self) -> bytes:
        """s(0)."""
        ...

    def steps_done(self, state: bytes) -> int:
        """How far a state is; DecodeError for bytes that are no state of this request."""
        ...

    def advance(self, state: bytes, steps: int) -> bytes:
        """The state `steps` later; DecodeError as `steps_done`, ValueError beyond the end."""
        ...

    def metric(self, state: bytes) -> int:
        """How good a state is, as a whole number in a unit of the workload's; DecodeError as `steps_done`."""
        ...


class StepwiseWorkload(Workload, Protocol):
    """A kind of exact work in steps, ready to run on one backend."""

    def begin(self, request: bytes) -> SegmentedRun:
        """The run that a request asks for; nothing is computed yet. DecodeError on a request that is not valid."""
        ...


def stepwise(workload: Workload) -> StepwiseWorkload:
    """A workload as what it is beside that; TypeError for one that does not run in steps."""
    if not hasattr(workload, "begin"):
        raise TypeError("it does not run in steps")
    return cast("StepwiseWorkload", workload)


def states(run: SegmentedRun, state: bytes | None = None) -> Iterator[bytes]:
    """The states at all boundaries from s(0) on, or from `state`, which stands at a boundary, itself included."""
    current = run.initial_state() if state is None else state
    done = run.steps_done(current)
    yield current
    for index in range(1, run.segments + 1):
        if run.boundary(index) > done:
            current = run.advance(current, run.boundary(index) - done)
            done = run.boundary(index)
            yield current
