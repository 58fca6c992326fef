"""Notes: their limits, their sealed parts, and their readers."""

import pytest

from gpu_tasks.data.program_left import LINE_BYTES_MAX, LogLine
from gpu_tasks.data.sealing import SealError, SealKey
from gpu_tasks.telemetry.envelope import PAYLOAD_BYTES_MAX, payload_of
from gpu_tasks.telemetry.notes import (
    LINES_MAX,
    NOTE,
    BeatNote,
    LogNote,
    PresenceNote,
    shortened_text,
)
from telemetry_senders import CUSTOMER


def test_a_sealed_note_is_opened_by_its_reader_alone() -> None:
    note = BeatNote(3, 4)
    payload = payload_of(note, CUSTOMER.public)
    assert NOTE.decode(CUSTOMER.open_note(payload)) == note
    for other in (payload[:-1], payload[:-1] + bytes((payload[-1] ^ 1,)), b""):
        with pytest.raises(SealError):
            CUSTOMER.open_note(other)
    with pytest.raises(SealError):
        SealKey.from_seed(b"d" * 32).open_note(payload)


def test_what_is_for_everybody_is_in_the_clear() -> None:
    assert NOTE.decode(payload_of(PresenceNote(is_here=True), None)) == PresenceNote(is_here=True)


def test_a_note_that_is_too_long_is_not_told() -> None:
    line = LogLine(1, is_error=False, text="x" * LINE_BYTES_MAX)
    assert len(payload_of(LogNote((line,) * 8, 0), CUSTOMER.public)) <= PAYLOAD_BYTES_MAX
    with pytest.raises(ValueError, match="at most"):
        payload_of(LogNote((line,) * LINES_MAX, 0), CUSTOMER.public)


def test_a_key_of_small_order_is_no_reader() -> None:
    with pytest.raises(ValueError, match="X25519 key"):
        payload_of(BeatNote(1, 1), bytes(32))


@pytest.mark.parametrize(("text", "most", "left"), [("abc", 3, "abc"), ("abcd", 3, "abc"), ("aé", 2, "a"), ("", 3, "")])
def test_texts_are_cut_between_letters(text: str, most: int, left: str) -> None:
    assert shortened_text(text, most) == left
