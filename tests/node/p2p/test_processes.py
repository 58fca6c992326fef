"""Nodes in separate processes: killed, frozen, restarted. The remaining one notices and finds them again."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from node.p2p import libp2p_transport, link
from node.p2p.frames import FrameKind
from node.p2p.libp2p_transport import Libp2pTransport
from node.p2p.transport import PeerDown, PeerUp
from p2p_hosts import running, transport

pytestmark = [pytest.mark.trio, pytest.mark.e2e, pytest.mark.nightly]
ROOT = Path(__file__).parents[3]
CHILD = ROOT / "tests" / "support" / "p2p_child.py"


@asynccontextmanager
async def child(number: int, port: int, *bootnodes: str) -> AsyncIterator[tuple[trio.Process, str]]:
    """Yield a running child and its printed address. It is killed at the end."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{CHILD.parent}", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(CHILD), str(number), str(port), *bootnodes]
    process = await trio.lowlevel.open_process(command, stdout=-1, env=environment)
    assert process.stdout is not None
    try:
        address = b""
        while not address.endswith(b"\n"):
            part = await process.stdout.receive_some()
            assert part, "the child died before it listened"
            address += part
        yield process, address.decode().strip()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        await process.stdout.aclose()


async def event(node: Libp2pTransport) -> tuple[type, str]:
    received = await node.events.receive()
    return type(received), received.peer


async def asks_and_is_answered(node: Libp2pTransport, peer: str) -> None:
    assert node.send(peer, FrameKind.POLL_QUERY, b"?")
    answer = await node.inbound.receive()
    assert (answer.peer, answer.kind, answer.payload) == (peer, FrameKind.CHITS, b"?")


async def test_killed_is_noticed_and_restarted_is_found_again() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        async with child(2, 0) as (process, address):
            peer, port = address.rsplit("/", 1)[1], int(address.split("/")[4])
            node.connect(address)
            assert await event(node) == (PeerUp, peer)
            await asks_and_is_answered(node, peer)
            process.send_signal(signal.SIGKILL)
            assert await event(node) == (PeerDown, peer)
        async with child(2, port):
            assert await event(node) == (PeerUp, peer)
            await asks_and_is_answered(node, peer)


async def test_a_frozen_peer_is_given_up_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(libp2p_transport, "PING_SECONDS", 0.2)
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        async with child(2, 0) as (process, address):
            peer = address.rsplit("/", 1)[1]
            node.connect(address)
            assert await event(node) == (PeerUp, peer)
            await asks_and_is_answered(node, peer)
            while node.peers()[0].rtt_seconds is None:
                await trio.sleep(0.01)
            process.send_signal(signal.SIGSTOP)
            assert await node.events.receive() == PeerDown(peer, "timed out")
            process.send_signal(signal.SIGCONT)
            assert await event(node) == (PeerUp, peer)
            await asks_and_is_answered(node, peer)
