"""Attacks of an authenticated stranger with blocks and transactions, and on the pool of transactions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import trio

from devnet.launcher.layout import Devnet
from devnet.proofs.flood.attack import Attack, Scene, victim_of
from devnet.proofs.flood.intruder import FloodMessage, HostilePeer, Make, assail, prepared_floods
from genesis import dev_accounts
from genesis.chain import runtime_for
from genesis.parameters import CONSENSUS
from node.p2p.frames import FrameKind
from node.peers.messages import BLOCKS
from runtime.blocks.block import BLOCK, HEADER, Block, Header, extrinsics_root
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.blocks.era import IMMORTAL, Era, mortal
from runtime.blocks.extrinsic import Additional, Extra, MultiSignature, encode_signed, payload_head, signing_payload
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.call import Call
from runtime.frame.runtime import Runtime
from runtime.frame.weights import EXTRINSICS_PER_BLOCK_MAX
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.rpc import RpcError
from wallet.suri import keypair_from_suri

TINY, TINY_COUNT = b"\x04\x00", EXTRINSICS_PER_BLOCK_MAX
UNKNOWN_PARENT_RULE = "blocks with unknown parents that nobody ever has"


def header(parent: bytes, number: int, root: bytes, author: str) -> Header:
    """Return a header of the current slot that names `author`, with a random seal."""
    slot = time.time_ns() // 1_000_000 // CONSENSUS["devnet"].slot_ms
    vrf_output, vrf_proof = os.urandom(32), os.urandom(80)
    items = (
        author_item(dev_accounts.stash(author)),
        pre_digest_item(PreDigest(slot, 0, vrf_output, vrf_proof)),
        seal_item(os.urandom(64)),
    )
    return Header(parent, number, os.urandom(32), root, items)


def tiny_body() -> tuple[bytes, bytes]:
    """Return the encoded body with the largest number of the smallest extrinsics, and its root."""
    extrinsics = (TINY,) * TINY_COUNT
    root = extrinsics_root(extrinsics)
    some_header = header(bytes(32), 1, root, "Alice")
    block = BLOCK.encode(Block(some_header, extrinsics))
    return block[len(HEADER.encode(some_header)) :], root


def _tiny_extrinsics(_: Scene) -> Make:
    body, root = tiny_body()

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        height = intruder.standing.tip_height if intruder.standing else 1
        return FrameKind.BLOCK, HEADER.encode(header(os.urandom(32), height + 2, root, "Alice")) + body

    return make


def _unsealed_blocks(scene: Scene) -> Make:
    (body, root), names = tiny_body(), [member.name for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        standing = intruder.standing
        parent, height = (standing.tip, standing.tip_height) if standing else (os.urandom(32), 0)
        return FrameKind.BLOCK, HEADER.encode(header(parent, height + 1, root, names[number % len(names)])) + body

    return make


def _small_orphans(_: Scene) -> Make:
    # A header begins with the parent's hash, so another 32 bytes give another orphan without encoding it.
    template = BLOCK.encode(Block(header(bytes(32), 10**6, extrinsics_root(()), "Alice"), ()))[32:]
    return lambda *_: (FrameKind.BLOCK, os.urandom(32) + template)


def _unasked_blocks(_: Scene) -> Make:
    payload = BLOCKS.encode((os.urandom(64_000),))
    return lambda *_: (FrameKind.BLOCKS, payload)


BATCHES, REMARKS_PER_BATCH = 1_000, 19
REMARK_BYTES = 59_000
MARK = b"\xa5" * 64


@dataclass(frozen=True, slots=True)
class FloodSigner:
    """Signs extrinsics for the devnet's chain."""

    genesis: bytes
    runtime: Runtime

    @staticmethod
    def of(scene: Scene) -> FloodSigner:
        """Return a signer for the chain of this scene."""
        return FloodSigner(scene.genesis, runtime_for("devnet", is_development=True))

    def signed(
        self, call: Call, key: Keypair, nonce: int, tip: int = 0, era: Era = IMMORTAL, birth: bytes = b""
    ) -> bytes:
        """Return a signed extrinsic.

        `birth` is the hash of the block that `era` begins with, genesis for the immortal.
        """
        extra = Extra(era, nonce, tip)
        version = self.runtime.version
        additional = Additional(version.spec_version, version.transaction_version, self.genesis, birth or self.genesis)
        payload = signing_payload(payload_head(self.runtime, call, extra), additional)
        signature = MultiSignature(key.scheme, key.sign(payload))
        return encode_signed(self.runtime, call, extra, key.account, signature)

    def unsigned(self, call: Call, account: bytes) -> bytes:
        """Return a signed extrinsic with `MARK` as its signature."""
        return encode_signed(self.runtime, call, Extra(), account, MultiSignature(Scheme.SR25519, MARK))


