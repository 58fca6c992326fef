"""One segment of a run checked, for the price of that segment, and a proof of fraud read with one state.

A court computes drawn parts; whoever doubts a trace computes them all, and shows the first that is wrong.

Always: exactly the segments that do not follow from the state before them are wrong, so one lie is one wrong segment;
no proof convicts an honest trace.
"""

from gpu_tasks.traces.trace import TracedState, TraceFraudProof, has_form, is_in_trace, state_hash
from gpu_tasks.workloads.stepwise import SegmentedRun
from runtime.encoding.codec import DecodeError


def next_digest(run: SegmentedRun, index: int, state: bytes) -> bytes | None:
    """The hash of s(index + 1) if `state` is s(index), by computing the segment; None if it cannot be that state.

    It cannot if it is no state of this request, if it stands at another step, or if it is a first one that the request
    does not begin with.
    """
    if not 0 <= index < run.segments or (index == 0 and state != run.initial_state()):
        return None
    try:
        done = run.steps_done(state)
    except DecodeError:
        return None
    if done != run.boundary(index):
        return None
    return state_hash(run.advance(state, run.boundary(index + 1) - done))


def segment_is_right(run: SegmentedRun, index: int, state: bytes, after: bytes) -> bool:
    """Whether segment `index` leads from `state`, which the trace names there, to a state with the hash `after`."""
    return next_digest(run, index, state) == after


def convicts(run: SegmentedRun, root: bytes, proof: TraceFraudProof, state: bytes) -> bool:
    """Whether a proof shows the trace to be wrong; `state` has the hash that the trace names before the segment.

    Of a state that cannot stand there no right continuation exists, so that none is asked for. A proof whose own hash
    is wrong shows nothing: who has not computed the segment shall not win by pointing at it.
    """
    if not has_form(root, run.segments, proof) or state_hash(state) != proof.before.digest:
        return False
    found = next_digest(run, proof.index, state)
    return found is None or (found == proof.right and found != proof.after.digest)


def starts_wrong(run: SegmentedRun, root: bytes, first: TracedState) -> bool:
    """Whether a trace begins with another state than the request does: its first hash shows it, without a state."""
    return is_in_trace(root, run.segments, 0, first) and first.digest != state_hash(run.initial_state())
