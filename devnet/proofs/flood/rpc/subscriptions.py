"""WebSockets that ask for more than they read."""

from __future__ import annotations

import trio

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.http_client import batch_body, call, call_body
from devnet.proofs.flood.reconnecting import each_socket
from devnet.proofs.flood.scene import Scene
from devnet.proofs.flood.websocket_client import WebSocket

CLIENTS, SUBSCRIPTIONS, PER_BATCH = 40, 1_024, 128
SLOW_CLIENTS, REQUESTS_EACH = 60, 40
HEADS = "chain_subscribeNewHeads"


async def _subscribe(scene: Scene, socket: WebSocket) -> None:
    for start in range(0, SUBSCRIPTIONS, PER_BATCH):
        body = batch_body([call(HEADS, number=start + offset) for offset in range(PER_BATCH)])
        await socket.send(body)
        scene.sent(1, len(body))


@attack("N3", messages_max=20_000)
async def many_subscriptions(scene: Scene) -> None:
    """40 clients with 1,024 subscriptions each, in batches, that read all that comes: nothing bounded them together."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        await _subscribe(scene, socket)
        while True:
            await socket.receive()

    await each_socket(scene, CLIENTS, serve)


@attack("N4", messages_max=20_000)
async def unread_subscriptions(scene: Scene) -> None:
    """The same clients, but none reads: each dropped item was a line in the node's log, 30,000 a second."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        await _subscribe(scene, socket)
        await trio.sleep_forever()

    await each_socket(scene, CLIENTS, serve)


@attack("N3b", messages_max=50_000)
async def slow_readers(scene: Scene) -> None:
    """60 clients with 40 requests for metadata each, never read: what waits for one client was bounded, for all not."""
    body = call_body("state_getMetadata")

    async def serve(scene: Scene, socket: WebSocket) -> None:
        for _ in range(REQUESTS_EACH):
            await socket.send(body)
            scene.sent(1, len(body))
        await trio.sleep_forever()

    await each_socket(scene, SLOW_CLIENTS, serve)
