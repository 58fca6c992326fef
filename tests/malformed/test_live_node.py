"""A real node with its RPC process: meaningless bytes arrive on every connection, and it continues to finalise."""

from __future__ import annotations

import asyncio
import io
import json
import random
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
import trio

from consensus.wire import MESSAGE, NeedCerts, PullQuery
from damage import damaged
from devnet.launcher.free_ports import one_free_port
from genesis.chain import genesis_block_header, genesis_state
from genesis.presets import load_spec
from node.p2p.channel import ChannelClosed
from node.p2p.frames import FrameKind, encode_frame
from node.p2p.handshake import HandshakeFailed
from node.p2p.identity import identity_from_seed
from node.peers.messages import GET_BLOCKS, GET_HANDOFFS, HANDOFFS, STATUS, GetBlocks, GetHandoffs, PeerStatus
from node_process import NodeProcess, wait_for
from p2p_hosts import handshaker
from runtime.blocks.block import block_id
from simulation.replay.record import Recording

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
NODE_SEED = bytes(31) + b"\7"
GENESIS = block_id(genesis_block_header(genesis_state(load_spec("dev"))))
PROTOCOL = f"/ogpu/{GENESIS[:4].hex()}/1"
CLOSING_SECONDS = 0.25  # a connection with unsent bytes closes only after its session has
JSON = {"content-type": "application/json"}

STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    bytes.fromhex("16030100c8010000c40303") + bytes(200),
    b"\x80" * 10_000,
    b"\x13/multistream/1.0.0\n" + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x13/multistream/1.0.0\n\x07/noise\n" + bytes(5_000),
    b"",
)
WEBSOCKET = b"\r\n".join(
    (
        b"GET / HTTP/1.1",
        b"Host: localhost",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        b"",
        b"",
    )
)
HTTP = (
    b"GARBAGE\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    WEBSOCKET + b"\xff" * 10,
    WEBSOCKET + b"\x81\xff" + b"\xff" * 20,
)
BODIES = (
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[]",
    b"[1, 2, 3]",
    b'{"jsonrpc":"2.0","id":1,"method":' + b"9" * 5_000 + b"}",
    b'{"jsonrpc":"2.0","id":NaN,"method":"system_name"}',
    b'{"jsonrpc":"2.0","id":1,"method":"chain_getHeader","params":{"a":1}}',
    b'{"jsonrpc":"2.0","id":1,"method":"author_submitExtrinsic","params":["0x"]}',
    b'{"jsonrpc":"2.0","id":1,"method":"author_submitExtrinsic","params":["0xzz"]}',
    b'{"jsonrpc":"2.0","id":1,"method":"ogpu_submitAttestation","params":["0x00"]}',
    b'{"jsonrpc":"2.0","id":1,"method":"state_getStorage","params":["' + b"0" * 900_000 + b'"]}',
    b'{"jsonrpc":"2.0","id":1,"method":"state_getReadProof","params":[["0x00"],"0x00"]}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"system_name","params":[]}',
    b"0" * 20_000_000,
    json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "system_name"}] * 1_000).encode(),
)


class Attacked:
    """The node, its ports, and a seeded random source."""

    def __init__(self, folder: Path) -> None:
        self.rpc_port = one_free_port()
        flags = ("--dev", "--node-key", NODE_SEED.hex(), "--rpc-port", str(self.rpc_port))
        self.process = NodeProcess(folder, "dev", *flags)
        self.chance = random.Random(5)

    def goes_on(self) -> None:
        """Check that it finalises more blocks, and answers."""
        before = self.process.final_height()
        wait_for(lambda: self.process.final_height() >= before + 2, 30)
        answer = asyncio.run(self.ask(b'{"jsonrpc":"2.0","id":1,"method":"chain_getFinalizedHead"}'))
        assert json.loads(answer)["result"].startswith("0x")

    async def ask(self, body: bytes) -> str:
        url = f"http://127.0.0.1:{self.rpc_port}/"
        async with aiohttp.ClientSession() as session, session.post(url, data=io.BytesIO(body), headers=JSON) as answer:
            text = await answer.text()
        await asyncio.sleep(CLOSING_SECONDS)
        return text

    def write(self, port: int, data: bytes) -> None:
        """Connect as a stranger, write some bytes and leave."""
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(data)
            stranger.settimeout(0.2)
            with suppress(TimeoutError):
                stranger.recv(100)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    attacked = Attacked(tmp_path_factory.mktemp("attacked"))
    try:
        attacked.process.start()
        wait_for(lambda: attacked.process.final_height() >= 2, 60)
        wait_for(lambda: "rpc listening" in attacked.process.log.read_text(), 30)
        yield attacked
        assert attacked.process.kill(signal.SIGTERM) == 0, "it was running and in order until the end"
        assert "Traceback" not in attacked.process.log.read_text()
    finally:
        attacked.process.close()


