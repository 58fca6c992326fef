"""`kill -9` between each two writes of a roll call's rows, the book of images and pause notes, and the next process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cut_writes
from cut_writes import BOOK, CHAIN, CHALLENGE, CLAIM, LATER, ONE, OTHER
from gpu_tasks.provider.duties.kept_rows import KeptRows
from gpu_tasks.provider.execution.containers.images import BroughtImage, ImageBook, read_book
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseBook, PauseCause
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from killed_commits import Deeds
from killed_commits import lives as commit_lives

pytestmark = pytest.mark.nightly

POINTS_LEAST = 20
BOOKS: tuple[dict[str, BroughtImage], ...] = (
    {},
    {ONE.reference: ONE},
    {ONE.reference: ONE, OTHER.reference: OTHER},
    {ONE.reference: ONE, LATER.reference: LATER},
    {LATER.reference: LATER},
)


def lives(deeds: str, base: Path) -> Iterator[tuple[Path, int]]:
    """Yield each killed process's folder with the number of its completed deeds. The last one completed all."""
    done = subprocess.run([sys.executable, cut_writes.__file__, deeds, str(base)], check=False, timeout=300)
    assert done.returncode == 0
    count = sum(path.suffix == ".told" for path in base.iterdir())
    assert count >= POINTS_LEAST, "each write is a point"
    for place in range(count):
        yield base / str(place), len((base / f"{place}.told").read_bytes())


def test_rows_are_whole_or_none_what_was_sent_is_known_and_nothing_stays(tmp_path: Path) -> None:
    seen = set()
    for folder, ended in lives("rows", tmp_path):
        database = open_journal(folder / JOURNAL_FILE)
        kept = KeptRows(folder / "roll-calls", database)
        found = kept.load(CLAIM, CHALLENGE.seed)
        assert found in (None, CHAIN)
        assert found == CHAIN or ended != 1, "what was kept is lost"
        was_sent = kept.was_sent(CLAIM)
        assert found == CHAIN or not was_sent, "what was stated is lost"
        seen.add((found is not None, was_sent, ended))
        kept.keep(CLAIM, CHAIN)
        assert kept.load(CLAIM, CHALLENGE.seed) == CHAIN
        kept.forget(CLAIM)
        assert kept.claims() == []
        database.close()
    whole = {(True, False, 1), (True, True, 2), (True, False, 2)}
    assert whole | {(False, False, 0), (True, False, 0), (False, False, 3)} <= seen


def test_a_book_says_what_it_said_before_or_after_a_write(tmp_path: Path) -> None:
    for folder, ended in lives("book", tmp_path):
        found = read_book(folder / BOOK)
        assert found in BOOKS[ended : ended + 2], "an entry is lost, or one is from nowhere"
        book, more = ImageBook(folder / BOOK), BroughtImage("sha256:3", 1, 1.0)
        book.note(more)
        assert read_book(folder / BOOK) == found | {more.reference: more}
        assert [path.name for path in folder.iterdir()] == [BOOK], "no draft stays"


def pauses(folder: Path) -> Deeds:
    """Let a device miss and another be refuted, and resume the first."""
    kept = PauseBook(open_journal(folder / JOURNAL_FILE))
    yield lambda: kept.note(b"d" * 32, cause=PauseCause.MISSED, is_paused=True)
    yield lambda: kept.note(b"e" * 32, cause=PauseCause.REFUTED, is_paused=True)
    yield lambda: kept.note(b"d" * 32, cause=None, is_paused=False)


def test_why_devices_are_paused_is_what_it_was_before_or_after_a_note(tmp_path: Path) -> None:
    missed, refuted = (NotedDevice(cause=cause, is_paused=True) for cause in (PauseCause.MISSED, PauseCause.REFUTED))
    states: tuple[dict[bytes, NotedDevice], ...] = (
        {},
        {b"d" * 32: missed},
        {b"d" * 32: missed, b"e" * 32: refuted},
        {b"d" * 32: NotedDevice(), b"e" * 32: refuted},
    )
    for folder, ended in commit_lives(pauses, tmp_path):
        with open_journal(folder / JOURNAL_FILE) as database:
            found = PauseBook(database).read()
            assert found in states[ended : ended + 2], "a note is lost, or one is from nowhere"
            PauseBook(database).note(b"f" * 32, misses=1)
            assert PauseBook(database).read() == {**found, b"f" * 32: NotedDevice(misses=1)}
