"""Tunnels: a program's input, permitted archives of providers, and the end of forwarding."""

import asyncio
import io
import os
import sys
import tarfile
from pathlib import Path
from typing import TextIO, cast

import pytest
from click.testing import CliRunner

from error_codes import raises_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import shell
from gpu_tasks.client.tasks import tunnel
from gpu_tasks.client.tasks.tunnel import copy_out, run_program
from gpu_tasks.tunnel.frames import StreamEnd, TunnelAsk
from gpu_tasks.tunnel.tunnel import Tunnel, TunnelError, TunnelStream
from tunnel_ends import both_ends

# What a program in a container is given to read: a pipe, a file, or nothing at all.


class _Cat:
    """A program that ends where its input does."""

    def __init__(self) -> None:
        self.was_given = b""
        self.end: asyncio.Future[StreamEnd] = asyncio.get_running_loop().create_future()

    async def open(self, _wanted: object) -> "_Cat":
        return self

    async def read(self) -> None:
        await self.end

    async def write(self, data: bytes) -> None:
        self.was_given += data

    async def end_input(self) -> None:
        self.end.set_result(StreamEnd(7, ""))


def given(monkeypatch: pytest.MonkeyPatch, source: TextIO) -> bytes:
    """Return the bytes that the program received from a standard input before its end."""
    monkeypatch.setattr(sys, "stdin", source)
    troubles: list[object] = []

    async def run() -> bytes:
        asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
        program = _Cat()
        async with asyncio.timeout(5):
            assert await run_program(cast(Tunnel, program), ["cat"], is_terminal=False) == 7
        return program.was_given

    found = asyncio.run(run())
    assert not troubles
    return found


def test_nothing_to_read_ends_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open(encoding="utf-8") as nothing:
        assert given(monkeypatch, nothing) == b""


def test_a_file_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"line\n" * 20_000)
    with path.open(encoding="utf-8") as file:
        assert given(monkeypatch, file) == b"line\n" * 20_000


def test_a_pipe_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"from a pipe")
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        assert given(monkeypatch, pipe) == b"from a pipe"


# What `ogpu cp` makes of archives that no honest provider sends.


END = bytes(2 * tarfile.BLOCKSIZE)
TERABYTE = 1 << 40


def fetched(archive: bytes, target: Path) -> list[str]:
    """Copy an archive from a provider to the customer, and return the result of `copy_out`."""

    async def serve(stream: TunnelStream, _ask: TunnelAsk) -> None:
        await stream.write(archive)
        await stream.end_input()

    async def main() -> list[str]:
        async with both_ends(serve) as ends:
            return await copy_out(ends.customer, "workspace", target)

    return asyncio.run(main())


def entry(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", size: int | None = None) -> bytes:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, len(content) if size is None else size
    return made.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)


def record(key: str, value: str) -> bytes:
    text = f" {key}={value}\n"
    length = next(length for length in range(len(text), len(text) + 9) if len(f"{length}{text}") == length)
    return f"{length}{text}".encode()


def sparse() -> bytes:
    """A few hundred bytes that are a terabyte to who knows sparse files."""
    fields = (("major", "0"), ("minor", "1"), ("map", f"{TERABYTE},0"), ("size", str(TERABYTE)))
    return entry("x", tarfile.XHDTYPE, b"".join(record(f"GNU.sparse.{key}", value) for key, value in fields))


def test_an_archive_of_holes_fills_no_disk(tmp_path: Path) -> None:
    assert fetched(sparse() + entry("hole") + END, tmp_path) == ["hole"]
    assert (tmp_path / "hole").stat().st_size == 0


@pytest.mark.parametrize(
    "archive",
    [
        entry("x", tarfile.XHDTYPE, b"1" * 5_000),
        entry("x", tarfile.GNUTYPE_LONGNAME, b"n" * 200),
        entry("x", tarfile.GNUTYPE_SPARSE),
        entry("x", tarfile.XGLTYPE, record("path", "all")),
        entry("x", tarfile.SYMTYPE),
        entry("x", tarfile.FIFOTYPE),
        entry("x", tarfile.DIRTYPE, size=512),
        entry("x", content=b"a", size=TERABYTE >> 8),
        entry("x")[:300],
        b"?" * 512,
    ],
)
def test_what_is_no_plain_archive_is_refused_at_once(tmp_path: Path, archive: bytes) -> None:
    with pytest.raises(TunnelError, match=r"not a plain file|not send an archive|breaks off"):
        fetched(archive + entry("x"), tmp_path / "back")


def test_headers_before_headers_cost_nothing(tmp_path: Path) -> None:
    assert fetched(entry("x", tarfile.XHDTYPE) * 5_000 + entry("file", content=b"words") + END, tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"words"


def test_names_of_any_length_and_letters_arrive(tmp_path: Path) -> None:
    sent = io.BytesIO()
    names = ["plain", "é" * 40, "deep/" + "n" * 120]
    with tarfile.open(fileobj=sent, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            made = tarfile.TarInfo(name)
            made.size = len(name)
            archive.addfile(made, io.BytesIO(name.encode()[: made.size]))
    assert fetched(sent.getvalue(), tmp_path) == names
    assert (tmp_path / "deep" / ("n" * 120)).read_bytes() == b"deep/" + b"n" * 120


def test_folders_are_counted_those_above_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "FILES_MAX", 12)
    with raises_code(TunnelError, "too_many_files"):
        fetched(b"".join(entry(f"{number}/a/b/c", tarfile.DIRTYPE) for number in range(4)) + END, tmp_path)
    assert fetched(b"".join(entry(f"a/{number}") for number in range(11)) + END, tmp_path / "back")


# `ogpu port-forward` ends with Ctrl-C, as its help says, and that is no failure.


def test_ctrl_c_is_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def until_then(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shell, "_enter_container", until_then)
    answer = CliRunner().invoke(main, ["port-forward", "0x" + "12" * 32, "8080:80", "--key", "//Bob"])
    assert (answer.exit_code, answer.output) == (0, "")
