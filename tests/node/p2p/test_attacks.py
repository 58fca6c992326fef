"""Remotely usable faults of py-libp2p 0.8.1, and others: each tried on a running node, which survives."""

import gc
import os
import struct
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
import trio
from libp2p.crypto.rsa import create_new_key_pair as create_rsa_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_x25519_key_pair
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.security.noise.transport import Transport as NoiseTransport

from node.p2p import inbox, link
from node.p2p.admission import AdmissionLimits
from node.p2p.channel import BufferedTcp, ChannelClosed, SecureChannel
from node.p2p.connection import HANDSHAKE_CAP_BYTES, Connection, _negotiate_protocol
from node.p2p.frames import MAX_FRAME_BYTES, FrameKind, MessageClass, encode_frame
from node.p2p.hardening import NOISE
from node.p2p.hello import Hello, Role, encode_hello
from node.p2p.libp2p_transport import Libp2pTransport
from node.p2p.meter import RateLimits
from node.p2p.multistream import Initiator, encode_line
from p2p_hosts import CONFIG, GENESIS, handshaker, muxed_channel, peer_ids, running, socket_to, transport, until

pytestmark = pytest.mark.trio

CHURN = 300
"""More than the 250 inbound connections after which the library's swarm accepts no more."""
DATA, WINDOW_UPDATE = 0, 1
SYN, RST = 1, 8


def yamux_frame(kind: int, flags: int, stream: int, data: bytes = b"") -> bytes:
    return struct.pack(">BBHII", 0, kind, flags, stream, len(data)) + data


async def is_alive(node: Libp2pTransport, number: int = 99) -> bool:
    """Check that an honest peer can connect, exchange, and leave."""
    connection, _ = await handshaker(number).dial(await socket_to(node), node.peer_id)
    await connection.send(encode_frame([(FrameKind.VOTE, b"alive")]))
    message = await node.inbound.receive()
    while message.payload != b"alive":
        message = await node.inbound.receive()
    await connection.close()
    return node.faults == 0


async def dropped(channel: SecureChannel | BufferedTcp) -> None:
    """Wait until the node hangs up."""
    with pytest.raises(ChannelClosed):
        while True:
            await channel.some()


async def sees(channel: SecureChannel, expected: bytes) -> None:
    """Read until `expected` has come."""
    received = b""
    while expected not in received:
        received += await channel.some()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_1_connection_churn_leaves_nothing_behind() -> None:
    unhurried = replace(AdmissionLimits.devnet(), strangers_share=100.0)
    async with running() as nursery:
        node = transport(1, config=replace(CONFIG, admission=unhurried))
        await node.start(nursery)
        dialler = handshaker(2)
        tasks = files = 0
        for number in range(CHURN):
            connection, _ = await dialler.dial(await socket_to(node), node.peer_id)
            await connection.close()
            if number == 20:
                await until(lambda: len(node._admission) == 0)
                gc.collect()
                tasks, files = trio.lowlevel.current_statistics().tasks_living, open_files()
        await until(lambda: len(node._admission) == 0)
        assert node.counters["links_ended"] == CHURN
        assert trio.lowlevel.current_statistics().tasks_living <= tasks
        assert open_files() <= files + 2
        assert await is_alive(node)


@pytest.mark.parametrize("cut", [1, 3, 8, 40])
async def test_2_a_peer_that_leaves_mid_message_ends_its_connection_only(cut: int) -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        await until(lambda: bool(node.peers()))
        await connection.send(encode_frame([(FrameKind.VOTE, bytes(200))])[:cut])
        await connection.close()
        await until(lambda: not node.peers())
        assert await is_alive(node)


