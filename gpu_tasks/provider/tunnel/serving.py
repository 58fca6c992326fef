"""One stream of a tunnel at the provider: a program, a port, a copy, secrets.

Always: a program or a connection ends with its stream, and its stream with it; what goes wrong is said in a sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gpu_tasks.provider.tunnel.access import AccessError, ContainerAccess, Talk
from gpu_tasks.provider.tunnel.copying import target_of, unpack
from gpu_tasks.tunnel.frames import (
    COMMAND_BYTES_MAX,
    COPY_BYTES_MAX,
    HANDED,
    HANDED_BYTES_MAX,
    SECRETS_BYTES_MAX,
    TERMINAL_MAX,
    CopyIn,
    CopyOut,
    ReachPort,
    RunProgram,
    TakeSecrets,
)
from gpu_tasks.tunnel.multiplexer import StreamPurpose, TunnelError, TunnelStream
from runtime.encoding.codec import DecodeError

_PIECE = 1 << 20
COPIES_MAX = 4
"""At once, of all tunnels: each may have a quarter of a gibibyte on the daemon's disk."""
KEPT_IN_MEMORY = 1 << 20
"""Of a copy; the rest goes through a file."""


@dataclass(frozen=True, slots=True)
class CopySpool:
    """Where copies under way lie on the daemon's disk; so many at once."""

    folder: Path
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COPIES_MAX))


async def serve_stream(room: ContainerAccess, spool: CopySpool, stream: TunnelStream, wanted: StreamPurpose) -> None:
    """Do what a stream asks for, and end it."""
    try:
        code = await _served(room, spool, stream, wanted)
        await stream.finish(code)
    except AccessError as error:
        await stream.finish(1, str(error))
    except (TunnelError, ConnectionError):
        await stream.finish(1, "it was cut off")
    except OSError as error:
        await stream.finish(1, f"the provider's disk: {error.strerror}")


async def _served(room: ContainerAccess, spool: CopySpool, stream: TunnelStream, wanted: StreamPurpose) -> int:
    match wanted:
        case RunProgram():
            return await _run(room, stream, wanted)
        case ReachPort():
            return await _talk(stream, await room.reach(wanted.port))
        case CopyIn():
            async with spool.places:
                await _copy_in(room, spool.folder, stream, wanted.path)
        case CopyOut():
            async with spool.places:
                await _copy_out(room, spool.folder, stream, wanted.path)
        case TakeSecrets():
            await _take_secrets(room, stream)
    return 0


async def _run(room: ContainerAccess, stream: TunnelStream, wanted: RunProgram) -> int:
    if not wanted.command or sum(len(word.encode()) for word in wanted.command) > COMMAND_BYTES_MAX:
        raise AccessError(f"a command has 1 to {COMMAND_BYTES_MAX} bytes")
    rows, columns = _size(wanted.rows, wanted.columns)
    talk = await room.run(wanted.command, is_terminal=wanted.is_terminal, rows=rows, columns=columns)
    if wanted.is_terminal:

        async def resize(rows: int, columns: int) -> None:
            await talk.resize(*_size(rows, columns))

        stream.on_resize = resize
    return await _talk(stream, talk)


def _size(rows: int, columns: int) -> tuple[int, int]:
    return min(max(1, rows), TERMINAL_MAX), min(max(1, columns), TERMINAL_MAX)


async def _talk(stream: TunnelStream, talk: Talk) -> int:
    """Carry bytes both ways until one of the two is over; then the other one is, too."""
    up = asyncio.create_task(_up(stream, talk))
    down = asyncio.create_task(_down(stream, talk))
    gone = asyncio.ensure_future(asyncio.wait({stream.end}))
    try:
        await asyncio.wait({down, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down, gone):
            task.cancel()
        await asyncio.wait({up, down, gone})
        code = await asyncio.shield(talk.end())
    return code


async def _up(stream: TunnelStream, talk: Talk) -> None:
    with contextlib.suppress(ConnectionError):
        while (found := await stream.read()) is not None:
            await talk.write(found[1])
        talk.end_input()


async def _down(stream: TunnelStream, talk: Talk) -> None:
    with contextlib.suppress(TunnelError, ConnectionError):
        while (found := await talk.read()) is not None:
            channel, data = found
            await stream.write(data, channel)


async def _take_secrets(room: ContainerAccess, stream: TunnelStream) -> None:
    content = b""
    while (found := await stream.read()) is not None:
        content += found[1]
        if len(content) > HANDED_BYTES_MAX:
            raise AccessError(f"secrets have at most {SECRETS_BYTES_MAX:,} bytes: seal data as inputs")
    if stream.end.done():
        raise AccessError("the secrets broke off")
    try:
        handed = {each.name: each.value for each in HANDED.decode(content)}
    except DecodeError:
        raise AccessError("these are no secrets") from None
    room.take_secrets(handed)


async def _copy_in(room: ContainerAccess, spool: Path, stream: TunnelStream, path: str) -> None:
    target_of(path)
    with tempfile.TemporaryDirectory(dir=spool) as name, _spooled(spool) as file:
        size = 0
        while (found := await stream.read()) is not None:
            size += len(found[1])
            if size > COPY_BYTES_MAX:
                raise AccessError(f"a copy has at most {COPY_BYTES_MAX:,} bytes: copy it in parts")
            await asyncio.to_thread(file.write, found[1])
        if stream.end.done():
            raise AccessError("the copy broke off")
        file.seek(0)
        await asyncio.to_thread(unpack, file, Path(name))  # type: ignore[arg-type]
        await room.copy_in(path, Path(name))


async def _copy_out(room: ContainerAccess, spool: Path, stream: TunnelStream, path: str) -> None:
    target_of(path)
    with _spooled(spool) as file:
        bounded = _Bounded(file)
        await room.copy_out(path, bounded)  # type: ignore[arg-type]
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, _PIECE):
            await stream.write(piece)
    await stream.end_input()


def _spooled(spool: Path) -> tempfile.SpooledTemporaryFile[bytes]:
    return tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY, dir=str(spool))


class _Bounded:
    """A file that takes no more than a copy may have."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = 0

    def write(self, data: bytes) -> int:
        """AccessError for too much."""
        self._size += len(data)
        if self._size > COPY_BYTES_MAX:
            raise AccessError(f"a copy has at most {COPY_BYTES_MAX:,} bytes: copy it in parts")
        return self._file.write(data)
