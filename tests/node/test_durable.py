"""Small files: whole on the disk, or the old one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node.durable import move_durably, read_private, write_durably
from synced_renames import watched_renames


def test_a_disk_that_takes_little_at_a_time_still_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
    write_durably(tmp_path / "sign-state", b"what a key has signed" * 10)
    assert read_private(tmp_path / "sign-state", 1_000) == b"what a key has signed" * 10


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, room = os.write, [10]

    def almost_full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(descriptor, bytes(data[: room[0]]))
        room[0] -= written
        return written

    write_durably(tmp_path / "sign-state", b"old")
    monkeypatch.setattr(os, "write", almost_full)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "sign-state", b"what a key has signed")
    assert read_private(tmp_path / "sign-state", 1_000) == b"old"


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path) -> None:
    with watched_renames() as renames:
        write_durably(tmp_path / "sign-state", b"what a key has signed")
        (tmp_path / "else").mkdir()
        move_durably(tmp_path / "sign-state", tmp_path / "else" / "moved")
    assert len(renames.done) == 2
    assert renames.unsynced == []
    assert renames.unsynced_folders == []
