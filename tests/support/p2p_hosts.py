"""Real transports on loopback for tests, and an attacker who has passed the handshake."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from node.p2p.channel import BufferedTcp, SecureChannel
from node.p2p.connection import HANDSHAKE_CAP_BYTES, _negotiate_protocol
from node.p2p.handshake import Handshaker, OnHello
from node.p2p.hardening import NOISE, NoiseUpgrade
from node.p2p.hello import Hello, Role
from node.p2p.identity import NodeIdentity, identity_from_seed
from node.p2p.inbox import nobody
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.multistream import Initiator
from node.p2p.work import IsValidator, ReadingAccounts
from streams.yamux import PROTOCOL as YAMUX

GENESIS = bytes(range(32))
DEADLINE_SECONDS = 30.0
"""No test takes so long. The deadline turns a hang into a failure."""
_SOCKETS: list[trio.SocketStream] = []
CONFIG = TransportConfig(genesis=GENESIS, devnet=True)


def identity(number: int) -> NodeIdentity:
    return identity_from_seed(number.to_bytes(32, "big"))


def accept_all(_peer: str, _role: Role, _proof: bytes) -> bool:
    return True


def transport(
    number: int,
    *boot: Libp2pTransport,
    config: TransportConfig = CONFIG,
    on_hello: OnHello = accept_all,
    is_validator: IsValidator = nobody,
) -> Libp2pTransport:
    bootnodes = tuple(node.address for node in boot)
    chosen = replace(config, bootnodes=bootnodes)
    return Libp2pTransport(chosen, identity(number), on_hello, random.Random(number), is_validator)


@asynccontextmanager
async def running() -> AsyncIterator[trio.Nursery]:
    """A nursery for transports, cancelled at the end, with a deadline over all."""
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
        while _SOCKETS:
            await trio.aclose_forcefully(_SOCKETS.pop())


async def until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, up to the deadline of `running`."""
    while not condition():
        await trio.sleep(0.005)


def peer_ids(node: Libp2pTransport) -> set[str]:
    return {info.peer for info in node.peers()}


def handshaker(number: int, genesis: bytes = GENESIS, protocol: str = "/ogpu/00010203/1") -> Handshaker:
    """A peer that dials by hand."""
    hello = Hello(genesis, Role.FULL, 0, b"")
    return Handshaker(NoiseUpgrade(identity(number)), protocol, hello, accept_all, ReadingAccounts(nobody, 0.0))


async def socket_to(node: Libp2pTransport) -> trio.SocketStream:
    """Open a bare connection. `running` closes it."""
    stream = await trio.open_tcp_stream("127.0.0.1", node.port)
    _SOCKETS.append(stream)
    return stream


async def muxed_channel(node: Libp2pTransport, number: int) -> SecureChannel:
    """Open an authenticated channel up to the first yamux frame. The caller writes any bytes."""
    tcp = BufferedTcp(await socket_to(node), HANDSHAKE_CAP_BYTES)
    await _negotiate_protocol(tcp, Initiator(NOISE))
    channel = await NoiseUpgrade(identity(number)).outbound(tcp, node.peer_id)
    await _negotiate_protocol(channel, Initiator(YAMUX))
    return channel
