"""The stretches of a trace that judges look at, and the proof that shown states are in the trace.

A leg of a run has at most `PARTS_MAX` parts, of which four are drawn. A judge that computes them finds a lie in a
single segment with probability `PARTS_DRAWN / PARTS_MAX`, however fine the trace is. A party that knows the wrong
segment names it, and judges look at it too.

A root that no party can open would convict no provider. So its provider shows the hashes before and after each stretch
in time, or counts as a liar. Judges fetch the states by these hashes.

Invariants: a provider does not know the drawn parts when it states its root. Only parts of its own leg are drawn.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from gpu_tasks.market.training.tasks import Task, slot_case
from gpu_tasks.traces.trace import TracedState, is_in_trace
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, Bounded, struct

# A finer trace makes no part smaller, so the chance to find a lie in one segment stays a fifth (ADR 19).
PARTS_MAX = 20
PARTS_DRAWN = 4
"""A fifth of a run: a skipped tenth is seen with at least 34 %, a single wrong segment with 20 %."""
STRETCHES_MAX = PARTS_DRAWN + 1
"""The drawn parts and a named segment."""


@struct
class TraceStretch:
    """Consecutive segments of a trace, from s(first) to s(end)."""

    first: U16
    end: U16


@struct
class ShownStretch:
    """The states before and after a stretch, by hash."""

    before: TracedState
    after: TracedState


Stretches = Annotated[tuple[TraceStretch, ...], Bounded(STRETCHES_MAX)]
ShownStretches = Annotated[tuple[ShownStretch, ...], Bounded(STRETCHES_MAX)]


def leg_segments(segments: int, milestones_behind: int, milestones: int) -> range:
    """Return the segments of the leg that begins after `milestones_behind` of `milestones` milestones."""
    return range(segments * milestones_behind // milestones, segments)


def own_segments(task: Task) -> range:
    """Return the segments of a task's newest leg, for which its slots are liable."""
    # No provider is liable for segments that an earlier one computed.
    return leg_segments(task.order.segments, task.behind, task.order.milestones)


def judged_stretches(task_id: bytes, task: Task, place: int) -> tuple[TraceStretch, ...]:
    """Return the stretches that the judges of a slot compute: none before the beacon draws them, or without a trace."""
    if task.challenge is not None:
        return (TraceStretch(task.challenge.segment, task.challenge.segment + 1),)
    if task.drawn is None:
        return ()
    return looked_at(task.drawn, slot_case(task_id, place), own_segments(task), task.named)


def parts(leg: range) -> tuple[TraceStretch, ...]:
    """Return a leg as at most `PARTS_MAX` parts. Their lengths differ by at most one segment."""
    # A short leg has one part for each segment.
    part_count = min(PARTS_MAX, len(leg))
    ends = [leg.start + len(leg) * number // part_count for number in range(part_count + 1)] if part_count else []
    return tuple(TraceStretch(first_segment, end_segment) for first_segment, end_segment in pairwise(ends))


def drawn_parts(seed: bytes, slot_case_id: bytes, leg: range) -> tuple[TraceStretch, ...]:
    """Return up to `PARTS_DRAWN` different parts of a leg, ascending."""
    parts_left, drawn_stretches = list(parts(leg)), []
    for draw_number in range(min(PARTS_DRAWN, len(parts_left))):
        # With the slot's id, so that each slot of a gang has parts of its own.
        draw_ticket = blake2_256(b"ogpu/segment" + seed + slot_case_id + bytes((draw_number,)))
        drawn_stretches.append(parts_left.pop(int.from_bytes(draw_ticket, "big") % len(parts_left)))
    return tuple(sorted(drawn_stretches, key=lambda part: part.first))


def looked_at(seed: bytes, slot_case_id: bytes, leg: range, named: int | None) -> tuple[TraceStretch, ...]:
    """Return the stretches that judges compute: the drawn parts, then the named segment, if any."""
    drawn_stretches = drawn_parts(seed, slot_case_id, leg)
    # A party that has computed the run must win surely, for any draw of parts (ADR 19).
    named_stretch = () if named is None else (TraceStretch(named, named + 1),)
    return (
        drawn_stretches if named_stretch and named_stretch[0] in drawn_stretches else (*drawn_stretches, *named_stretch)
    )


def looked_at_most(segments: int) -> int:
    """Return the most segments that judges compute of a run with this many."""
    lengths = sorted((part.end - part.first for part in parts(range(segments))), reverse=True)
    return min(segments, sum(lengths[:PARTS_DRAWN]) + 1)


def is_shown(root: bytes, segments: int, wanted: Sequence[TraceStretch], shown: Sequence[ShownStretch]) -> bool:
    """Return True if these are the wanted stretches, in order, with all their states in the trace under `root`."""
    # The length comes first: a strict zip would raise for a call with too few states.
    return len(shown) == len(wanted) and all(
        is_in_trace(root, segments, stretch.first, shown_stretch.before)
        and is_in_trace(root, segments, stretch.end, shown_stretch.after)
        for stretch, shown_stretch in zip(wanted, shown, strict=True)
    )


def refuted(refuted_root: bytes) -> bytes:
    """Return the judges' answer for a wrong root. They compute stretches, so they know no right root."""
    return blake2_256(b"ogpu/refuted" + refuted_root)
