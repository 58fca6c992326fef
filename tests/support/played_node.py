"""A node's side of the RPC feed in one process: a real chain in memory, real frames, no consensus.

Each of its final blocks has the certificate of Alice, the only validator of the development chain.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from consensus.certificates import CERTIFICATE, Certificate, make_certificate
from consensus.handoffs import HANDOFF, Handoff
from consensus.parameters import DEVNET
from consensus.validators import Validator, ValidatorSet
from genesis import dev_accounts
from genesis.chain import genesis_state, runtime_of
from genesis.presets import load_spec
from node.feed import messages as feed
from node.feed.client import FeedClient
from node.rpc import work
from node.rpc.__main__ import registry_for
from node.rpc.methods import author
from node.rpc.replica import Replica
from node.rpc.server import Server, ServerOptions
from runtime.blocks.block import HEADER, Block, Header, block_id, genesis_header
from runtime.blocks.digest import Digest, FinalRef, NextValidators, consensus_item
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import Memory
from runtime.state.trie import Trie
from small_chain import SmallChain

SPEC = load_spec("dev")
PROPERTIES = '{"ss58Format":42,"tokenDecimals":8,"tokenSymbol":"oGPU"}'


class DevChain(SmallChain):
    """The development chain, grown by hand. It keeps the changes of each block."""

    def __init__(self) -> None:
        self.runtime = runtime_of(SPEC)
        self.state = Memory(genesis_state(SPEC))
        self.trie = Trie(self.state.values)
        self.head = genesis_header(self.trie.root)
        self.genesis_hash = block_id(self.head)
        self.events = ()

    def digest(self, *, final: tuple[int, bytes] | None = None) -> Digest:
        """The next block's. At an epoch's end it names the next set, and at its start a final block."""
        height = self.head.number
        if final is None and DEVNET.is_boundary(height):
            final = height, block_id(self.head)
        logs: list[FinalRef | NextValidators] = []
        if final is not None:
            logs.append(FinalRef(*final, certify(self, *final)))
        following = self.bound[TrustStake].next_validators(height + 1)
        if following is not None:
            logs.append(following)
        return *super().digest(), *map(consensus_item, logs)


class PlayedNode:
    """Sends a node's messages. Submitted extrinsics wait in `pool`."""

    def __init__(self) -> None:
        self.chain = DevChain()
        self.pool: list[bytes] = []
        self.blocks: dict[bytes, Block] = {}
        # Blocks that only this node has: header and extrinsics.
        self.known: dict[bytes, Any] = {self.chain.genesis_hash: [HEADER.encode(self.chain.head), []]}
        self.ids: list[bytes] = [self.chain.genesis_hash]
        self.final = 0
        self.tries = {self.chain.genesis_hash: self.chain.trie}
        self.asked: list[feed.SubmitMany] = []
        self.new_keys = b"keys", b"proof"
        self._writer: asyncio.StreamWriter

    async def on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        pairs: list[list[bytes]] = [[key, value] for key, value in sorted(self.chain.state.values.items())]
        hello = feed.FeedHello(
            SPEC.name, SPEC.id, SPEC.chain_type, SPEC.parameters, self.chain.genesis_hash,
            PROPERTIES, 1, "Alice", "0.1", True, "", [],
        )  # fmt: skip
        self._send(hello)
        half = len(pairs) // 2
        self._send(feed.Snapshot(HEADER.encode(self.chain.head), pairs[:half], False))
        self._send(feed.Snapshot(HEADER.encode(self.chain.head), pairs[half:], True))
        self._send_status()
        decoder = feed.Decoder()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                for frame in decoder.feed(data):
                    self._answer(cast("feed.Request", frame))
        writer.close()

    def author(self, *, finalise: bool = True, tell: bool = True) -> bytes:
        """Author a block of everything in the pool and return its id. Without `tell`, no status names it yet."""
        taken, self.pool = self.pool, []
        block = self.chain.author(*taken)
        new_id = block_id(block.header)
        written = [[key, value] for key, value in sorted(self.chain.changes.items())]
        self.blocks[new_id] = block
        self.ids.append(new_id)
        self.tries[new_id] = self.chain.trie
        self._send(feed.ImportedBlock(new_id, HEADER.encode(block.header), list(block.extrinsics), written))
        for raw in taken:
            self._send(feed.ExtrinsicStatus(blake2_256(raw), "in_block", new_id))
        if finalise:
            self.final = len(self.ids) - 1
            for raw in taken:
                self._send(feed.ExtrinsicStatus(blake2_256(raw), "finalized", new_id))
        if tell:
            self._send_status()
        return new_id

    def finalise(self) -> None:
        """Finalise every block."""
        self.final = len(self.ids) - 1
        self._send_status()

    def _answer(self, request: feed.Request) -> None:
        match request:
            case feed.Submit():
                self._submit(request)
            case feed.Prove():
                self._prove(request)
            case feed.RotateKeys():
                self._send(feed.RequestResult(request.request_id, list(self.new_keys)))
            case _:
                self._send(feed.RequestResult(request.request_id, self._value(request)))

    def _value(self, request: feed.Request) -> Any:
        match request:
            case feed.SubmitMany():
                self.asked.append(request)
                return [self._outcome(raw) for raw in request.extrinsics]
            case feed.Pending():
                return list(self.pool)
            case feed.NextNonce():
                return request.nonce
            case feed.ListPeers():
                return []
            case feed.IdAt():
                return self.ids[request.height] if request.height < len(self.ids) else None
            case feed.BlockAt():
                return self._block(request.block_id)
            case feed.CertificateAt():
                return self._certified(request.height)
            case feed.HandoffsFrom():
                return self._handoffs(request)
            case feed.Inspect():
                return {"topic": request.topic, "id": b"\1\2"}
            case _:
                raise AssertionError(request)

    def _submit(self, request: feed.Submit) -> None:
        if request.extrinsic in self.pool:
            self._send(feed.Refused(request.request_id, 1013, "Transaction is already imported", ""))
            return
        self.pool.append(request.extrinsic)
        self._send(feed.ExtrinsicStatus(blake2_256(request.extrinsic), "ready", None))
        self._send(feed.RequestResult(request.request_id, blake2_256(request.extrinsic)))

    def _block(self, block_id: bytes) -> Any:
        block = self.blocks.get(block_id)
        return self.known.get(block_id) if block is None else [HEADER.encode(block.header), list(block.extrinsics)]

    def _prove(self, request: feed.Prove) -> None:
        trie = self.tries.get(request.block_id)
        if trie is None:
            self._send(feed.Refused(request.request_id, 4003, "State already discarded", ""))
            return
        nodes: feed.Value = [*trie.prove(request.keys)]
        self._send(feed.RequestResult(request.request_id, nodes))

    def _certified(self, height: int) -> Any:
        if not 0 < max(1, height) <= self.final:
            return None
        found = self.ids[max(1, height)]
        return [found, certify(self.chain, max(1, height), found), HEADER.encode(self.blocks[found].header)]

    def _handoffs(self, request: feed.HandoffsFrom) -> list[bytes]:
        ends = [(epoch, DEVNET.boundary(epoch)) for epoch in range(request.epoch, request.epoch + request.count)]
        return [
            hand_on(self.chain, epoch, self.blocks[self.ids[end]].header) for epoch, end in ends if end <= self.final
        ]

    def _outcome(self, extrinsic: bytes) -> Any:
        if extrinsic in self.pool:
            return [1013, "Transaction is already imported", ""]
        self.pool.append(extrinsic)
        return blake2_256(extrinsic)

    def _send_status(self) -> None:
        head = len(self.ids) - 1
        self._send(
            feed.NodeStatus(self.ids[head], head, self.ids[self.final], self.final, head, False, 0, len(self.pool), 0)
        )

    def _send(self, frame: feed.Frame) -> None:
        self._writer.write(feed.pack(frame))


