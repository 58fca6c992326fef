"""Which stretches of a trace are looked at, and whether what is shown of them is in the trace.

A leg of a run is divided into at most `PARTS_MAX` parts, of which four are drawn: however fine a trace is, a lie in a
single segment of it is found with `PARTS_DRAWN / PARTS_MAX` by whoever computes them. Whoever knows where the lie is
names its segment, which is looked at beside them.

A root convicts nobody whom nobody can open: who has stated one shows the hashes before and after each stretch, in time,
or counts as having lied. Judges fetch the states by these hashes.

Always: who states a root does not know which parts are drawn; only parts of its own leg are.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from gpu_tasks.market.training.tasks import Task, slot_case
from gpu_tasks.traces.trace import TracedState, is_in_trace
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, Bounded, struct

PARTS_MAX = 20
PARTS_DRAWN = 4
"""A fifth of a run, so that a skipped tenth is seen with 34 % at least, and a single wrong segment with 20 %."""
STRETCHES_MAX = PARTS_DRAWN + 1
"""The parts that are drawn, and a segment that is named."""


@struct
class TraceStretch:
    """Segments of a trace, one after the other: from s(first) to s(end)."""

    first: U16
    end: U16


@struct
class ShownStretch:
    """The states before and after a stretch, by hash."""

    before: TracedState
    after: TracedState


Stretches = Annotated[tuple[TraceStretch, ...], Bounded(STRETCHES_MAX)]
ShownStretches = Annotated[tuple[ShownStretch, ...], Bounded(STRETCHES_MAX)]


def leg_segments(segments: int, behind: int, milestones: int) -> range:
    """The segments of the leg that begins after `behind` milestones of `milestones`."""
    return range(segments * behind // milestones, segments)


def own_segments(task: Task) -> range:
    """The segments of a task's newest leg: those that who has a slot answers for."""
    return leg_segments(task.order.segments, task.behind, task.order.milestones)


def judged_stretches(task_id: bytes, task: Task, place: int) -> tuple[TraceStretch, ...]:
    """What the judges of a slot compute; nothing before the beacon has drawn it, or where there is no trace."""
    if task.challenge is not None:
        return (TraceStretch(task.challenge.segment, task.challenge.segment + 1),)
    if task.drawn is None:
        return ()
    return looked_at(task.drawn, slot_case(task_id, place), own_segments(task), task.named)


def parts(leg: range) -> tuple[TraceStretch, ...]:
    """A leg in as many parts as it has segments, at most `PARTS_MAX`: none is longer than another by two."""
    count = min(PARTS_MAX, len(leg))
    ends = [leg.start + len(leg) * number // count for number in range(count + 1)] if count else []
    return tuple(TraceStretch(first, end) for first, end in pairwise(ends))


def drawn_parts(seed: bytes, slot: bytes, leg: range) -> tuple[TraceStretch, ...]:
    """Up to `PARTS_DRAWN` different parts of a leg, ascending."""
    left, drawn = list(parts(leg)), []
    for number in range(min(PARTS_DRAWN, len(left))):
        ticket = blake2_256(b"ogpu/segment" + seed + slot + bytes((number,)))
        drawn.append(left.pop(int.from_bytes(ticket, "big") % len(left)))
    return tuple(sorted(drawn, key=lambda part: part.first))


def looked_at(seed: bytes, slot: bytes, leg: range, named: int | None) -> tuple[TraceStretch, ...]:
    """The stretches that judges compute: parts that are drawn, then the segment that is named, if one is."""
    drawn = drawn_parts(seed, slot, leg)
    alone = () if named is None else (TraceStretch(named, named + 1),)
    return drawn if alone and alone[0] in drawn else (*drawn, *alone)


def looked_at_most(segments: int) -> int:
    """So many segments judges compute at most, of a run that has so many."""
    lengths = sorted((part.end - part.first for part in parts(range(segments))), reverse=True)
    return min(segments, sum(lengths[:PARTS_DRAWN]) + 1)


def is_shown(root: bytes, segments: int, wanted: Sequence[TraceStretch], shown: Sequence[ShownStretch]) -> bool:
    """Whether these are the wanted stretches, in order, and all their states are in the trace under `root`."""
    return len(shown) == len(wanted) and all(
        is_in_trace(root, segments, stretch.first, each.before) and is_in_trace(root, segments, stretch.end, each.after)
        for stretch, each in zip(wanted, shown, strict=True)
    )


def refuted(root: bytes) -> bytes:
    """What judges answer who find a root wrong: they compute stretches, so that they know no right root."""
    return blake2_256(b"ogpu/refuted" + root)
