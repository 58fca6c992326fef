"""Connections that are opened, fed a byte now and then, and never used: on every port of one node."""

from __future__ import annotations

from devnet.proofs.flood.attack import Door, attack
from devnet.proofs.flood.reconnecting import each_dripping, each_socket
from devnet.proofs.flood.scene import Scene
from devnet.proofs.flood.websocket_client import WebSocket

MANY = 1_200
"""More than the 1,024 files that a process may usually open."""
WEBSOCKETS = 150
"""More than the 100 that the RPC process takes by default."""
HALF_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
HALF_NEGOTIATION = b"\x13/multistream/1.0.0"


@attack("M4", messages_max=200_000, doors=(Door.PEERS,))
async def silent_peers(scene: Scene) -> None:
    """1,200 connections to the port for peers that never finish a handshake, back when they are closed."""
    await each_dripping(scene, scene.victim.ports.peers, MANY, HALF_NEGOTIATION)


@attack("M4", messages_max=200_000, doors=(Door.METRICS,))
async def half_metrics_requests(scene: Scene) -> None:
    """1,200 half requests to the metrics port, a byte a second: each took a thread and a file of the node for ever.

    With 1,024 files the node could not write its sign-state, and died.
    """
    await each_dripping(scene, scene.victim.ports.metrics, MANY, HALF_REQUEST)


@attack("M4", messages_max=200_000, doors=(Door.WEBSOCKET,))
async def slow_posts(scene: Scene) -> None:
    """1,200 POST requests to JSON-RPC that announce 100 kB and send a byte a second."""
    await each_dripping(scene, scene.victim.ports.rpc, MANY, HALF_POST)


@attack("N9", messages_max=50_000, doors=(Door.WEBSOCKET,))
async def idle_websockets(scene: Scene) -> None:
    """150 WebSockets from one address that say nothing: an honest client must still find a place."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        scene.sent(1, 0)
        while True:
            await socket.receive()

    await each_socket(scene, WEBSOCKETS, serve)
