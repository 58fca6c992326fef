"""Connections that are opened, fed a byte now and then, and never used: on every port of one node."""

from __future__ import annotations

import trio

from devnet.proofs.flood.attack import Door, attack
from devnet.proofs.flood.dripping import BROKEN, drip
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from devnet.proofs.flood.websocket_client import WebSocketError, open_socket

MANY = 1_200
"""More than the 1,024 files that a process may usually open."""
WEBSOCKETS = 150
"""More than the 100 that the RPC process takes by default."""
OPENING_AT_ONCE = 64
"""A listener with a short queue forgets those that come together, and then they wait for seconds."""
AGAIN_SECONDS = 0.5
HALF_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
HALF_NEGOTIATION = b"\x13/multistream/1.0.0"


async def _hold_all(scene: Scene, port: int, opening: bytes, count: int = MANY) -> None:
    """Keep `count` half requests open, each back when it is closed."""
    turn = trio.Semaphore(OPENING_AT_ONCE)
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(drip, scene, port, opening, 1 / AGAIN_SECONDS, turn)


@attack("M4", messages_max=200_000, doors=(Door.PEERS,))
async def silent_peers(scene: Scene) -> None:
    """1,200 connections to the port for peers that never finish a handshake, back when they are closed."""
    await _hold_all(scene, scene.victim.ports.peers, HALF_NEGOTIATION)


@attack("M4", messages_max=200_000, doors=(Door.METRICS,))
async def half_metrics_requests(scene: Scene) -> None:
    """1,200 half requests to the metrics port, a byte a second: each took a thread and a file of the node for ever.

    With 1,024 files the node could not write its sign-state, and died.
    """
    await _hold_all(scene, scene.victim.ports.metrics, HALF_REQUEST)


@attack("M4", messages_max=200_000, doors=(Door.WEBSOCKET,))
async def slow_posts(scene: Scene) -> None:
    """1,200 POST requests to JSON-RPC that announce 100 kB and send a byte a second."""
    await _hold_all(scene, scene.victim.ports.rpc, HALF_POST)


@attack("N9", messages_max=50_000, doors=(Door.WEBSOCKET,))
async def idle_websockets(scene: Scene) -> None:
    """150 WebSockets from one address that say nothing: an honest client must still find a place."""
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(WEBSOCKETS):
            nursery.start_soon(_idle, scene)


async def _idle(scene: Scene) -> None:
    async for _ in scene.paced(1 / AGAIN_SECONDS, at_once=1):
        try:
            socket = await open_socket(scene.victim.ports.rpc, SOURCE_ADDRESS)
        except (*BROKEN, WebSocketError) as error:
            scene.note(f"refused: {error}")
            continue
        scene.sent(1, 0)
        try:
            while True:
                await socket.receive()
        except (*BROKEN, WebSocketError):
            scene.note("closed by the node")
        finally:
            await socket.close()
