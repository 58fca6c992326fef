"""Many connections of one address, or a few of several, that each ask for little."""

from __future__ import annotations

import os
from functools import partial

import trio

from devnet.proofs.flood.attack import Door, Needs, attack
from devnet.proofs.flood.http_client import READ_BYTES, call_body
from devnet.proofs.flood.reconnecting import each_dripping, each_socket, each_stream
from devnet.proofs.flood.rpc.subscriptions import HEADS
from devnet.proofs.flood.scene import Scene
from devnet.proofs.flood.websocket_client import WebSocket
from node.rpc.methods.proof_pace import KEYS_AT_ONCE

PROVING_CLIENTS = 300
HALF_HEADS = 1_200
"""More than the 1,024 files that a process may usually open."""
CRUMBLING_CLIENTS = 20
SUBSCRIBERS_OF_ADDRESS = 25
"""A fourth of the WebSockets of a node, which is what one address may have."""
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(66, 70))
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
JSON_HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CRUMBS = b"1\r\na\r\n" * 10_000


@attack("own", messages_max=200_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def proving_crowd(scene: Scene) -> None:
    """300 connections of one address that each ask for a proof of 64 keys, and again when it has come."""
    body = call_body("state_getReadProof", ["0x" + os.urandom(32).hex() for _ in range(KEYS_AT_ONCE)])
    request = JSON_HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    await each_stream(scene, scene.victim.ports.rpc, PROVING_CLIENTS, partial(_ask_again, request=request))


@attack("own", messages_max=200_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def half_heads(scene: Scene) -> None:
    """1,200 requests to JSON-RPC whose head never ends, a byte a second, back when they are closed."""
    await each_dripping(scene, scene.victim.ports.rpc, HALF_HEADS, HALF_HEAD)


@attack("own", messages_max=200_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def crumbs(scene: Scene) -> None:
    """20 bodies to JSON-RPC in chunks of one byte, as fast as they go, back when they are closed."""
    sending = partial(_crumble, head=JSON_HEAD + CHUNKED)
    await each_stream(scene, scene.victim.ports.rpc, CRUMBLING_CLIENTS, sending)


@attack("own", messages_max=200_000, doors=(Door.BLOBS,), needs=Needs.PROVIDER, hogged=True)
async def crumbs_for_a_store(scene: Scene) -> None:
    """20 uploads to a provider's blob store in chunks of one byte, as fast as they go."""
    sending = partial(_crumble, head=b"PUT /blobs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + CHUNKED)
    await each_stream(scene, scene.victim.ports.blobs, CRUMBLING_CLIENTS, sending)


@attack("own", messages_max=20_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def subscribing_addresses(scene: Scene) -> None:
    """25 WebSockets from each of four addresses, with one subscription each: as many as a node takes."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        await socket.call(HEADS)
        scene.sent(1, 0)
        while True:
            await socket.receive()

    await each_socket(scene, SUBSCRIBERS_OF_ADDRESS, serve, ADDRESSES)


async def _ask_again(scene: Scene, stream: trio.SocketStream, request: bytes) -> None:
    while True:
        await stream.send_all(request)
        scene.sent(1, len(request))
        received = b""
        while not _is_whole(received):
            data = await stream.receive_some(READ_BYTES)
            if not data:
                return
            received += data
        scene.note("refused" if b'"error"' in received else "answered")


def _is_whole(answer: bytes) -> bool:
    head, mark, body = answer.lower().partition(b"\r\n\r\n")
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(mark) and len(body) >= int(length or b"0")


async def _crumble(scene: Scene, stream: trio.SocketStream, head: bytes) -> None:
    await stream.send_all(head)
    while True:
        await stream.send_all(CRUMBS)
        scene.sent(1, len(CRUMBS))
