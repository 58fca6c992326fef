"""Files with a provider's promises: each is on the disk before it takes its name, and its name after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cut_writes import BOOK, CHAIN, CLAIM, ONE
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.duties.kept_rows import KeptRows
from gpu_tasks.provider.execution.containers.images import ImageBook
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from synced_renames import watched_renames


def blob(folder: Path) -> None:
    BlobStore(folder).put(b"blob")


def rows(folder: Path) -> None:
    with open_journal(folder / JOURNAL_FILE) as database:
        KeptRows(folder / "rows", database).keep(CLAIM, CHAIN)


def images(folder: Path) -> None:
    ImageBook(folder / BOOK).note(ONE)


@pytest.mark.parametrize("write", [blob, rows, images])
def test_a_file_is_on_the_disk_before_it_takes_its_name(write: Callable[[Path], None], tmp_path: Path) -> None:
    with watched_renames() as renames:
        write(tmp_path)
    assert len(renames.done) == 1
    assert renames.unsynced == []
    assert renames.unsynced_folders == []
