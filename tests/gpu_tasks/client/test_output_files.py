"""The paths of result files, and the spendable money of an account."""

import asyncio
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from error_codes import raises_code
from gpu_tasks.client.offers.outlook import FundsError, require, spendable
from gpu_tasks.client.output_files import OutputFile, OutputFileError
from synced_renames import watched_renames

# Where results are written: never over a file unasked, never through a link, never out of the folder.


def test_a_new_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    out = tmp_path / "tile"
    assert OutputFile(out).write("0x12.bin", b"bytes") == out
    assert out.read_bytes() == b"bytes"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_in_a_folder_the_name_is_the_id_s(tmp_path: Path) -> None:
    assert OutputFile(tmp_path).write("0x12.bin", b"bytes") == tmp_path / "0x12.bin"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0"])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "below").mkdir()
    with raises_code(OutputFileError, "invalid_file_name"):
        OutputFile(tmp_path / "below", is_forced=True).write(name, b"bytes")
    assert [path.name for path in tmp_path.rglob("*")] == ["below"]


def test_what_is_there_stays_unless_it_is_forced(tmp_path: Path) -> None:
    out = tmp_path / "tile"
    out.write_bytes(b"mine")
    with raises_code(OutputFileError, "file_exists"):
        OutputFile(out).place("x")
    with raises_code(OutputFileError, "file_exists"):
        OutputFile(out).write("x", b"bytes")
    assert out.read_bytes() == b"mine"
    OutputFile(out, is_forced=True).write("x", b"bytes")
    assert (out.read_bytes(), list(tmp_path.iterdir())) == (b"bytes", [out])


def test_a_file_that_comes_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "tile"
    out.write_bytes(b"mine")
    monkeypatch.setattr(OutputFile, "_require_writable", lambda *_: None)  # it was not there when it was looked for
    with raises_code(OutputFileError, "file_exists"):
        OutputFile(out).write("x", b"bytes")
    assert out.read_bytes() == b"mine"


@pytest.mark.parametrize("is_forced", [False, True])
def test_nothing_goes_through_a_link_or_into_a_pipe(tmp_path: Path, *, is_forced: bool) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "pipe"):
        with raises_code(OutputFileError, "not_a_file" if is_forced else "file_exists"):
            OutputFile(tmp_path / name, is_forced=is_forced).write("x", b"bytes")
    assert target.read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("is_forced", [False, True])
def test_what_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_forced: bool
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises_code(OutputFileError, "file_unwritable"):
        OutputFile(tmp_path / "tile", is_forced=is_forced).write("x", b"bytes")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_forced", [False, True])
def test_the_bytes_are_on_the_disk_before_the_file_has_its_name(tmp_path: Path, *, is_forced: bool) -> None:
    with watched_renames() as renames:
        OutputFile(tmp_path / "tile", is_forced=is_forced).write("x", b"bytes")
    assert (renames.done, renames.unsynced) == ([tmp_path / "tile"], [])


def test_a_killed_writer_leaves_nothing_under_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, sync, had_name = tmp_path / "tile", os.fsync, list[bool]()

    def synced(descriptor: int) -> None:
        had_name.append(out.exists())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    OutputFile(out).write("x", b"bytes")
    assert had_name == [False]
    assert list(tmp_path.iterdir()) == [out]


def test_without_hard_links_a_new_file_is_written_and_an_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    monkeypatch.setattr(OutputFile, "_require_writable", lambda *_: None)
    out = tmp_path / "tile"
    OutputFile(out).write("x", b"bytes")
    with raises_code(OutputFileError, "file_exists"):
        OutputFile(out).write("x", b"other")
    assert (out.read_bytes(), list(tmp_path.iterdir())) == (b"bytes", [out])


def test_folders_are_not_made(tmp_path: Path) -> None:
    with raises_code(OutputFileError, "folder_missing"):
        OutputFile(tmp_path / "a" / "tile").place("x")


@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("missing", [os.W_OK, os.X_OK])
def test_a_folder_that_takes_no_file_is_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, *, is_forced: bool
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, wanted: not wanted & missing)
    with raises_code(OutputFileError, "file_unwritable"):
        OutputFile(tmp_path / "tile", is_forced=is_forced).place("x")


# What an account can spend, and the refusal where that is too little.


@pytest.mark.parametrize(
    ("free", "reserved", "frozen", "left"), [(9, 0, 0, 9), (9, 0, 4, 5), (9, 3, 4, 8), (9, 5, 4, 9), (2, 0, 4, 0)]
)
def test_what_is_frozen_is_covered_by_what_is_reserved_first(free: int, reserved: int, frozen: int, left: int) -> None:
    async def read(*_: Any) -> Any:
        return SimpleNamespace(data=SimpleNamespace(free=free, reserved=reserved, frozen=frozen))

    assert asyncio.run(spendable(SimpleNamespace(read=read), bytes(32))) == left  # type: ignore[arg-type]


def test_all_that_there_is_may_be_spent_and_no_grain_more() -> None:
    require(5, 5, "this")
    with pytest.raises(FundsError, match=r"can spend 0\.00000005 oGPU, and this takes 0\.00000006"):
        require(5, 6, "this")
