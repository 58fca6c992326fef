"""Ports of the container on this machine: each connection here is a stream there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from gpu_tasks.tunnel.frames import ReachPort
from gpu_tasks.tunnel.multiplexer import Multiplexer, TunnelError, TunnelStream

HOST = "127.0.0.1"
_PIECE = 32 * 1024


async def forward(tunnel: Multiplexer, local: int, remote: int, note: Callable[[str], None]) -> asyncio.Server:
    """Listen on a port of this machine alone; `note` hears why a connection failed. OSError where it is taken."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _carry(await tunnel.open(ReachPort(remote)), reader, writer)
        except TunnelError as error:
            note(str(error))
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    return await asyncio.start_server(connected, HOST, local)


async def _carry(stream: TunnelStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def up() -> None:
        with contextlib.suppress(TunnelError, ConnectionError):
            while data := await reader.read(_PIECE):
                await stream.write(data)
            await stream.end_input()

    sending = asyncio.create_task(up())
    try:
        with contextlib.suppress(ConnectionError):
            while (found := await stream.read()) is not None:
                writer.write(found[1])
                await writer.drain()
    finally:
        sending.cancel()
        await stream.finish()
    end = await stream.end
    if end.problem:
        raise TunnelError(end.problem)
