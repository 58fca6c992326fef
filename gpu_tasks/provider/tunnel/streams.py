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
from typing import IO, BinaryIO, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from durable.folders import make_folder
from gpu_tasks.provider.tunnel.access import AccessError, ContainerAccess, Talk
from gpu_tasks.provider.tunnel.copies import target_of, unpack
from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.tunnel import TunnelError, TunnelStream
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

    @classmethod
    def cleared(cls, folder: Path) -> Self:
        """Return a spool in a new folder, without the copies of a daemon that was killed."""
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        return cls(folder)

    @contextlib.asynccontextmanager
    async def place(self, access: ContainerAccess, stream: TunnelStream) -> AsyncIterator[Path]:
        """Yield a place for a copy, after earlier copies of the same container.

        Raise AccessError if the stream ended meanwhile.
        """
        # The container's own lock first, so that one customer's copies do not occupy all places.
        async with self._of_room.setdefault(access, asyncio.Lock()), self.places:
            if stream.end.done():
                raise AccessError(BROKEN_OFF, code="copy_interrupted")
            yield self.folder


async def serve_stream(
    access: ContainerAccess, spool: CopySpool, stream: TunnelStream, purpose: frames.TunnelAsk
) -> None:
    """Serve the request of a stream, and end the stream."""
    try:
        exit_code = await _serve_request(access, spool, stream, purpose)
        await stream.finish(exit_code)
    except AccessError as error:
        await stream.finish(1, str(error))
    except (TunnelError, ConnectionError):
        await stream.finish(1, "it was cut off")
    except OSError as error:
        await stream.finish(1, f"the provider's disk: {error.strerror}")


async def _serve_request(
    access: ContainerAccess, spool: CopySpool, stream: TunnelStream, purpose: frames.TunnelAsk
) -> int:
    match purpose:
        case frames.RunProgram():
            return await _run_program(access, stream, purpose)
        case frames.ReachPort():
            return await _carry_both_ways(stream, await access.reach(purpose.port))
        case frames.CopyIn():
            async with spool.place(access, stream) as spool_folder:
                await _copy_in(access, spool_folder, stream, purpose.path)
        case frames.CopyOut():
            async with spool.place(access, stream) as spool_folder:
                await _copy_out(access, spool_folder, stream, purpose.path)
        case frames.TakeSecrets():
            await _take_secrets(access, stream)
        case frames.Converse():
            raise AccessError(
                "this is a container, which has no session; open the tunnel with a session's id", code="no_session"
            )
    return 0


async def _run_program(access: ContainerAccess, stream: TunnelStream, request: frames.RunProgram) -> int:
    # The words' total is not limited by the frame's fields, which limit each word.
    if not request.command or sum(len(word.encode()) for word in request.command) > frames.COMMAND_BYTES_MAX:
        raise AccessError(f"a command has 1 to {frames.COMMAND_BYTES_MAX} bytes", code="wrong_command_length")
    rows, columns = _clamped_size(request.rows, request.columns)
    talk = await access.run(request.command, is_terminal=request.is_terminal, rows=rows, columns=columns)
    if request.is_terminal:

        async def resize(row_count: int, column_count: int) -> None:
            await talk.resize(*_clamped_size(row_count, column_count))

        stream.on_resize = resize
    return await _carry_both_ways(stream, talk)


# The customer chooses the size, so it is clamped before the container engine sees it.
def _clamped_size(rows: int, columns: int) -> tuple[int, int]:
    return min(max(1, rows), frames.TERMINAL_MAX), min(max(1, columns), frames.TERMINAL_MAX)


