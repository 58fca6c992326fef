"""CPU time of the peer-to-peer transport between two processes on loopback: questions and answers, floods, blocks.

Run: python benchmarks/p2p.py            about 15 seconds; one line for each measurement
CPU is user and system time of one process; both ends cost about the same.
"""

import os
import random
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trio

from node.p2p.frames import Kind
from node.p2p.identity import identity_from_seed
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.meter import RateLimits

UNLIMITED = RateLimits(1e12, 1e12, 1e12, 1e12)
MESSAGE_BYTES = 200


def transport(number: int) -> Libp2pTransport:
    """A node of the measured network."""
    config = TransportConfig(genesis=bytes(32), devnet=True, rates=UNLIMITED)
    return Libp2pTransport(config, identity_from_seed(bytes([number]) * 32), lambda *_: True, random.Random(number))


async def answer(port: int) -> None:
    """The other process: answers every question, takes everything else in."""
    node = transport(1)  # its id is the higher one, so the other side dials at once
    async with trio.open_nursery() as nursery:
        await node.start(nursery)
        os.write(port, node.address.encode())
        async for message in node.inbound:
            if message.kind is Kind.POLL_QUERY:
                node.send(message.peer, Kind.CHITS, message.payload)
            elif message.kind is Kind.GET_CERTS:
                node.send(message.peer, Kind.CERT, repr(cpu_seconds()).encode())


async def measure(address: str) -> None:
    """All measurements, one after the other."""
    node = transport(2)
    async with trio.open_nursery() as nursery:
        await node.start(nursery)
        start, began = cpu_seconds(), time.perf_counter()
        node.connect(address)
        await node.events.receive()
        print(
            f"connect, Noise, hello     {(time.perf_counter() - began) * 1e3:8.1f} ms   CPU {cpu_since(start):8.0f} us"
        )
        for in_flight in (1, 10, 50, 200):
            await pairs(node, in_flight, rounds=max(20, 2000 // in_flight))
        async with trio.open_nursery() as beside:
            beside.start_soon(trickle, node)
            print("beside 10,000 TX a second: ", end="")
            await pairs(node, 1, rounds=200)
            beside.cancel_scope.cancel()
        await flood(node, Kind.TX, MESSAGE_BYTES, 40_000)
        await flood(node, Kind.BLOCK, 1_900_000, 60)
        nursery.cancel_scope.cancel()


async def pairs(node: Libp2pTransport, in_flight: int, rounds: int) -> None:
    """Questions and answers, `in_flight` at once, each round when the last is complete."""
    peer, payload = node.peers()[0].peer, bytes(MESSAGE_BYTES)
    theirs = await cpu_of(node, peer)
    ours, latencies = cpu_seconds(), []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(in_flight):
            node.send(peer, Kind.POLL_QUERY, payload)
        for _ in range(in_flight):
            await node.inbound.receive()
        latencies.append(time.perf_counter() - began)
    count = rounds * in_flight
    spent = cpu_since(ours) / count
    remote = (await cpu_of(node, peer) - theirs) * 1e6 / count
    print(
        f"{MESSAGE_BYTES} B pairs, {in_flight:4} at once   p50 {statistics.median(latencies) * 1e3:6.2f} ms   "
        f"CPU per pair {spent:6.1f} us here, {remote:6.1f} us there"
    )


async def trickle(node: Libp2pTransport) -> None:
    """Gossip of 10,000 small messages a second."""
    peer, payload = node.peers()[0].peer, bytes(MESSAGE_BYTES)
    while True:
        for _ in range(50):
            node.send(peer, Kind.TX, payload)
        await trio.sleep(0.005)


async def flood(node: Libp2pTransport, kind: Kind, size: int, count: int) -> None:
    """Many messages one way, as fast as they go."""
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
    print(
        f"{size} B {kind.name} one way   {count / wall:9.0f} /s {size * count / wall / 1e6:7.1f} MB/s   "
        f"CPU each {spent:7.1f} us here, {remote:7.1f} us there"
    )


async def cpu_of(node: Libp2pTransport, peer: str) -> float:
    """CPU seconds of the other process, once it has dealt with everything before."""
    while not node.send(peer, Kind.GET_CERTS, b""):  # noqa: ASYNC110 - a full queue drains by itself
        await trio.sleep(0.01)
    while (message := await node.inbound.receive()).kind is not Kind.CERT:
        pass
    return float(message.payload)


def cpu_seconds() -> float:
    """User and system time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_since(start: float) -> float:
    """Microseconds of CPU since `start`."""
    return (cpu_seconds() - start) * 1e6


if __name__ == "__main__":
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        trio.run(answer, writer)
    try:
        trio.run(measure, os.read(reader, 1000).decode())
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