@pytest.mark.parametrize("data", STRANGERS, ids=range(len(STRANGERS)))
def test_strangers_on_the_peer_port(node: Attacked, data: bytes) -> None:
    for _ in range(3):
        node.write(node.process.port, data)
    node.goes_on()


def test_bytes_that_are_no_http(node: Attacked) -> None:
    for data in HTTP:
        node.write(node.rpc_port, data)
        node.write(node.process.metrics_port, data)
    node.goes_on()


def test_requests_that_are_no_requests(node: Attacked) -> None:
    for body in BODIES:
        with suppress(aiohttp.ClientError, ConnectionError):
            answer = asyncio.run(node.ask(body))
            assert "Traceback" not in answer
    node.goes_on()


def test_damaged_extrinsics_by_rpc(node: Attacked) -> None:
    raws = extrinsics()

    async def submit() -> set[int]:
        url, codes = f"http://127.0.0.1:{node.rpc_port}/", set()
        async with aiohttp.ClientSession() as session:
            for _ in range(300):
                raw = damaged(node.chance.choice(raws), node.chance)
                call = {"jsonrpc": "2.0", "id": 1, "method": "author_submitExtrinsic", "params": ["0x" + raw.hex()]}
                async with session.post(url, json=call) as answer:
                    codes.add((await answer.json())["error"]["code"])
        await asyncio.sleep(CLOSING_SECONDS)
        return codes

    assert asyncio.run(submit()) <= {1001, 1010, 1011, 1012, -32602, -32029}
    node.goes_on()


def extrinsics() -> list[bytes]:
    """Return well-formed extrinsics of another chain."""
    recording = Recording(2)
    while recording.count < 40:
        recording.block()
    return recording.extrinsics()


def test_a_peer_that_sends_damage_of_every_kind(node: Attacked) -> None:
    recording = Recording(3)
    recording.block()
    whole = {
        FrameKind.POLL_QUERY: MESSAGE.encode(PullQuery(1, bytes(32), 2**32 - 1)),
        FrameKind.GET_CERTS: MESSAGE.encode(NeedCerts(0, 0, 2**32 - 1, 0, b"\x0f")),
        FrameKind.VOTE: bytes(300),
        FrameKind.CHITS: bytes(109),
        FrameKind.CERT: b"\4\4" + bytes(200),
        FrameKind.EVIDENCE: bytes(50),
        FrameKind.BLOCK: recording.blocks[0],
        FrameKind.BLOCKS: recording.blocks[0],
        FrameKind.STATUS: STATUS.encode(PeerStatus(b"\1" * 32, 2**32 - 1, b"\1" * 32, 2**32 - 1)),
        FrameKind.GET_BLOCKS: GET_BLOCKS.encode(GetBlocks(GENESIS, 2**32 - 1)),
        FrameKind.GET_HANDOFFS: GET_HANDOFFS.encode(GetHandoffs(2**32 - 1, 255)),
        FrameKind.HANDOFFS: HANDOFFS.encode((bytes(4_000),) * 16),
        FrameKind.TX: extrinsics()[0],
        FrameKind.ATTESTATION: bytes(400),
        FrameKind.PEERS: b"\xc0",
    }
    sent = trio.run(send_all, node, whole)
    assert sent >= len(whole), "the node heard every kind at least once"
    node.goes_on()


async def send_all(node: Attacked, whole: dict[FrameKind, bytes]) -> int:
    """Send each kind, whole and damaged, on a separate connection until the node closes it."""
    peer, sent = identity_from_seed(NODE_SEED).peer_id, 0
    for number, (kind, payload) in enumerate(whole.items()):
        with suppress(HandshakeFailed, ChannelClosed, OSError):
            async with await trio.open_tcp_stream("127.0.0.1", node.process.port) as stream:
                connection, _ = await handshaker(1_000 + number, GENESIS, PROTOCOL).dial(stream, peer)
                for attempt in range(20):
                    body = damaged(payload, node.chance) if attempt else payload
                    await connection.send(encode_frame([(kind, body)]))
                    sent += 1
                    await trio.sleep(0.01)
    return sent
