"""Clients that an attack keeps connected: each connects again when its connection ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

import trio

from devnet.proofs.flood.http_client import LOOPBACK
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from devnet.proofs.flood.websocket_client import WebSocket, WebSocketError, open_socket

HeldOpen = TypeVar("HeldOpen", bound=trio.abc.AsyncResource)
OPENED_PER_SECOND = 2.0
OPENING_AT_ONCE = 64
"""A listener with a short queue forgets those that come together, and then they wait for seconds."""
DRIP_SECONDS = 1.0
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, WebSocketError)


async def each_socket(
    scene: Scene,
    clients: int,
    serve: Callable[[Scene, WebSocket], Awaitable[None]],
    sources: Sequence[str] = (SOURCE_ADDRESS,),
) -> None:
    """Keep so many WebSockets to JSON-RPC open from each address."""

    async def connect(source: str) -> WebSocket:
        return await open_socket(scene.victim.ports.rpc, source)

    await _each(scene, clients, connect, serve, sources)


async def each_stream(
    scene: Scene, port: int, clients: int, serve: Callable[[Scene, trio.SocketStream], Awaitable[None]]
) -> None:
    """Keep so many connections of one address to a port."""
    turn = trio.Semaphore(OPENING_AT_ONCE)

    async def connect(source: str) -> trio.SocketStream:
        async with turn:
            return await trio.open_tcp_stream(LOOPBACK, port, local_address=source)

    await _each(scene, clients, connect, serve, (SOURCE_ADDRESS,))


async def each_dripping(scene: Scene, port: int, clients: int, opening: bytes) -> None:
    """Keep so many half requests to a port, each fed a byte a second."""

    async def serve(scene: Scene, stream: trio.SocketStream) -> None:
        await stream.send_all(opening)
        scene.sent(1, len(opening))
        while True:
            with trio.move_on_after(DRIP_SECONDS):
                if not await stream.receive_some():
                    return
            await stream.send_all(b"x")

    await each_stream(scene, port, clients, serve)


async def _each(
    scene: Scene,
    clients: int,
    connect: Callable[[str], Awaitable[HeldOpen]],
    serve: Callable[[Scene, HeldOpen], Awaitable[None]],
    sources: Sequence[str],
) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for source in sources:
            for _ in range(clients):
                nursery.start_soon(_client, scene, connect, serve, source)


async def _client(
    scene: Scene,
    connect: Callable[[str], Awaitable[HeldOpen]],
    serve: Callable[[Scene, HeldOpen], Awaitable[None]],
    source: str,
) -> None:
    async with aclosing(scene.paced(OPENED_PER_SECOND, at_once=1)) as turns:
        async for _ in turns:
            try:
                connection = await connect(source)
            except BROKEN as error:
                scene.note(f"refused: {error if isinstance(error, WebSocketError) else type(error).__name__}")
                continue
            try:
                await serve(scene, connection)
            except BROKEN:
                pass
            finally:
                await trio.aclose_forcefully(connection)
            scene.note("closed by the node")