async def _carry_both_ways(stream: TunnelStream, talk: Talk) -> int:
    """Carry bytes both ways until either side ends, then end the other."""
    carrying_up = asyncio.create_task(_carry_input(stream, talk))
    carrying_down = asyncio.create_task(_carry_output(stream, talk))
    stream_end = asyncio.ensure_future(asyncio.wait({stream.end}))
    try:
        await asyncio.wait({carrying_down, stream_end}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (carrying_up, carrying_down, stream_end):
            task.cancel()
        await asyncio.wait({carrying_up, carrying_down, stream_end})
        # Shielded, since a cancelled stream must still end its program and report that to the access limits.
        exit_code = await asyncio.shield(talk.end())
    return exit_code


async def _carry_input(stream: TunnelStream, talk: Talk) -> None:
    with contextlib.suppress(ConnectionError):
        while (frame := await stream.read()) is not None:
            await talk.write(frame[1])
        talk.end_input()


async def _carry_output(stream: TunnelStream, talk: Talk) -> None:
    with contextlib.suppress(TunnelError, ConnectionError):
        while (program_output := await talk.read()) is not None:
            stream_channel, output_bytes = program_output
            await stream.write(output_bytes, stream_channel)


async def _take_secrets(access: ContainerAccess, stream: TunnelStream) -> None:
    received_bytes = b""
    while (frame := await _in_time(stream.read())) is not None:
        received_bytes += frame[1]
        if len(received_bytes) > frames.HANDED_BYTES_MAX:
            raise AccessError(
                f"secrets have at most {frames.SECRETS_BYTES_MAX:,} bytes; seal data as inputs",
                code="secrets_too_large",
            )
    # A stream that ended early may have carried a valid prefix of the secrets.
    if stream.end.done():
        raise AccessError("the secrets were interrupted", code="secrets_interrupted")
    try:
        handed_secrets = {secret.name: secret.value for secret in frames.HANDED.decode(received_bytes)}
    except DecodeError:
        raise AccessError("these bytes are not secrets", code="not_secrets") from None
    access.take_secrets(handed_secrets)


async def _copy_in(access: ContainerAccess, spool_folder: Path, stream: TunnelStream, path: str) -> None:
    # The path is checked before any byte is accepted.
    target_of(path)
    async with _own_folder(spool_folder) as unpacked_folder, _spooled_file(spool_folder) as file:
        received_size = 0
        while (frame := await _in_time(stream.read())) is not None:
            received_size += len(frame[1])
            if received_size > frames.COPY_BYTES_MAX:
                raise AccessError(
                    f"a copy has at most {frames.COPY_BYTES_MAX:,} bytes; copy in parts", code="copy_too_large"
                )
            await _to_its_end(file.write, frame[1])
        if stream.end.done():
            raise AccessError(BROKEN_OFF, code="copy_interrupted")
        file.seek(0)
        await _to_its_end(unpack, file, unpacked_folder)
        await access.copy_in(path, unpacked_folder)


async def _copy_out(access: ContainerAccess, spool_folder: Path, stream: TunnelStream, path: str) -> None:
    target_of(path)
    async with _spooled_file(spool_folder) as file:
        bounded = _Bounded(file)
        await access.copy_out(path, bounded)  # type: ignore[arg-type]
        file.seek(0)
        while piece := await _to_its_end(file.read, 8 * frames.DATA_BYTES_MAX):
            await _in_time(stream.write(piece))
    await stream.end_input()


async def _in_time(copy_step: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(copy_step, COPY_SILENCE_SECONDS)
    except TimeoutError:
        raise AccessError(STOOD_STILL, code="copy_stalled") from None


async def _to_its_end(blocking_work: Callable[..., T], *arguments: object) -> T:
    """Run work in a thread and wait for it even if cancelled, because the caller deletes its files next."""
    running_work = asyncio.ensure_future(asyncio.to_thread(blocking_work, *arguments))
    try:
        return await asyncio.shield(running_work)
    except asyncio.CancelledError:
        await asyncio.wait([running_work])
        raise


@contextlib.asynccontextmanager
async def _own_folder(spool_folder: Path) -> AsyncIterator[Path]:
    """Yield a folder, and delete it in a thread: deletion can take seconds, and the daemon has deadlines."""
    own_folder = Path(tempfile.mkdtemp(dir=spool_folder))
    try:
        yield own_folder
    finally:
        await _to_its_end(shutil.rmtree, own_folder)


@contextlib.asynccontextmanager
async def _spooled_file(spool_folder: Path) -> AsyncIterator[BinaryIO]:
    file = tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY, dir=str(spool_folder))  # noqa: SIM115 it is closed in a thread
    try:
        yield cast("BinaryIO", file)
    finally:
        await _to_its_end(file.close)


class _Bounded:
    """A file that refuses more bytes than a copy may have."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._written_bytes = 0

    def write(self, data: bytes) -> int:
        """Write, or raise AccessError if the copy is too large."""
        self._written_bytes += len(data)
        if self._written_bytes > frames.COPY_BYTES_MAX:
            raise AccessError(
                f"a copy has at most {frames.COPY_BYTES_MAX:,} bytes; copy in parts", code="copy_too_large"
            )
        return self._file.write(data)
