"""Copies at a provider leave its disk, its threads and its event loop free for others."""

import asyncio
import io
import shutil
import tarfile
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from error_codes import raises_code
from gpu_tasks.provider.tunnel import copies as copying
from gpu_tasks.provider.tunnel import streams
from gpu_tasks.provider.tunnel.access import AccessError
from gpu_tasks.provider.tunnel.copies import unpack
from gpu_tasks.provider.tunnel.streams import CopySpool, serve_stream
from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.frames import DATA_BYTES_MAX, CopyIn, CopyOut, StreamBytes, StreamEnd, StreamInputEnd
from gpu_tasks.tunnel.multiplexer import TunnelStream

INTO, OUT_OF = CopyIn("workspace"), CopyOut("workspace")


class Room:
    """A container that accepts all files."""

    def __init__(self) -> None:
        self.copied = 0
        self.copied_out = 0

    async def copy_in(self, _path: str, _folder: Path) -> None:
        self.copied += 1

    async def copy_out(self, _path: str, sink: BinaryIO) -> None:
        self.copied_out += 1
        sink.write(bytes(1 << 20))


class Wire:
    """A customer's stream at the provider."""

    def __init__(self, number: int = 1) -> None:
        self.said: list[Any] = []
        self.stream = TunnelStream(number, self._send)

    async def _send(self, frame: Any) -> None:
        self.said.append(frame)

    def hand_over(self, archive: bytes) -> None:
        for at in range(0, len(archive), DATA_BYTES_MAX):
            self.stream.take(StreamBytes(1, 0, archive[at : at + DATA_BYTES_MAX]))
        self.stream.input_ended()

    @property
    def problem(self) -> str:
        (end,) = (frame for frame in self.said if isinstance(frame, StreamEnd))
        return str(end.problem)


def folders(count: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(count):
            entry = tarfile.TarInfo(f"{number}/a/b/c")
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
    return packed.getvalue()


def test_folders_above_folders_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "FILES_MAX", 12)
    with raises_code(AccessError, "too_many_files"):
        unpack(io.BytesIO(folders(4)), tmp_path)
    assert len(list(tmp_path.rglob("*"))) == 12


async def test_what_was_unpacked_is_taken_away_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal of 10,000 folders takes seconds, in which the daemon has duties."""
    removing: list[threading.Thread] = []
    removed = shutil.rmtree

    def watched(folder: Path) -> None:
        removing.append(threading.current_thread())
        removed(folder)

    wire, room = Wire(), Room()
    wire.hand_over(folders(2))
    monkeypatch.setattr(shutil, "rmtree", watched)
    await serve_stream(room, CopySpool(tmp_path), wire.stream, INTO)  # type: ignore[arg-type]
    assert room.copied == 1
    assert threading.main_thread() not in removing
    assert len(removing) == 1
    assert not list(tmp_path.iterdir())


async def test_a_container_has_one_copy_under_way(tmp_path: Path) -> None:
    spool, room, other = CopySpool(tmp_path), Room(), Room()
    wires = [Wire(number) for number in range(6)]
    rooms = [room] * 5 + [other]
    copies = [
        asyncio.create_task(serve_stream(each, spool, wire.stream, INTO))  # type: ignore[arg-type]
        for each, wire in zip(rooms, wires, strict=True)
    ]
    wires[5].hand_over(folders(1))
    await asyncio.wait_for(copies[5], 5)
    assert other.copied == 1
    for wire in wires[:5]:
        wire.stream.ended(StreamEnd(1, 0, ""))
    await asyncio.wait(copies)
    assert room.copied == 0


@pytest.mark.parametrize("wanted", [INTO, OUT_OF])
async def test_a_copy_that_stands_still_gives_its_place_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Any
) -> None:
    monkeypatch.setattr(streams, "COPY_SILENCE_SECONDS", 0.05)
    wire = Wire()
    await serve_stream(Room(), CopySpool(tmp_path), wire.stream, wanted)  # type: ignore[arg-type]
    assert wire.problem == streams.STOOD_STILL
    assert not any(isinstance(frame, StreamInputEnd) for frame in wire.said)
    assert not list(tmp_path.iterdir())


async def test_who_has_gone_while_it_waited_for_a_place_is_not_served(tmp_path: Path) -> None:
    room, spool, wire = Room(), CopySpool(tmp_path), Wire()
    async with spool.place(room, Wire(2).stream):  # type: ignore[arg-type]  # a room is told apart by itself
        serving_it = asyncio.create_task(serve_stream(room, spool, wire.stream, OUT_OF))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        wire.stream.ended(StreamEnd(1, 0, "the other side hung up"))
    await asyncio.wait_for(serving_it, 20)
    assert room.copied_out == 0


def test_a_copy_has_so_many_bytes_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = folders(1)

    async def main(room: Room, most: int) -> str:
        monkeypatch.setattr(frames, "COPY_BYTES_MAX", most)
        wire = Wire()
        wire.hand_over(archive)
        await serve_stream(room, CopySpool(tmp_path), wire.stream, INTO)  # type: ignore[arg-type]  # it copies in
        return wire.problem

    room = Room()
    assert "has at most" in asyncio.run(main(room, len(archive) - 1))
    assert room.copied == 0
    assert asyncio.run(main(room, len(archive))) == ""
    assert room.copied == 1
