"""Interoperation with an unmodified py-libp2p host: our protocol is libp2p (TCP, multistream-select, Noise, yamux)."""

from dataclasses import replace

import pytest
import trio
from libp2p import new_host
from libp2p.network.stream.net_stream import NetStream
from libp2p.peer.peerinfo import info_from_p2p_addr
from multiaddr import Multiaddr  # type: ignore[import-untyped]

from node.p2p.frames import FrameKind, FrameReader, decode_frame, encode_frame
from node.p2p.hardening import UnsupportedLibp2p, check_version
from node.p2p.hello import Hello, Role, encode_hello
from node.p2p.inbox import InboxMessage
from p2p_hosts import CONFIG, GENESIS, identity, running, transport, until

HELLO = encode_frame([(FrameKind.HELLO, encode_hello(Hello(GENESIS, Role.FULL, 0, b"")))])


async def next_messages(stream: NetStream, reader: FrameReader) -> list[tuple[FrameKind, bytes]]:
    """The messages of the next frames, without the transport's own pings and introductions."""
    while True:
        bodies = reader.feed(await stream.read(65536))
        messages = [message for body in bodies for message in decode_frame(body).messages]
        wanted = [message for message in messages if message[0] not in (FrameKind.PING, FrameKind.PEERS)]
        if wanted:
            return wanted


@pytest.mark.trio
async def test_a_stock_host_dials_us() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        host = new_host(key_pair=identity(2).key_pair)
        async with host.run(listen_addrs=[Multiaddr("/ip4/127.0.0.1/tcp/0")]):
            await host.connect(info_from_p2p_addr(Multiaddr(node.address)))
            stream = await host.new_stream(info_from_p2p_addr(Multiaddr(node.address)).peer_id, [node.protocol])
            reader = FrameReader()
            await stream.write(HELLO)
            assert [kind for kind, _ in await next_messages(stream, reader)] == [FrameKind.HELLO]
            block = bytes(1_500_000)
            await stream.write(encode_frame([(FrameKind.BLOCK, block)]))
            assert await node.inbound.receive() == InboxMessage(identity(2).peer_id, FrameKind.BLOCK, block)
            node.broadcast(FrameKind.BLOCK, block)
            assert await next_messages(stream, reader) == [(FrameKind.BLOCK, block)]
            await host.close()


@pytest.mark.trio
async def test_we_dial_a_stock_host() -> None:
    received: list[tuple[FrameKind, bytes]] = []

    async def handle(stream: NetStream) -> None:
        reader = FrameReader()
        received.extend(await next_messages(stream, reader))
        await stream.write(HELLO)
        received.extend(await next_messages(stream, reader))
        await stream.write(encode_frame([(FrameKind.CHITS, b"answer")]))
        await trio.sleep_forever()

    async with running() as nursery:
        node = transport(1, config=replace(CONFIG))
        await node.start(nursery)
        host = new_host(key_pair=identity(2).key_pair)
        host.set_stream_handler(node.protocol, handle)
        async with host.run(listen_addrs=[Multiaddr("/ip4/127.0.0.1/tcp/0")]):
            port = host.get_addrs()[0].value_for_protocol("tcp")
            node.connect(f"/ip4/127.0.0.1/tcp/{port}/p2p/{identity(2).peer_id}")
            await until(lambda: bool(node.peers()))
            node.broadcast(FrameKind.POLL_QUERY, b"question")
            assert await node.inbound.receive() == InboxMessage(identity(2).peer_id, FrameKind.CHITS, b"answer")
            assert [kind for kind, _ in received] == [FrameKind.HELLO, FrameKind.POLL_QUERY]
            await node.stop()
            await host.close()


def test_another_version_of_the_library_is_refused() -> None:
    check_version()
    with pytest.raises(UnsupportedLibp2p, match=r"0\.8\.2 .*libp2p==0\.8\.1"):
        check_version("0.8.2")
