"""Files with a provider's promises: each is on the disk before it takes its name, and its name after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cut_writes import BOOK, CHAIN, CLAIM, ONE
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.duties.kept_rows import KeptRows
from gpu_tasks.provider.execution.containers.images import ImageBook
from gpu_tasks.provider.journal import journal as journal_module
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook, PauseCause
from gpu_tasks.provider.journal.records import RaceEntry
from synced_renames import watched_renames


def compact(folder: Path) -> None:
    """Open a journal that has grown long: it is rewritten."""
    Journal(folder / "journal").close()


def blob(folder: Path) -> None:
    BlobStore(folder).put(b"blob")


def rows(folder: Path) -> None:
    KeptRows(folder / "rows").keep(CLAIM, CHAIN)


def pauses(folder: Path) -> None:
    PauseBook(folder).note(b"d" * 32, cause=PauseCause.MISSED, is_paused=True)


def images(folder: Path) -> None:
    ImageBook(folder / BOOK).note(ONE)


@pytest.mark.parametrize("write", [compact, blob, rows, pauses, images])
def test_a_file_is_on_the_disk_before_it_takes_its_name(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal")
    journal.races.put((b"u" * 32, 1), RaceEntry(b"d" * 32))
    journal.close()
    monkeypatch.setattr(journal_module, "COMPACT_ABOVE_BYTES", 0)
    with watched_renames() as renames:
        write(tmp_path)
    assert len(renames.done) == 1
    assert renames.unsynced == []
    assert renames.unsynced_folders == []