def certify(chain: DevChain, height: int, block: bytes, kind: BallotKind = BallotKind.FINALISE) -> bytes:
    """Alice's certificate for a block, encoded."""
    return CERTIFICATE.encode(_certificate(chain, height, block, kind))


def hand_on(chain: DevChain, epoch: int, header: Header) -> bytes:
    """Return the encoded handoff from an epoch with this last header."""
    certificate = _certificate(chain, header.number, block_id(header), BallotKind.FINALISE)
    return HANDOFF.encode(Handoff(HEADER.encode(header), certificate, chain.bound[TrustStake].validators(epoch + 1)))


def _certificate(chain: DevChain, height: int, block: bytes, kind: BallotKind) -> Certificate:
    ballot = Ballot(kind, DEVNET.epoch_of(height), height, height, block)
    seats = chain.bound[TrustStake].validators(ballot.epoch)
    members = tuple(Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in seats)
    public, secret = keypair_from_seed(Scheme.ED25519, dev_accounts.key_seed("Alice", dev_accounts.SESSION))
    signature = sign(Scheme.ED25519, public, secret, ballot_payload(chain.genesis_hash, ballot))
    return make_certificate(ballot, ValidatorSet(ballot.epoch, members), {public: signature})


@contextlib.asynccontextmanager
async def served(folder: Path, options: ServerOptions | None = None) -> AsyncIterator[tuple[PlayedNode, int]]:
    """Yield a played node behind a real RPC server, and the server's port."""
    node = PlayedNode()
    server = await asyncio.start_unix_server(node.on_connect, folder / "feed")
    client = await FeedClient.connect(folder / "feed")
    replica = Replica()
    frames = client.frames()
    while not replica.is_ready:
        replica.apply(await anext(frames))

    async def follow() -> None:
        async for frame in frames:
            replica.apply(frame)

    task = asyncio.create_task(follow())
    rpc = Server(registry_for(replica, client), options or ServerOptions(port=0))
    try:
        with (
            # This process has far more to collect than a node: one collection would end the call that it falls into.
            patch.object(work, "CALL_SECONDS", 60.0),
            # Blocks here are final at once, and our own programs need no time between the two statuses.
            patch.object(author, "IN_BLOCK_SECONDS", 0.0),
        ):
            async with rpc.listening() as port:
                yield node, port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
        server.close()


def has_begun(node: PlayedNode) -> bool:
    """Return True after a first message, because an input is sealed at a height with a final beacon."""
    return bool(node.pool or node.final)


@contextlib.asynccontextmanager
async def growing(node: PlayedNode, seconds: float, when: Callable[[PlayedNode], bool]) -> AsyncIterator[None]:
    """Run a chain that grows by a block every `seconds` while `when` holds."""

    async def grow() -> None:
        while True:
            await asyncio.sleep(seconds)
            if when(node):
                node.author()

    task = asyncio.create_task(grow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
