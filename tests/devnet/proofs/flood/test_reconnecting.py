"""Clients of an attack use the addresses that it names, and reconnect when the server ends their connection."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from devnet.launcher import layout
from devnet.proofs.flood.attack import SOURCE_ADDRESS, AttackScene, each_dripping, each_socket, each_stream
from devnet.proofs.flood.clients import LOOPBACK, WebSocket
from devnet.proofs.flood.rpc_attacks import ADDRESSES

OPENING = b"GET / HTTP/1.1\r\n"


class Server:
    """A server that records its clients' addresses and requests, and ends each connection at its first bytes."""

    def __init__(self) -> None:
        """Start without clients."""
        self.came: Counter[str] = Counter()
        self.read: Counter[bytes] = Counter()

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        self.came[stream.socket.getpeername()[0]] += 1
        self.read[bytes(await stream.receive_some())[: len(OPENING)]] += 1
        await stream.aclose()


async def attacked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, enough: int, attack: Callable[[AttackScene, int], Awaitable[None]]
) -> tuple[Server, AttackScene]:
    """Attack a server until it had `enough` connections."""
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    server, scene = Server(), AttackScene(layout.create(folder, 2, any_ports=True), 30.0, 1_000, random.Random(1))
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, server.serve, 0)
        nursery.start_soon(attack, scene, listeners[0].socket.getsockname()[1])
        while server.came.total() < enough:
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    return server, scene


@pytest.mark.trio
async def test_half_requests_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def attack(scene: AttackScene, port: int) -> None:
        await each_dripping(scene, port, 3, OPENING)

    server, scene = await attacked(tmp_path, monkeypatch, 7, attack)
    assert set(server.came) == {SOURCE_ADDRESS}
    assert set(server.read) == {OPENING}
    assert scene.account.messages >= 6
    assert scene.account.sent_bytes == scene.account.messages * len(OPENING)
    assert scene.account.outcomes["closed by the node"] >= 3


@pytest.mark.trio
async def test_clients_come_from_each_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses each client, because it speaks no WebSocket."""

    async def serve(_scene: AttackScene, _socket: WebSocket) -> None:
        raise AssertionError("no WebSocket was opened")

    async def attack(scene: AttackScene, port: int) -> None:
        first, victim = scene.devnet.members
        scene.devnet = replace(scene.devnet, members=(first, replace(victim, ports=replace(victim.ports, rpc=port))))
        await each_socket(scene, 2, serve, ADDRESSES)

    server, _ = await attacked(tmp_path, monkeypatch, 2 * len(ADDRESSES) + 1, attack)
    assert set(server.came) == set(ADDRESSES)
    assert min(server.came.values()) >= 2


@pytest.mark.trio
async def test_an_address_where_nobody_listens_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    scene = AttackScene(layout.create(tmp_path, 2, any_ports=True), 30.0, 2, random.Random(1))
    listeners = await trio.open_tcp_listeners(0, host=LOOPBACK)
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()

    async def serve(_scene: AttackScene, _stream: trio.SocketStream) -> None:
        raise AssertionError("nobody listens")

    await each_stream(scene, port, 1, serve)
    assert scene.account.outcomes.total() == 2
