"""CPU time of the peer-to-peer transport between two processes on loopback: questions and answers, floods, blocks.

    Run: python -m benchmarks p2p            about 15 seconds

CPU is user and system time of one process: `here` for the asking or sending process, `there` for the other one.
"""

import os
import random
import resource
import signal
import statistics
import time

import trio

from benchmarks.figures import Figures
from node.p2p.frames import FrameKind
from node.p2p.identity import identity_from_seed
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.meter import RateLimits

UNLIMITED = RateLimits(1e12, 1e12, 1e12, 1e12, 1e12, 1e12)
MESSAGE_BYTES = 200


def transport(number: int) -> Libp2pTransport:
    """Return a node of the measured network."""
    config = TransportConfig(genesis=bytes(32), devnet=True, rates=UNLIMITED)
    return Libp2pTransport(config, identity_from_seed(bytes([number]) * 32), lambda *_: True, random.Random(number))


async def answer(port: int) -> None:
    """Run the other process: answer every question, and receive everything else."""
    node = transport(1)  # its id is the higher one, so the other side dials at once
    async with trio.open_nursery() as nursery:
        await node.start(nursery)
        os.write(port, node.address.encode())
        async for message in node.inbound:
            if message.kind is FrameKind.POLL_QUERY:
                node.send(message.peer, FrameKind.CHITS, message.payload)
            elif message.kind is FrameKind.GET_CERTS:
                node.send(message.peer, FrameKind.CERT, repr(cpu_seconds()).encode())


def measure() -> Figures:
    """Run two processes, which find each other through a pipe."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        trio.run(answer, writer)
    try:
        return trio.run(ask, os.read(reader, 1000).decode())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def ask(address: str) -> Figures:
    """Make all measurements one after the other."""
    node = transport(2)
    async with trio.open_nursery() as nursery:
        await node.start(nursery)
        start, began = cpu_seconds(), time.perf_counter()
        node.connect(address)
        await node.events.receive()
        figures = {"connect_ms": round((time.perf_counter() - began) * 1e3, 1), "connect_cpu_us": cpu_since(start)}
        for in_flight in (1, 10, 50, 200):
            figures |= await pairs(node, f"pairs_{in_flight}_at_once", in_flight, rounds=max(20, 2000 // in_flight))
        async with trio.open_nursery() as beside:
            beside.start_soon(trickle, node)
            figures |= await pairs(node, "pairs_beside_10000_tx_a_second", 1, rounds=200)
            beside.cancel_scope.cancel()
        figures |= await flood(node, FrameKind.TX, MESSAGE_BYTES, 40_000)
        figures |= await flood(node, FrameKind.BLOCK, 1_900_000, 60)
        nursery.cancel_scope.cancel()
    return figures


async def pairs(node: Libp2pTransport, name: str, in_flight: int, rounds: int) -> Figures:
    """Measure questions and answers, `in_flight` at once. A round starts when the previous one is complete."""
    peer, payload = node.peers()[0].peer, bytes(MESSAGE_BYTES)
    theirs = await cpu_of(node, peer)
    ours, latencies = cpu_seconds(), []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(in_flight):
            node.send(peer, FrameKind.POLL_QUERY, payload)
        for _ in range(in_flight):
            await node.inbound.receive()
        latencies.append(time.perf_counter() - began)
    count = rounds * in_flight
    spent = cpu_since(ours) / count
    remote = (await cpu_of(node, peer) - theirs) * 1e6 / count
    return {
        f"{name}_p50_ms": round(statistics.median(latencies) * 1e3, 2),
        f"{name}_cpu_here_us": round(spent, 1),
        f"{name}_cpu_there_us": round(remote, 1),
    }


async def trickle(node: Libp2pTransport) -> None:
    """Send 10,000 small messages a second."""
    peer, payload = node.peers()[0].peer, bytes(MESSAGE_BYTES)
    while True:
        for _ in range(50):
            node.send(peer, FrameKind.TX, payload)
        await trio.sleep(0.005)


async def flood(node: Libp2pTransport, kind: FrameKind, size: int, count: int) -> Figures:
    """Send many messages one way, as fast as the transport takes them."""
    peer, payload = node.peers()[0].peer, bytes(size)
    theirs = await cpu_of(node, peer)
    ours, began, sent = cpu_seconds(), time.perf_counter(), 0
    while sent < count:
        if node.send(peer, kind, payload):
            sent += 1
        else:
            await trio.sleep(0.001)
    remote = (await cpu_of(node, peer) - theirs) * 1e6 / count
    spent, wall = cpu_since(ours) / count, time.perf_counter() - began
    name = f"flood_{kind.name.lower()}_of_{size}_bytes"
    return {
        f"{name}_per_second": round(count / wall),
        f"{name}_cpu_here_us": round(spent, 1),
        f"{name}_cpu_there_us": round(remote, 1),
    }


async def cpu_of(node: Libp2pTransport, peer: str) -> float:
    """Return the CPU seconds of the other process, after it has handled all earlier messages."""
    while not node.send(peer, FrameKind.GET_CERTS, b""):  # noqa: ASYNC110  # a full queue drains by itself
        await trio.sleep(0.01)
    while (message := await node.inbound.receive()).kind is not FrameKind.CERT:
        pass
    return float(message.payload)


def cpu_seconds() -> float:
    """Return the user and system time of this process in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_since(start: float) -> float:
    """Return the microseconds of CPU time since `start`."""
    return round((cpu_seconds() - start) * 1e6, 1)
