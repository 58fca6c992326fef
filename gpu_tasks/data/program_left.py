"""The remains of a program, as one blob: the archive of its /out, and its last log lines.

    content = SCALE(outputs, lines, left_out)

Invariant: the chain has only the hash of the outputs, because no two runs write the same lines at the same times. The
lines are a claim of the provider. Only the last lines are kept, with the number of the lines before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from runtime.encoding.codec import U64, Bounded, codec, struct

LINE_BYTES_MAX = 2_000
LINES_MAX = 16_384
LINES_BYTES_MAX = 256 * 1024
"""The most bytes of the kept lines, encoded."""
FRAME_BYTES = 32
"""More than the bytes of the lengths."""
OUTPUTS_BYTES_MAX = CONTENT_BYTES_MAX - FRAME_BYTES


@struct
class LogLine:
    """A log line of a program."""

    at_ms: U64
    """Milliseconds since 1970, by the provider's clock."""
    is_error: bool
    """True for standard error."""
    text: Annotated[str, Bounded(LINE_BYTES_MAX)]


@struct
class ProgramLeft:
    """The remains of a program. Outputs that could not be taken are empty, and the provider states no hash of them."""

    outputs: Annotated[bytes, Bounded(CONTENT_BYTES_MAX)]
    lines: Annotated[tuple[LogLine, ...], Bounded(LINES_MAX)]
    left_out: U64
    """The number of lines before these."""


_LEFT = codec(ProgramLeft)
_LINE = codec(LogLine)


def encode_left(archive: bytes, lines: Sequence[LogLine], lines_seen: int) -> bytes:
    """Return the content of a blob, with the last lines that fit. Raise ValueError for too many outputs."""
    check_size(archive)
    kept = _last_lines(lines, min(LINES_BYTES_MAX, OUTPUTS_BYTES_MAX - len(archive)))
    return _LEFT.encode(ProgramLeft(archive, kept, lines_seen - len(kept)))


def check_size(archive: bytes) -> None:
    """Raise ValueError for outputs that do not fit a blob."""
    if len(archive) > OUTPUTS_BYTES_MAX:
        raise ValueError(f"the outputs have {len(archive)} bytes, of at most {OUTPUTS_BYTES_MAX}")


def decode_left(content: bytes) -> ProgramLeft:
    """Return the content of a blob. Raise DecodeError (runtime.encoding.codec) for anything else."""
    return _LEFT.decode(content)


def _last_lines(lines: Sequence[LogLine], room_bytes: int) -> tuple[LogLine, ...]:
    """Return the last lines that fit."""
    first_kept = len(lines)
    while first_kept and len(lines) - first_kept < LINES_MAX:
        room_bytes -= len(_LINE.encode(lines[first_kept - 1]))
        if room_bytes < 0:
            break
        first_kept -= 1
    return tuple(lines[first_kept:])
