"""A relay before a broker, which hands on, waits, withholds or cuts as it is told: a bad network, or a bad broker.

Always: bytes keep their order; what is withheld is lost with its connection, as on a network that breaks.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Self

PART_BYTES = 4_096


@dataclass(slots=True)
class BrokerRelay:
    """Use `async with`; listens on a port of loopback for what goes to another."""

    port: int
    target: int
    delay_seconds: float = 0.0
    """How long each part waits, in both directions, one after the other."""
    hands_on: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, what comes from the target is kept back, and the connection stands."""
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        """Listen."""
        self.hands_on.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Listen no more, and cut."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def cut(self) -> None:
        """Break all connections, without a word."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            with contextlib.suppress(OSError):
                inner, outer = await asyncio.open_connection("127.0.0.1", self.target)
                self._open |= {writer, outer}
                await asyncio.gather(self._pass(reader, outer, kept=False), self._pass(inner, writer, kept=True))
        finally:
            self._open.discard(writer)
            writer.transport.abort()
            self._running.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, kept: bool) -> None:
        """Until either side ends, which ends the other. `kept`: what may be withheld."""
        try:
            while part := await reader.read(PART_BYTES):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                if kept:
                    await self.hands_on.wait()
                writer.write(part)
                await writer.drain()
        finally:
            writer.transport.abort()
            self._open.discard(writer)
