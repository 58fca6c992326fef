"""A scripted client of a WebSocket: it asks, reads and leaves at a test's command."""

import asyncio
from types import SimpleNamespace
from typing import cast
from weakref import ref

from aiohttp import WSMsgType, web

from node.rpc.callers import RpcCaller
from node.rpc.connection import ClientConnection, SharedLimits
from node.rpc.registry import RpcMethod


class Message(SimpleNamespace):
    """A client's message. A weak reference shows whether it is still kept."""


class PlayedSocket:
    """A substitute for aiohttp's `WebSocketResponse` in a connection."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.asks = asyncio.Event()
        self.leaves = False
        self.sent: list[str] = []
        self.message: ref[Message] | None = None
        self.is_closed = False
        self._req = SimpleNamespace(transport=None)

    async def send_str(self, text: str) -> None:
        """Wait until the client reads."""
        await self.reads.wait()
        self.sent.append(text)
        await asyncio.sleep(0)

    async def close(self, *, drain: bool) -> None:
        """Nothing more is sent or read."""
        self.is_closed = True

    def __aiter__(self) -> "PlayedSocket":
        """Its messages."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message each time `asks` is set. End after the client leaves."""
        await self.asks.wait()
        self.asks.clear()
        if self.leaves:
            raise StopAsyncIteration
        message = Message(type=WSMsgType.TEXT, data="subscribe")
        self.message = ref(message)
        return message


def subscribing(
    socket: PlayedSocket, method: RpcMethod, times: int, limits: SharedLimits
) -> tuple[ClientConnection, asyncio.Task[None]]:
    """Return a connection with `times` subscriptions in one message, and its run."""

    async def answer(_data: bytes, connection: ClientConnection) -> str:
        for _ in range(times):
            await connection.subscribe(method, [])
        return "subscribed"

    connection = ClientConnection(cast(web.WebSocketResponse, socket), RpcCaller(calls_left=1_000.0), limits, answer)
    running = asyncio.create_task(connection.run())
    socket.asks.set()
    return connection, running
