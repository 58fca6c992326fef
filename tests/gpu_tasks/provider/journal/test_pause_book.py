"""The file of pause notes: its limits, as the daemon and the commands open it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_tasks.provider.journal.pause_book import PAUSES_FILE, NotedDevice, PauseBook

DEVICE = b"d" * 32
GREATEST = (1 << 128) - 1
"""The greatest balance of the chain."""


@pytest.mark.parametrize("name", ["bond", "misses", "losses", "resumes_at"])
def test_every_balance_of_the_chain_can_be_noted_and_nothing_beyond(tmp_path: Path, name: str) -> None:
    noted = PauseBook(tmp_path).note(DEVICE, **{name: GREATEST})
    assert PauseBook(tmp_path).read() == {DEVICE: noted}
    for number in (GREATEST + 1, -1):
        (tmp_path / PAUSES_FILE).write_text(json.dumps({DEVICE.hex(): {name: number}}))
        assert PauseBook(tmp_path).read() == {}


def test_a_mebibyte_of_notes_is_read_and_no_longer_file(tmp_path: Path) -> None:
    text = json.dumps({DEVICE.hex(): {"bond": 80}}).ljust(1 << 20)
    (tmp_path / PAUSES_FILE).write_text(text)
    assert PauseBook(tmp_path).read() == {DEVICE: NotedDevice(80)}
    (tmp_path / PAUSES_FILE).write_text(text + " ")
    assert PauseBook(tmp_path).read() == {}
