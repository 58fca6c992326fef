"""Small files: either the complete new file is on the disk, or the old one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from error_codes import raises_code
from node.durable import is_there, move_durably, read_private, require_folder
from node.errors import BadInputError
from synced_renames import watched_renames
from wallet import private_file


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path) -> None:
    with watched_renames() as renames:
        private_file.replace(tmp_path / "sign-state", b"what a key has signed")
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


def test_a_file_that_others_can_read_is_refused_as_input_of_the_node(tmp_path: Path) -> None:
    path = tmp_path / "sign-state"
    path.write_bytes(b"what a key has signed")
    path.chmod(0o640)
    with raises_code(BadInputError, "file_not_private"):
        read_private(path, 1_000)
    path.chmod(0o600)
    assert read_private(path, 1_000) == b"what a key has signed"
    with raises_code(BadInputError, "file_too_large"):
        read_private(path, 5)
