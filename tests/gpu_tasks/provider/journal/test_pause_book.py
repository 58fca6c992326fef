"""The pause notes: their limits, as the daemon and the commands read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseBook, pause_notes
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, JournalError, open_journal

DEVICE = b"d" * 32
GREATEST = (1 << 128) - 1
"""The greatest balance of the chain."""


@pytest.mark.parametrize("name", ["bond", "misses", "losses", "resumes_at"])
def test_every_balance_of_the_chain_can_be_noted_and_nothing_beyond(tmp_path: Path, name: str) -> None:
    assert pause_notes(tmp_path) == {}
    with open_journal(tmp_path / JOURNAL_FILE) as database:
        noted = PauseBook(database).note(DEVICE, **{name: GREATEST})
        assert PauseBook(database).read() == pause_notes(tmp_path) == {DEVICE: noted}
        for number in (GREATEST + 1, -1):
            database.execute("UPDATE pauses SET note = ?", json.dumps({name: number}))
            with raises_code(JournalError, "journal_damaged"):
                pause_notes(tmp_path)


def test_a_note_without_a_change_is_not_written(tmp_path: Path) -> None:
    with open_journal(tmp_path / JOURNAL_FILE) as database:
        PauseBook(database).note(DEVICE, bond=80)
        count = database.rows("SELECT total_changes()")
        assert PauseBook(database).note(DEVICE, bond=80) == NotedDevice(80)
        PauseBook(database).forget_others([DEVICE])
        assert database.rows("SELECT total_changes()") == count