def _remark_batches(scene: Scene) -> Make:
    inner = Utility.batch(calls=(System.remark(remark=b""),) * REMARKS_PER_BATCH)
    raw = FloodSigner.of(scene).unsigned(Utility.batch(calls=(inner,) * BATCHES), dev_accounts.stash("Alice"))
    head, _, tail = raw.partition(MARK)
    return lambda *_: (FrameKind.TX, head + os.urandom(64) + tail)


def _refused_extrinsics(scene: Scene) -> Make:
    signer, key = FloodSigner.of(scene), Keypair.from_seed(Scheme.ED25519, os.urandom(32))
    return lambda _, number: (
        FrameKind.TX, signer.signed(System.remark(remark=os.urandom(REMARK_BYTES)), key, number)
    )  # fmt: skip


REPLACER, PAYER, HONEST = "//Ferdie", "//Eve", "//Dave"
GAPS, FIRST_TIP = 60, 1_000
HOARDERS, FUTURES_EACH = 32, 64
FUTURE_BLOCKS = 64
HONEST_TIP = 10**8
T = TypeVar("T")


def _replacements(scene: Scene) -> Make:
    signer, key = FloodSigner.of(scene), keypair_from_suri(REPLACER)
    nonce = asyncio.run(_asked(scene.devnet, lambda client: client.nonce(key.account)))

    def make(_: HostilePeer, number: int) -> FloodMessage:
        step, gap = divmod(number, GAPS)
        tip = int(FIRST_TIP * 1.3**step) + step
        call = System.remark(remark=os.urandom(REMARK_BYTES))
        # One nonce stays unused, so none of these extrinsics is ever due.
        return FrameKind.TX, signer.signed(call, key, nonce + 2 + gap, tip)

    return make


async def _honest_one_early(devnet: Devnet) -> list[str]:
    """Check that the pool still accepts a well-paying honest extrinsic one nonce early, and then its predecessor."""
    return await with_client(devnet, _try_early)


async def _try_early(client: ChainClient) -> list[str]:
    key = keypair_from_suri(HONEST)
    nonce = await client.nonce(key.account)
    call = System.remark(remark=b"honest")
    try:
        early = await client.sign(call, key, nonce=nonce + 1, tip=HONEST_TIP)
        await client.rpc.call("author_submitExtrinsic", "0x" + early.hex())
    except RpcError as error:
        return [f"an honest extrinsic one nonce early was refused: {error}"]
    due = await client.sign(call, key, nonce=nonce)
    await client.send(due, until="inBlock")
    return []


async def _fill_with_futures(scene: Scene) -> None:
    keys = [Keypair.from_seed(Scheme.ED25519, blake2_256(b"hoarder %d" % number)) for number in range(HOARDERS)]
    height, birth = await with_client(scene.devnet, lambda client: _endow(client, keys))
    signer, era = FloodSigner.of(scene), mortal(FUTURE_BLOCKS, height)
    call = System.remark(remark=b"hoarded")
    raws = [
        signer.signed(call, key, nonce, era=era, birth=birth) for nonce in range(1, 1 + FUTURES_EACH) for key in keys
    ]

    async def serve(intruder: HostilePeer) -> None:
        async for due in scene.paced(1_000, at_once=100):
            start = len(raws) - due
            await intruder.send((FrameKind.TX, raw) for raw in raws[max(0, start) :])
            del raws[max(0, start) :]
            if not raws:
                return

    await assail(scene, [scene.victim], serve)