async def test_2_an_exception_of_our_own_ends_that_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        victim, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        bystander, _ = await handshaker(3).dial(await socket_to(node), node.peer_id)
        await until(lambda: len(node.peers()) == 2)

        async def bug(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(link, "_deliver_messages", bug)
        await victim.send(encode_frame([(FrameKind.VOTE, b"x")]))
        await until(lambda: node.faults == 1)
        monkeypatch.undo()
        await bystander.send(encode_frame([(FrameKind.VOTE, b"still here")]))
        assert (await node.inbound.receive()).payload == b"still here"
        assert peer_ids(node) == {handshaker(3).noise._noise_transport.local_peer.to_base58()}


def pubsub_message_with_bad_key() -> bytes:
    packet = rpc_pb2.RPC()
    message = packet.publish.add()
    message.data, message.from_id, message.seqno, message.key = b"d", b"f" * 8, b"1" * 8, b"\xff\xff"
    message.topicIDs.append("t")
    encoded = packet.SerializeToString()
    return bytes([len(encoded)]) + encoded


@pytest.mark.parametrize(
    "payload", [b"\x02\xff\xff", pubsub_message_with_bad_key()], ids=["crash A (no. 3)", "crash B (no. 4)"]
)
@pytest.mark.parametrize("stream", ["own stream", "frames stream"])
async def test_3_and_4_pubsub_bytes_reach_no_pubsub(payload: bytes, stream: str) -> None:
    """On /meshsub the answer is "na". On the stream of frames they are an impossible frame length."""
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        if stream == "own stream":
            channel = await muxed_channel(node, 2)
            asked = encode_line("/multistream/1.0.0") + encode_line("/meshsub/1.1.0")
            await channel.write(yamux_frame(WINDOW_UPDATE, SYN, 1) + yamux_frame(DATA, 0, 1, asked))
            await sees(channel, encode_line("na"))
            await channel.write(yamux_frame(DATA, 0, 1, payload))
            await sees(channel, yamux_frame(WINDOW_UPDATE, RST, 1))
        else:
            connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
            await connection.send(payload + bytes(8))
            await until(lambda: node.counters["banned"] == 1)
        assert await is_alive(node)


@pytest.mark.parametrize("where", ["negotiation", "frames", "no stream"])
async def test_5_a_sender_that_ignores_its_window_is_cut_off_within_bounded_memory(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(inbox.PEER_BYTES, MessageClass.CONSENSUS, 4 * MAX_FRAME_BYTES)
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        channel = await muxed_channel(node, 2)
        await channel.write(yamux_frame(WINDOW_UPDATE, SYN, 1))
        flood = bytes(60_000)
        if where == "frames":
            protocol = encode_line("/multistream/1.0.0") + encode_line(node.protocol)
            hello = encode_frame([(FrameKind.HELLO, encode_hello(Hello(GENESIS, Role.FULL, 0, b"")))])
            await channel.write(yamux_frame(DATA, 0, 1, protocol + hello))
            flood = encode_frame([(FrameKind.VOTE, bytes(59_000))])
        before = resident_bytes()
        stream = 77 if where == "no stream" else 1
        sent = 0
        with pytest.raises(ChannelClosed):
            while sent < 260_000_000:
                with trio.move_on_after(1.0) as pushed_back:
                    await channel.write(yamux_frame(DATA, 0, stream, flood))
                if pushed_back.cancelled_caught:
                    raise ChannelClosed("the node has stopped reading")
                sent += len(flood)
        assert sent < 40_000_000
        assert resident_bytes() - before < 60_000_000
        assert await is_alive(node)


async def test_n8_strangers_without_end_keep_no_known_host_out() -> None:
    limits = replace(AdmissionLimits.devnet(), strangers_share=0.001)
    async with running() as nursery:
        known = transport(2)
        await known.start(nursery)
        node = transport(1, known, config=replace(CONFIG, listen_host="0.0.0.0", admission=limits))
        await node.start(nursery)
        await until(lambda: bool(node.peers()))
        strangers = [await trio.open_tcp_stream("127.0.0.1", node.port, local_address="127.0.0.2") for _ in range(8)]
        await until(lambda: node.counters["inbound_refused"] == 7)
        assert await is_alive(node)
        for stranger in strangers:
            await trio.aclose_forcefully(stranger)


async def test_slow_loris_is_capped_and_others_get_in(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(AdmissionLimits.devnet(), max_handshakes=64, max_handshakes_per_address=8)
    async with running() as nursery:
        node = transport(1, config=replace(CONFIG, listen_host="0.0.0.0", admission=limits))
        await node.start(nursery)
        idle = [await trio.open_tcp_stream("127.0.0.1", node.port, local_address="127.0.0.2") for _ in range(100)]
        await until(lambda: node.counters["inbound_refused"] == 92)
        assert len(node._admission) == 8
        assert await is_alive(node)
        await until(lambda: len(node._admission) == 0)
        for stream in idle:
            await trio.aclose_forcefully(stream)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\x80" * 100_000,
        os.urandom(5000),
        encode_line("/multistream/1.0.0") + encode_line("/noise") + b"\xff\xff" + bytes(20_000),
        encode_line("/multistream/1.0.0") + encode_line("ls") * 2000,
    ],
    ids=["http", "tls", "endless varint", "random", "noise garbage", "ls flood"],
)
async def test_strangers_are_hung_up_on(garbage: bytes) -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        tcp = BufferedTcp(await socket_to(node), 10**6)
        with pytest.raises(ChannelClosed):
            await tcp.write(garbage)
            while True:
                await tcp.some()
        assert node.counters["inbound_failed"] == 1
        assert await is_alive(node)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        bytes(4),
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
        (5).to_bytes(4, "big") + b"\xdd\xff\xff\xff\xff",
        encode_frame([(FrameKind.HELLO, b"twice")]),
        encode_frame([(FrameKind.PING, b"short")]),
        encode_frame([(FrameKind.PEERS, b"\xc1")]),
    ],
    ids=["length 2^32", "length 0", "length over limit", "array bomb", "hello twice", "bad ping", "bad peers"],
)
async def test_a_known_peer_that_sends_garbage_is_banned_for_a_while(data: bytes) -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        await connection.send(data)
        await until(lambda: node.counters["banned"] == 1)
        await until(lambda: not node.peers())
        assert node._peer_table.is_banned(connection.peer_id, 0.0) is False
        assert await is_alive(node)


