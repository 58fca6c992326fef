"""The check of one segment of a run at the cost of that segment, and of a fraud proof with one state.

A court computes drawn parts. A challenger that doubts a trace computes all of it and shows the first wrong segment.

Invariant: a segment is wrong exactly if it does not follow from the state before it, so one false state is one wrong
segment. No proof convicts an honest trace.
"""

from gpu_tasks.traces.trace import TracedState, TraceFraudProof, has_form, is_in_trace, state_hash
from gpu_tasks.workloads.stepwise import SegmentedRun
from runtime.encoding.codec import DecodeError


def next_digest(run: SegmentedRun, index: int, state: bytes) -> bytes | None:
    """Compute the segment from `state` as s(index) and return the hash of s(index + 1), or None for a false state.

    A state is false if it is no state of this request, belongs to another step, or claims to be s(0) and differs from
    the request's initial state.
    """
    if not 0 <= index < run.segments or (index == 0 and state != run.initial_state()):
        return None
    try:
        steps_done = run.steps_done(state)
    except DecodeError:
        return None
    # A trace could otherwise repeat a state, and skip the work of a segment.
    if steps_done != run.boundary(index):
        return None
    return state_hash(run.advance(state, run.boundary(index + 1) - steps_done))


def segment_is_right(run: SegmentedRun, index: int, state: bytes, digest_after: bytes) -> bool:
    """Return True if segment `segment_index` leads from `state`, the state there, to the hash `digest_after`."""
    return next_digest(run, index, state) == digest_after


def convicts(run: SegmentedRun, trace_root: bytes, fraud_proof: TraceFraudProof, state: bytes) -> bool:
    """Return whether a proof shows an error in the trace; `state` has the trace's hash before the segment.

    A state that cannot belong there has no right continuation, so the proof need not name one.
    """
    if not has_form(trace_root, run.segments, fraud_proof) or state_hash(state) != fraud_proof.before.digest:
        return False
    digest_found = next_digest(run, fraud_proof.index, state)
    # A challenger that did not compute the segment must not win by pointing at it, so its own hash has to be right.
    return digest_found is None or (digest_found == fraud_proof.right and digest_found != fraud_proof.after.digest)


def starts_wrong(run: SegmentedRun, root: bytes, first: TracedState) -> bool:
    """Return whether a trace begins with a false state. Its first hash shows that, without the state itself."""
    return is_in_trace(root, run.segments, 0, first) and first.digest != state_hash(run.initial_state())
