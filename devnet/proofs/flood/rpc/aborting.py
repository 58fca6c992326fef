"""Clients that leave while an answer is on its way to them."""

from __future__ import annotations

import socket
import struct

import trio

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.http_client import LOOPBACK, batch_body, call, request_head
from devnet.proofs.flood.rpc.posting import JSON
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from devnet.proofs.flood.websocket_client import WebSocketError, open_socket

CLIENTS, PER_SECOND = 10, 5
ANSWERS = 20
FIRST_BYTES = 1_000
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, WebSocketError)


@attack("A16", messages_max=50_000)
async def aborting_clients(scene: Scene) -> None:
    """Ten clients ask for megabytes of metadata, by POST and by WebSocket, and reset the connection at the first byte.

    Each left a stack trace in the log.
    """
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for client in range(CLIENTS):
            nursery.start_soon(_abort_again_and_again, scene, client % 2 == 0)


async def _abort_again_and_again(scene: Scene, by_post: bool) -> None:
    body = batch_body([call("state_getMetadata", number=number) for number in range(ANSWERS)])
    async for _ in scene.paced(PER_SECOND, at_once=1):
        try:
            stream = await (_posted if by_post else _sent)(scene.victim.ports.rpc, body)
            scene.sent(1, len(body))
            await stream.receive_some(FIRST_BYTES)
            await reset(stream)
        except BROKEN as error:
            scene.note(f"refused: {error}")


async def _posted(port: int, body: bytes) -> trio.SocketStream:
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=SOURCE_ADDRESS)
    await stream.send_all(request_head("POST", "/", port, len(body), JSON) + body)
    return stream


async def _sent(port: int, body: bytes) -> trio.SocketStream:
    opened = await open_socket(port, SOURCE_ADDRESS)
    await opened.send(body)
    await opened.ping()
    return opened.stream


async def reset(stream: trio.SocketStream) -> None:
    """Close so that the other end's writes fail."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await trio.aclose_forcefully(stream)
