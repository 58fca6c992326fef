"""Raw streams of an engine: a container's output, and the input of a program in it.

The engine's API answers `attach` and `exec` by turning the connection into a stream. It is read without a thread, so a
slow reader holds back the engine, and the engine the program.

Format: POST with "Upgrade: tcp"; frames of one byte for the stream, three of zero, four of length (big-endian).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from gpu_tasks.provider.execution.containers.refusals import ContainerError

READ_BYTES = 32 * 1024
ANSWER_SECONDS = 30.0
FRAME_HEADER_BYTES = 8


class EngineStream:
    """One connection that the engine turned into a stream. `close` it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`open_stream` creates it."""
        self._reader = reader
        self._writer = writer

    async def frames(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (1 or 2, bytes) for standard output or error until the program ends.

        Only a container without a terminal sends frames.
        """
        while True:
            try:
                frame_header = await self._reader.readexactly(FRAME_HEADER_BYTES)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            frame_left = int.from_bytes(frame_header[4:], "big")
            # A frame may be longer than a read, so it is passed on in parts.
            while frame_left:
                frame_data = await self.read(min(frame_left, READ_BYTES))
                if not frame_data:
                    return
                frame_left -= len(frame_data)
                yield frame_header[0], frame_data

    async def read(self, count: int = READ_BYTES) -> bytes:
        """Return up to `count` raw bytes, as from a terminal; empty at the end."""
        try:
            return await self._reader.read(count)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Write to the program's standard input. Raise ConnectionError if the connection is closed."""
        self._writer.write(data)
        await self._writer.drain()

    def end_input(self) -> None:
        """Close the program's standard input."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        """Close the connection. The program receives no signal."""
        self._writer.close()


async def open_stream(socket_path: str, path: str, body: dict[str, Any] | None = None) -> EngineStream:
    """POST to the engine and take over the connection. Raise ContainerError on failure."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(socket_path, limit=READ_BYTES)
    except (OSError, TimeoutError) as error:
        raise ContainerError(
            "reach the engine", str(error) or "no answer", "see `ogpu-provider doctor`", code="engine_silent"
        ) from None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _send_request(reader, writer, path, body)
    except BaseException:
        writer.close()
        raise
    return EngineStream(reader, writer)


async def _send_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: dict[str, Any] | None
) -> None:
    body_bytes = b"" if body is None else json.dumps(body).encode()
    request_head = (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body_bytes)}\r\n\r\n"
    )
    writer.write(request_head.encode() + body_bytes)
    try:
        answer_head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
        raise ContainerError(
            "open a stream", f"the engine closed the connection: {error}", code="engine_silent"
        ) from None
    status_code = answer_head.split(b" ", 2)[1:2]
    # 101 for attach and exec. `wait` is a plain request with the status 200, and its answer is read in the same way.
    if status_code not in ([b"101"], [b"200"]):
        refusal_text = (await reader.read(500)).decode(errors="replace")
        raise ContainerError(
            "open a stream",
            f"the engine answered {answer_head[:60].decode(errors='replace')!r}: {refusal_text}",
            code="engine_refused",
        )
