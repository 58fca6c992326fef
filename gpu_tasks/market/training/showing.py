"""Which segments of a trace are looked at, and whether what is shown of them is in the trace.

A root convicts nobody whom nobody can open: who has stated one shows the hashes before and after each drawn segment,
in time, or counts as having lied. Judges fetch the states by these hashes.

Always: who states a root does not know which segments are drawn; only segments of its own leg are.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.traces.trace import TracedState, is_in_trace
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, Bounded, struct

SEGMENTS_SHOWN = 4
"""Each is a small share of a run, and one of them is where a tenth that was skipped is seen with 34 %."""


@struct
class ShownSegment:
    """The states before and after a segment, by hash."""

    index: U16
    before: TracedState
    after: TracedState


ShownSegments = Annotated[tuple[ShownSegment, ...], Bounded(SEGMENTS_SHOWN)]


def leg_segments(segments: int, behind: int, milestones: int) -> range:
    """The segments of the leg that begins after `behind` milestones of `milestones`."""
    return range(segments * behind // milestones, segments)


def drawn_segments(seed: bytes, slot: bytes, among: range) -> tuple[int, ...]:
    """Up to `SEGMENTS_SHOWN` different segments, ascending."""
    left, drawn = list(among), []
    for number in range(min(SEGMENTS_SHOWN, len(left))):
        ticket = blake2_256(b"ogpu/segment" + seed + slot + bytes((number,)))
        drawn.append(left.pop(int.from_bytes(ticket, "big") % len(left)))
    return tuple(sorted(drawn))


def is_shown(root: bytes, segments: int, wanted: Sequence[int], shown: Sequence[ShownSegment]) -> bool:
    """Whether these are the wanted segments, in order, and all their states are in the trace under `root`."""
    return [each.index for each in shown] == list(wanted) and all(
        is_in_trace(root, segments, each.index, each.before) and is_in_trace(root, segments, each.index + 1, each.after)
        for each in shown
    )


def refuted(root: bytes) -> bytes:
    """What judges answer who find a root wrong: they compute segments, so that they know no right root."""
    return blake2_256(b"ogpu/refuted" + root)
