"""Private files: complete or absent, and unreadable for others, with the folders above them."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from synced_renames import watched_renames
from wallet import private_file
from wallet.errors import KeyFileError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_file_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    private_file.replace(path, b"first")
    private_file.replace(path, b"second")
    assert path.read_bytes() == b"second"
    assert [mode(each) for each in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]
    assert list(path.parent.iterdir()) == [path]


def test_a_crash_before_the_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    private_file.replace(path, b"first")
    with monkeypatch.context() as crash:
        crash.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            private_file.replace(path, b"second")
    assert path.read_bytes() == b"first"
    private_file.replace(path, b"third")  # remains of the crash do not matter
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file.json"
    private_file.replace(path, b"first")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as failed:
        private_file.replace(path, b"second")
    assert (failed.value.errno, failed.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b"first"


@pytest.mark.parametrize("write", [private_file.replace, private_file.write_new])
def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, write: Callable[[Path, bytes], None]) -> None:
    with watched_renames() as renames:
        write(tmp_path / "file", b"secret")
    assert len(renames.done) == 1
    assert renames.unsynced == []
    assert renames.unsynced_folders == []


@pytest.mark.parametrize("step", ["open", "fsync"])
def test_a_new_file_that_cannot_be_written_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, step, full)
        with pytest.raises(KeyFileError, match=r"file\.json"):
            private_file.write_new(tmp_path / "file.json", b"secret")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_shown_for_a_taken_name_and_a_disk_without_hard_links_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    (tmp_path / "link.json").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        private_file.write_new(tmp_path / "link.json", b"secret", lambda: shown.append("phrase"))

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    private_file.write_new(tmp_path / "file.json", b"secret", lambda: shown.append("phrase"))
    assert ((tmp_path / "file.json").read_bytes(), shown) == (b"secret", ["phrase"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.json", "link.json"]


def test_a_pipe_is_no_private_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError):
        private_file.read_private(tmp_path / "pipe", 10)


def test_what_is_opened_by_its_owner_is_its_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with open(path, "a", opener=private_file.own_opener) as file:
        file.write("x")
    assert mode(path) == 0o600


@pytest.mark.parametrize(("before", "is_closed"), [(0o755, True), (0o700, True), (0o750, True), (0o1777, False)])
def test_only_a_folder_of_ours_is_closed(tmp_path: Path, before: int, is_closed: bool) -> None:
    """A user who names /tmp by mistake must not close it for everyone else."""
    folder = tmp_path / "base"
    folder.mkdir()
    folder.chmod(before)
    assert private_file.close_folder(folder) is is_closed
    assert mode(folder) == (0o700 if is_closed else before)


def test_another_users_folder_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not private_file.close_folder(tmp_path)
    assert mode(tmp_path) == 0o755
