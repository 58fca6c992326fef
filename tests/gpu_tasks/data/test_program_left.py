"""The remains of a program: outputs complete or missing, and the last log lines that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.program_left import (
    LINE_BYTES_MAX,
    LINES_BYTES_MAX,
    LINES_MAX,
    OUTPUTS_BYTES_MAX,
    LogLine,
    ProgramLeft,
    decode_left,
    encode_left,
)
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from runtime.encoding.codec import DecodeError


def lines_of(count: int, text: str = "") -> list[LogLine]:
    return [LogLine(number, number % 2 == 1, text) for number in range(count)]


@given(outputs=st.binary(max_size=100), count=st.integers(0, 20), before=st.integers(0, 5), text=st.text(max_size=50))
def test_what_was_left_is_read_as_it_was(outputs: bytes, count: int, before: int, text: str) -> None:
    lines = lines_of(count, text)
    content = encode_left(outputs, lines, count + before)
    assert decode_left(content) == ProgramLeft(outputs, tuple(lines), before)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (lines_of(300, "x" * LINE_BYTES_MAX), LINES_BYTES_MAX // (LINE_BYTES_MAX + 11)),
        (lines_of(LINES_MAX + 7), LINES_MAX),
    ],
)
def test_the_last_lines_are_kept_and_the_others_counted(lines: list[LogLine], kept: int) -> None:
    left = decode_left(encode_left(b"", lines, len(lines) + 5))
    assert left.lines == tuple(lines[-kept:])
    assert left.left_out == len(lines) - kept + 5


def test_outputs_have_room_before_lines() -> None:
    lines = lines_of(100, "x" * 100)
    full = encode_left(bytes(OUTPUTS_BYTES_MAX), lines, 100)
    assert len(full) <= CONTENT_BYTES_MAX
    assert decode_left(full).lines == ()
    nearly = encode_left(bytes(OUTPUTS_BYTES_MAX - 250), lines, 100)
    assert len(nearly) <= CONTENT_BYTES_MAX
    assert (len(decode_left(nearly).lines), decode_left(nearly).left_out) == (2, 98)
    with pytest.raises(ValueError, match=f"{OUTPUTS_BYTES_MAX + 1}"):
        encode_left(bytes(OUTPUTS_BYTES_MAX + 1), (), 0)


@given(content=st.binary(max_size=200))
def test_whatever_was_sealed_is_read_or_refused(content: bytes) -> None:
    try:
        left = decode_left(content)
    except DecodeError:
        return
    assert len(left.outputs) <= len(content)
