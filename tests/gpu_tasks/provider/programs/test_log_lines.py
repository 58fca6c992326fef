"""Live log lines of a program: all of a quiet one, the newest of a flood, never more than a note holds."""

import asyncio
from collections.abc import Sequence

import pytest

from gpu_tasks.data.program_left import LINE_BYTES_MAX, LogLine
from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.programs import results as module
from gpu_tasks.provider.programs.results import BEHIND_LINES_MAX, log_lines, tell_lines
from gpu_tasks.provider.watching.broadcast import TaskWatch
from gpu_tasks.telemetry.notes import LINES_MAX, NOTE, NOTE_BYTES_MAX, LogNote

TASK = b"t" * 32


class Listener(TaskWatch):
    """Keeps its messages."""

    def __init__(self) -> None:
        self.notes: list[LogNote] = []

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        assert task == TASK
        self.notes.append(LogNote(tuple(lines), left_out))

    @property
    def texts(self) -> list[str]:
        return [line.text for note in self.notes for line in note.lines]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_NOTES", 0.0)


def told(*, bytes_max: int = 1 << 20, pieces: Sequence[bytes]) -> Listener:
    """Return the messages about a program that writes these pieces, and ends."""
    listener = Listener()

    async def scene() -> None:
        log = ContainerLog(bytes_max)
        telling = asyncio.create_task(tell_lines(log, listener, TASK))
        for piece in pieces:
            log.feed("out", piece)
            for _ in range(3):
                await asyncio.sleep(0)
        log.close()
        await asyncio.wait_for(telling, 10)

    asyncio.run(scene())
    return listener


def test_all_lines_of_a_quiet_program_are_told_once_in_their_order() -> None:
    heard = told(pieces=[b"one\ntwo\n", b"", b"three\nand a rest"])
    assert heard.texts == ["one", "two", "three", "and a rest"]
    assert [note.left_out for note in heard.notes] == [0] * len(heard.notes)


def test_notes_hold_a_bounded_number_of_lines() -> None:
    heard = told(pieces=[b"".join(b"%d\n" % number for number in range(BEHIND_LINES_MAX))])
    assert heard.texts == [str(number) for number in range(BEHIND_LINES_MAX)]
    assert {len(note.lines) for note in heard.notes} == {LINES_MAX}


def test_of_a_flood_the_newest_lines_are_told_and_the_others_counted() -> None:
    heard = told(pieces=[b"first\n", b"".join(b"%d\n" % number for number in range(5_000))])
    assert heard.texts == ["first", *map(str, range(5_000 - BEHIND_LINES_MAX, 5_000))]
    assert sum(note.left_out for note in heard.notes) == 5_000 - BEHIND_LINES_MAX


def test_lines_that_are_kept_no_more_are_counted() -> None:
    heard = told(bytes_max=1_300, pieces=[b"".join(b"%d\n" % number for number in range(100))])
    assert len(heard.texts) + sum(note.left_out for note in heard.notes) == 100
    assert heard.texts[-1] == "99"


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}"])
def test_the_longest_lines_fit_into_notes(letter: str) -> None:
    heard = told(pieces=[(letter * 4_000 + "\n").encode() * 30])
    assert len(heard.texts) >= 30
    for note in heard.notes:
        assert len(NOTE.encode(note)) <= NOTE_BYTES_MAX
        assert all(len(line.text.encode()) <= LINE_BYTES_MAX for line in note.lines)


def test_lines_have_their_moment_and_their_stream() -> None:
    log = ContainerLog(1 << 20, iter((0.0, 1.5, 2.25)).__next__)
    log.feed("out", b"a\n")
    log.feed("err", b"b\n")
    assert log_lines(log.lines, 1_000) == (
        LogLine(2_500, is_error=False, text="a"),
        LogLine(3_250, is_error=True, text="b"),
    )