async def _endow(client: ChainClient, keys: list[Keypair]) -> tuple[int, bytes]:
    """Give each key one oGPU. Return the height and hash of a final block."""
    transfers = tuple(Balances.transfer_keep_alive(dest=key.account, value=GRAINS_PER_OGPU) for key in keys)
    await client.submit(Utility.batch(calls=transfers), keypair_from_suri(PAYER))
    final = await client.finalized()
    return await client.height(final), final


async def with_client(devnet: Devnet, ask: Callable[[ChainClient], Awaitable[T]]) -> T:
    """Query the victim's node as a wallet does, which uses asyncio."""
    return await trio.to_thread.run_sync(lambda: asyncio.run(_asked(devnet, ask)))


async def _asked(devnet: Devnet, ask: Callable[[ChainClient], Awaitable[T]]) -> T:
    async with await ChainClient.connect(victim_of(devnet).rpc_url) as client:
        return await ask(client)


BLOCK_FLOODS = (
    Attack("small_orphans", "M6", "Empty blocks with unknown parents, 15,000 a second to each validator: they share "
           "one queue with honest blocks.", prepared_floods(15_000, _small_orphans), 2_000_000, UNKNOWN_PARENT_RULE),
    Attack("tiny_extrinsics", "C1", "Blocks of as many of the smallest extrinsics as may be and an unknown parent, "
           "four a second to each validator. To decode one of 50,000 and to build its trie took a quarter of a second "
           "before the header was looked at.", prepared_floods(4, _tiny_extrinsics, at_once=4), 2_000,
           UNKNOWN_PARENT_RULE),
    Attack("unsealed_blocks", "C1", "The same bodies on the tip that everybody knows, in the slot of now, each "
           "validator in turn named as author. The seal is random: a node that checks the header first is spared the "
           "body.", prepared_floods(4, _unsealed_blocks, at_once=4), 2_000, "blocks that their author did not seal"),
    Attack("unasked_blocks", "own", "Answers of 64 kB to requests for blocks that nobody made, 200 a second to each "
           "validator.", prepared_floods(200, _unasked_blocks, at_once=16), 50_000, "answers that were not asked for"),
)  # fmt: skip
TRANSACTION_FLOODS = (
    Attack("remark_batches", "C2", "Extrinsics of 60 kB, a thousand batches of 19 remarks under a rich account's name, "
           "each with a random signature. To decode one took 26 ms of the loop, and 256 were decoded in one turn; 40 a "
           "second to each validator.", prepared_floods(40, _remark_batches, at_once=20), 10_000,
           "transactions of which none is valid"),
    Attack("refused_extrinsics", "N2", "Extrinsics of 60 kB with good signatures of an account that has nothing, 100 a "
           "second to each validator. Each is refused; the memory of the refusal was not given back. It breaks no "
           "rule: a node that is behind refuses good ones for the same reason, so it listens less to their bringers, "
           "and bans nobody.", prepared_floods(100, _refused_extrinsics, at_once=16), 12_000),
    Attack("replacements", "N5", "Extrinsics of 59 kB behind a gap of nonces, each replaced again and again by one "
           "with a little more tip. The tip is never paid, and the first node passed each of them on to all others; "
           "100 a second to one node.",
           prepared_floods(100, _replacements, at_once=16, members_of=lambda scene: [scene.victim]), 3_000),
    Attack("futures", "N6", "32 accounts with 64 extrinsics each, the first nonce never sent: all places of waiting "
           "extrinsics, for no fee. They are mortal here, so that the attacks after this one find an empty pool.",
           _fill_with_futures, 4_000, aftermath=_honest_one_early),
)  # fmt: skip
