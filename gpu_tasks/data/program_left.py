"""What a program leaves, as one blob: the archive of its /out, and the last lines that it wrote.

    content = SCALE(outputs, lines, left_out)

Always: the chain has the hash of the outputs alone, since no two runs write the same lines at the same moments; the
lines are their provider's word. Only the last lines are kept, and how many went before them is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from runtime.encoding.codec import U64, Bounded, codec, struct

LINE_BYTES_MAX = 2_000
LINES_MAX = 16_384
LINES_BYTES_MAX = 256 * 1024
"""Of the lines that are kept, encoded."""
FRAME_BYTES = 32
"""What the lengths take, and more."""
OUTPUTS_BYTES_MAX = CONTENT_BYTES_MAX - FRAME_BYTES


@struct
class LogLine:
    """A line that a program wrote."""

    at_ms: U64
    """Milliseconds since 1970, by the provider's clock."""
    is_error: bool
    """Whether it was written to standard error."""
    text: Annotated[str, Bounded(LINE_BYTES_MAX)]


@struct
class ProgramLeft:
    """What was left. Where the outputs could not be taken they are empty, and no hash of them is stated."""

    outputs: Annotated[bytes, Bounded(CONTENT_BYTES_MAX)]
    lines: Annotated[tuple[LogLine, ...], Bounded(LINES_MAX)]
    left_out: U64
    """Lines that were written before these."""


_LEFT = codec(ProgramLeft)
_LINE = codec(LogLine)


def encode_left(outputs: bytes, lines: Sequence[LogLine], lines_seen: int) -> bytes:
    """The content of a blob, with as many of the last lines as have room; ValueError for too many outputs."""
    check_size(outputs)
    kept = _last(lines, min(LINES_BYTES_MAX, OUTPUTS_BYTES_MAX - len(outputs)))
    return _LEFT.encode(ProgramLeft(outputs, kept, lines_seen - len(kept)))


def check_size(outputs: bytes) -> None:
    """ValueError for more outputs than a blob has room for."""
    if len(outputs) > OUTPUTS_BYTES_MAX:
        raise ValueError(f"the outputs are {len(outputs)} bytes, and {OUTPUTS_BYTES_MAX} at most are sealed")


def decode_left(content: bytes) -> ProgramLeft:
    """What a blob holds; DecodeError (runtime.encoding.codec)."""
    return _LEFT.decode(content)


def _last(lines: Sequence[LogLine], room: int) -> tuple[LogLine, ...]:
    """The last lines that fit."""
    first = len(lines)
    while first and len(lines) - first < LINES_MAX:
        room -= len(_LINE.encode(lines[first - 1]))
        if room < 0:
            break
        first -= 1
    return tuple(lines[first:])
