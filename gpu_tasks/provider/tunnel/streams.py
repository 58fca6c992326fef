"""One stream of a tunnel at the provider: a program, a port, a copy or secrets.

Invariant: a program or connection ends with its stream, and the stream with it. Every failure is reported in a
sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, TypeVar, cast
from weakref import WeakKeyDictionary

from gpu_tasks.provider.tunnel.access import AccessError, ContainerAccess, Talk
from gpu_tasks.provider.tunnel.copies import target_of, unpack
from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.multiplexer import StreamPurpose, TunnelError, TunnelStream
from runtime.encoding.codec import DecodeError

T = TypeVar("T")
COPIES_MAX = 4
"""Copies at once over all tunnels, and one for each container. Each may use half a gibibyte of the daemon's disk."""
COPY_SILENCE_SECONDS = 60.0
"""A copy without progress for this long is aborted, which frees its place."""
KEPT_IN_MEMORY = 1 << 20
"""Bytes of a copy kept in memory. The rest goes to a file."""


BROKEN_OFF = "the copy was interrupted"
STOOD_STILL = "the copy made no progress"


@dataclass(frozen=True, slots=True)
class CopySpool:
    """The folder for copies in progress on the daemon's disk, and the limit on their number."""

    folder: Path
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COPIES_MAX))
    _of_room: WeakKeyDictionary[ContainerAccess, asyncio.Lock] = field(default_factory=WeakKeyDictionary)

    @contextlib.asynccontextmanager
    async def place(self, room: ContainerAccess, stream: TunnelStream) -> AsyncIterator[Path]:
        """Yield a place for a copy, after earlier copies of the same container.

        Raise AccessError if the stream ended meanwhile.
        """
        # The container's own lock first, so that one customer's copies do not occupy all places.
        async with self._of_room.setdefault(room, asyncio.Lock()), self.places:
            if stream.end.done():
                raise AccessError(BROKEN_OFF, code="copy_interrupted")
            yield self.folder


async def serve_stream(room: ContainerAccess, spool: CopySpool, stream: TunnelStream, wanted: StreamPurpose) -> None:
    """Serve the request of a stream, and end the stream."""
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
        case frames.RunProgram():
            return await _run(room, stream, wanted)
        case frames.ReachPort():
            return await _talk(stream, await room.reach(wanted.port))
        case frames.CopyIn():
            async with spool.place(room, stream) as folder:
                await _copy_in(room, folder, stream, wanted.path)
        case frames.CopyOut():
            async with spool.place(room, stream) as folder:
                await _copy_out(room, folder, stream, wanted.path)
        case frames.TakeSecrets():
            await _take_secrets(room, stream)
    return 0


async def _run(room: ContainerAccess, stream: TunnelStream, wanted: frames.RunProgram) -> int:
    # The words' total is not limited by the frame's fields, which limit each word.
    if not wanted.command or sum(len(word.encode()) for word in wanted.command) > frames.COMMAND_BYTES_MAX:
        raise AccessError(f"a command has 1 to {frames.COMMAND_BYTES_MAX} bytes", code="wrong_command_length")
    rows, columns = _size(wanted.rows, wanted.columns)
    talk = await room.run(wanted.command, is_terminal=wanted.is_terminal, rows=rows, columns=columns)
    if wanted.is_terminal:

        async def resize(rows: int, columns: int) -> None:
            await talk.resize(*_size(rows, columns))

        stream.on_resize = resize
    return await _talk(stream, talk)


# The customer chooses the size, so it is clamped before the container engine sees it.
def _size(rows: int, columns: int) -> tuple[int, int]:
    return min(max(1, rows), frames.TERMINAL_MAX), min(max(1, columns), frames.TERMINAL_MAX)


async def _talk(stream: TunnelStream, talk: Talk) -> int:
    """Carry bytes both ways until either side ends, then end the other."""
    up = asyncio.create_task(_up(stream, talk))
    down = asyncio.create_task(_down(stream, talk))
    gone = asyncio.ensure_future(asyncio.wait({stream.end}))
    try:
        await asyncio.wait({down, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down, gone):
            task.cancel()
        await asyncio.wait({up, down, gone})
        # Shielded, since a cancelled stream must still end its program and report that to the access limits.
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
    while (found := await _in_time(stream.read())) is not None:
        content += found[1]
        if len(content) > frames.HANDED_BYTES_MAX:
            raise AccessError(
                f"secrets have at most {frames.SECRETS_BYTES_MAX:,} bytes; seal data as inputs",
                code="secrets_too_large",
            )
    # A stream that ended early may have carried a valid prefix of the secrets.
    if stream.end.done():
        raise AccessError("the secrets were interrupted", code="secrets_interrupted")
    try:
        handed = {each.name: each.value for each in frames.HANDED.decode(content)}
    except DecodeError:
        raise AccessError("these bytes are not secrets", code="not_secrets") from None
    room.take_secrets(handed)


async def _copy_in(room: ContainerAccess, spool: Path, stream: TunnelStream, path: str) -> None:
    # The path is checked before any byte is accepted.
    target_of(path)
    async with _own_folder(spool) as folder, _spooled(spool) as file:
        size = 0
        while (found := await _in_time(stream.read())) is not None:
            size += len(found[1])
            if size > frames.COPY_BYTES_MAX:
                raise AccessError(
                    f"a copy has at most {frames.COPY_BYTES_MAX:,} bytes; copy in parts", code="copy_too_large"
                )
            await _to_its_end(file.write, found[1])
        if stream.end.done():
            raise AccessError(BROKEN_OFF, code="copy_interrupted")
        file.seek(0)
        await _to_its_end(unpack, file, folder)
        await room.copy_in(path, folder)


async def _copy_out(room: ContainerAccess, spool: Path, stream: TunnelStream, path: str) -> None:
    target_of(path)
    async with _spooled(spool) as file:
        bounded = _Bounded(file)
        await room.copy_out(path, bounded)  # type: ignore[arg-type]
        file.seek(0)
        while piece := await _to_its_end(file.read, frames.DATA_BYTES_MAX):
            await _in_time(stream.write(piece))
    await stream.end_input()


async def _in_time(step: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(step, COPY_SILENCE_SECONDS)
    except TimeoutError:
        raise AccessError(STOOD_STILL, code="copy_stalled") from None


async def _to_its_end(work: Callable[..., T], *arguments: object) -> T:
    """Run work in a thread and wait for it even if cancelled, because the caller deletes its files next."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


@contextlib.asynccontextmanager
async def _own_folder(spool: Path) -> AsyncIterator[Path]:
    """Yield a folder, and delete it in a thread: deletion can take seconds, and the daemon has deadlines."""
    folder = Path(tempfile.mkdtemp(dir=spool))
    try:
        yield folder
    finally:
        await _to_its_end(shutil.rmtree, folder)


@contextlib.asynccontextmanager
async def _spooled(spool: Path) -> AsyncIterator[BinaryIO]:
    file = tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY, dir=str(spool))  # noqa: SIM115 it is closed in a thread
    try:
        yield cast("BinaryIO", file)
    finally:
        await _to_its_end(file.close)


class _Bounded:
    """A file that refuses more bytes than a copy may have."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = 0

    def write(self, data: bytes) -> int:
        """Write, or raise AccessError if the copy is too large."""
        self._size += len(data)
        if self._size > frames.COPY_BYTES_MAX:
            raise AccessError(
                f"a copy has at most {frames.COPY_BYTES_MAX:,} bytes; copy in parts", code="copy_too_large"
            )
        return self._file.write(data)
