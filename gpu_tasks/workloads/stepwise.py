"""A workload that runs in steps and can continue from the state at the end of any segment. States are bytes.

    s(0) --segment 0--> s(1) --segment 1--> ... --segment n-1--> s(n)

Invariant: the same request has the same states on every conforming machine, and a state's bytes decide all later steps.
From s(i), fetched from any source, a machine computes the s(i + 1) of an uninterrupted run. `gpu_tasks/traces/trace.py`
puts the states' hashes under one root.
"""

from collections.abc import Iterator
from typing import Protocol, cast

from gpu_tasks.workloads.fingerprints import first_trail, trail_fingerprint
from gpu_tasks.workloads.workload import Workload


class SegmentedRun(Protocol):
    """The run of one request on one backend."""

    @property
    def segments(self) -> int:
        """The number of segments: 1 to `SEGMENTS_MAX` of `gpu_tasks/traces/trace.py`."""
        ...

    def boundary(self, index: int) -> int:
        """Return the number of completed steps at s(index), from 0 at s(0) to all of them at s(segments)."""
        ...

    def initial_state(self) -> bytes:
        """Return s(0)."""
        ...

    def steps_done(self, state: bytes) -> int:
        """Return the number of completed steps in a state.

        Raise DecodeError for bytes that are no state of this request.
        """
        ...

    def advance(self, state: bytes, steps: int) -> bytes:
        """Return the state `steps` later. Raise DecodeError as `steps_done`, and ValueError beyond the end."""
        ...

    def trailed(self, state: bytes, steps: int, trail: bytes) -> tuple[bytes, bytes]:
        """Return the state `steps` later and the trail there, from the trail at `state` (`fingerprints.py`).

        Both are the same for any partition of the steps. Raise errors as `advance`.
        """
        ...

    def metric(self, state: bytes) -> int:
        """Return the quality of a state as a whole number, in the workload's unit.

        Raise DecodeError as `steps_done`.
        """
        ...


class StepwiseWorkload(Workload, Protocol):
    """A kind of exact work in steps, ready to run on one backend."""

    def begin(self, encoded_request: bytes) -> SegmentedRun:
        """Return the run of a request without computing anything. Raise DecodeError for an invalid request."""
        ...

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Return the fingerprint of all segments."""
        return trail_fingerprint(seed, [trail for _, trail in trailed_segments(self.begin(encoded_request))])


def stepwise(workload: Workload) -> StepwiseWorkload:
    """Return the workload with its steps. Raise TypeError if it does not run in steps."""
    if not hasattr(workload, "begin"):
        raise TypeError("the workload does not run in steps")
    return cast("StepwiseWorkload", workload)


def states(run: SegmentedRun, state: bytes | None = None) -> Iterator[bytes]:
    """Yield the states at all boundaries from s(0) on, or from `state`, which must be one of them and is included."""
    current = run.initial_state() if state is None else state
    done = run.steps_done(current)
    yield current
    for index in range(1, run.segments + 1):
        if run.boundary(index) > done:
            current = run.advance(current, run.boundary(index) - done)
            done = run.boundary(index)
            yield current


def trailed_segments(run: SegmentedRun) -> Iterator[tuple[bytes, bytes]]:
    """Yield the state after each segment from s(0) on, with the trail of that segment."""
    state = run.initial_state()
    for index in range(run.segments):
        state, trail = run.trailed(state, run.boundary(index + 1) - run.boundary(index), first_trail(state))
        yield state, trail