async def test_unknown_kinds_are_ignored_but_not_without_end() -> None:
    newer = msgpack.packb([1, [[200, b"new"]]])
    frame = len(newer).to_bytes(4, "big") + newer
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        await connection.send(frame * link.UNKNOWN_KINDS_PER_MINUTE + encode_frame([(FrameKind.VOTE, b"v")]))
        assert (await node.inbound.receive()).payload == b"v"
        await connection.send(frame * 2)
        await until(lambda: node.counters["banned"] == 1)
        assert await is_alive(node)


async def test_a_flood_within_the_protocol_is_not_read_and_others_are_served() -> None:
    rates = RateLimits(bytes_per_second=1.0, burst_bytes=1_000_000)
    async with running() as nursery:
        node = transport(1, config=replace(CONFIG, rates=rates))
        await node.start(nursery)
        flooder = transport(2, node, config=replace(CONFIG, rates=RateLimits(1e12, 1e12)))
        await flooder.start(nursery)
        await until(lambda: bool(flooder.peers()))
        accepted = sum(flooder.send(node.peer_id, FrameKind.TX, bytes(60_000)) for _ in range(60))
        assert accepted == 60
        assert await is_alive(node)
        await until(lambda: node.peers()[0].received_bytes > 1_000_000)
        for _ in range(3):
            assert await is_alive(node)
        assert node.peers()[0].received_bytes < 2_000_000


async def test_only_ed25519_identities_are_heard() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        tcp = BufferedTcp(await socket_to(node), HANDSHAKE_CAP_BYTES)
        await _negotiate_protocol(tcp, Initiator(NOISE))
        noise = NoiseTransport(create_rsa_key_pair(2048), create_x25519_key_pair().private_key)
        await noise.secure_outbound(RawConnection(tcp, True), ID.from_base58(node.peer_id))
        await dropped(tcp)
        assert node.counters["inbound_failed"] == 1
        assert await is_alive(node)


async def test_a_tampered_record_ends_the_connection() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        await until(lambda: bool(node.peers()))
        await connection._channel._tcp.write(b"\x00\x20" + bytes(32))
        await until(lambda: not node.peers())
        assert await is_alive(node)


async def test_a_second_stream_of_frames_is_refused() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        second = connection._yamux_session.open()
        connection._negotiate(second, Initiator(node.protocol))
        await connection._write_waiting()
        await connection.send(encode_frame([(FrameKind.VOTE, b"first stream lives")]))
        assert (await node.inbound.receive()).payload == b"first stream lives"
        assert isinstance(connection, Connection)


async def test_n1_cheap_consensus_messages_are_read_at_a_healthy_peers_rate() -> None:
    rates = RateLimits(consensus_per_second=50, consensus_burst=100)
    async with running() as nursery:
        node = transport(1, config=replace(CONFIG, rates=rates))
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        frame = encode_frame([(FrameKind.VOTE, bytes([0]))] * 100)
        with trio.move_on_after(1.0):
            for _ in range(100):
                await connection.send(frame)
            await trio.sleep_forever()
        # The frame that empties the bucket is read whole. Later ones wait in the sender's own buffers.
        assert 100 <= len(node.inbound) <= 300
        assert peer_ids(node), "a moment too fast is no crime"
        assert await is_alive(node)


async def test_n1_whoever_floods_consensus_messages_for_seconds_is_banned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE_SECONDS", 0.2)
    rates = RateLimits(consensus_per_second=500, consensus_burst=100)
    async with running() as nursery:
        node = transport(1, config=replace(CONFIG, rates=rates))
        await node.start(nursery)
        connection, _ = await handshaker(2).dial(await socket_to(node), node.peer_id)
        frame = encode_frame([(FrameKind.VOTE, bytes([0]))] * 100)
        with pytest.raises(ChannelClosed):
            while True:
                await connection.send(frame)
        await until(lambda: node.counters["banned"] == 1)
        assert await is_alive(node)
