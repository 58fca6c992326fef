"""Small files: either the complete new file is on the disk, or the old one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node.durable import is_there, move_durably, read_private, require_folder, write_durably
from node.errors import BadInputError
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
    with pytest.raises(OSError, match="No space") as failed:
        write_durably(tmp_path / "sign-state", b"what a key has signed")
    assert (failed.value.errno, failed.value.filename) == (28, str(tmp_path / "sign-state"))
    assert read_private(tmp_path / "sign-state", 1_000) == b"old"


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path) -> None:
    with watched_renames() as renames:
        write_durably(tmp_path / "sign-state", b"what a key has signed")
        (tmp_path / "else").mkdir()
        move_durably(tmp_path / "sign-state", tmp_path / "else" / "moved")
    assert len(renames.done) == 2
    assert renames.unsynced == []
    assert renames.unsynced_folders == []


def test_a_folder_of_the_node_is_its_alone_and_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "chains" / "keystore"
    for _ in range(2):
        require_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    for missing in (os.W_OK, os.X_OK):
        with monkeypatch.context() as rights:
            rights.setattr(os, "access", lambda _path, wanted, missing=missing: not wanted & missing)
            with pytest.raises(BadInputError, match="keystore"):
                require_folder(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="Not a directory"):
        require_folder(tmp_path / "file" / "below")


def test_a_path_is_there_or_not_or_nobody_can_know(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert [is_there(tmp_path / name) for name in ("file", "other")] == [True, False]
    with pytest.raises(NotADirectoryError):
        is_there(tmp_path / "file" / "below")
