"""What a program in a container is given to read: a pipe, a file, or nothing at all."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TextIO, cast

import pytest

from gpu_tasks.client.tasks.tunnel import run_program
from gpu_tasks.tunnel.frames import StreamEnd
from gpu_tasks.tunnel.multiplexer import Multiplexer


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
        self.end.set_result(StreamEnd(0, 7, ""))


def given(monkeypatch: pytest.MonkeyPatch, source: TextIO) -> bytes:
    """What the program was given of a standard input before that ended."""
    monkeypatch.setattr(sys, "stdin", source)
    troubles: list[object] = []

    async def run() -> bytes:
        asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
        program = _Cat()
        async with asyncio.timeout(5):
            assert await run_program(cast(Multiplexer, program), ["cat"], is_terminal=False) == 7
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
