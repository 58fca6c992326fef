"""Copies at a provider leave its disk, its threads and its event loop free for others."""

import asyncio
import contextlib
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
from gpu_tasks.tunnel.frames import CopyIn, CopyOut, InputEnd
from gpu_tasks.tunnel.tunnel import TunnelStream
from tunnel_ends import framed, stream_ends

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


async def hand_over(stream: TunnelStream, archive: bytes) -> None:
    await stream.write(archive)
    await stream.end_input()


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

    room = Room()
    async with stream_ends() as (customer, provider):
        await hand_over(customer, folders(2))
        monkeypatch.setattr(shutil, "rmtree", watched)
        await serve_stream(room, CopySpool(tmp_path), provider, INTO)  # type: ignore[arg-type]
    assert room.copied == 1
    assert threading.main_thread() not in removing
    assert len(removing) == 1
    assert not list(tmp_path.iterdir())


async def test_a_container_has_one_copy_under_way(tmp_path: Path) -> None:
    spool, room, other = CopySpool(tmp_path), Room(), Room()
    async with contextlib.AsyncExitStack() as exits:
        ends = [await exits.enter_async_context(stream_ends()) for _ in range(6)]
        copies = [
            asyncio.create_task(serve_stream(each, spool, provider, INTO))  # type: ignore[arg-type]
            for each, (_, provider) in zip([room] * 5 + [other], ends, strict=True)
        ]
        await hand_over(ends[5][0], folders(1))
        await asyncio.wait_for(copies[5], 5)
        assert other.copied == 1
        for customer, _ in ends[:5]:
            await customer.finish()
        await asyncio.wait(copies)
        assert room.copied == 0


@pytest.mark.parametrize("wanted", [INTO, OUT_OF])
async def test_a_copy_that_stands_still_gives_its_place_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Any
) -> None:
    monkeypatch.setattr(streams, "COPY_SILENCE_SECONDS", 0.05)
    async with stream_ends() as (customer, provider):
        await serve_stream(Room(), CopySpool(tmp_path), provider, wanted)  # type: ignore[arg-type]
        assert (await customer.end).problem == streams.STOOD_STILL
        assert framed(InputEnd()) not in customer._received_bytes
    assert not list(tmp_path.iterdir())


async def test_who_has_gone_while_it_waited_for_a_place_is_not_served(tmp_path: Path) -> None:
    room, spool = Room(), CopySpool(tmp_path)
    async with stream_ends() as (customer, provider):
        async with spool.place(room, provider):  # type: ignore[arg-type]  # a room is told apart by itself
            serving_it = asyncio.create_task(serve_stream(room, spool, provider, OUT_OF))  # type: ignore[arg-type]
            await customer.finish()
            await provider.end
        await asyncio.wait_for(serving_it, 20)
    assert room.copied_out == 0


def test_a_copy_has_so_many_bytes_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = folders(1)

    async def main(room: Room, most: int) -> str:
        monkeypatch.setattr(frames, "COPY_BYTES_MAX", most)
        async with stream_ends() as (customer, provider):
            await hand_over(customer, archive)
            await serve_stream(room, CopySpool(tmp_path), provider, INTO)  # type: ignore[arg-type]  # it copies in
            return (await customer.end).problem

    room = Room()
    assert "has at most" in asyncio.run(main(room, len(archive) - 1))
    assert room.copied == 0
    assert asyncio.run(main(room, len(archive))) == ""
    assert room.copied == 1
