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
from devnet.proofs.flood.attack import Attack, AttackScene, victim_of
from devnet.proofs.flood.intruder import (
    FloodMessage,
    HostilePeer,
    MakeMessage,
    connect_and_attack,
    prepared_flood_action,
)
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

TINY_EXTRINSIC, TINY_COUNT = b"\x04\x00", EXTRINSICS_PER_BLOCK_MAX
UNKNOWN_PARENT_RULE = "blocks with parents that do not exist"


def header_naming(parent: bytes, number: int, body_root: bytes, author: str) -> Header:
    """Return a header of the current slot that names `author`, with a random seal."""
    current_slot = time.time_ns() // 1_000_000 // CONSENSUS["devnet"].slot_ms
    vrf_output, vrf_proof = os.urandom(32), os.urandom(80)
    digest_items = (
        author_item(dev_accounts.stash(author)),
        pre_digest_item(PreDigest(current_slot, 0, vrf_output, vrf_proof)),
        seal_item(os.urandom(64)),
    )
    return Header(parent, number, os.urandom(32), body_root, digest_items)


def tiny_body() -> tuple[bytes, bytes]:
    """Return the encoded body with the largest number of the smallest extrinsics, and its root."""
    extrinsics = (TINY_EXTRINSIC,) * TINY_COUNT
    body_root = extrinsics_root(extrinsics)
    some_header = header_naming(bytes(32), 1, body_root, "Alice")
    encoded_block = BLOCK.encode(Block(some_header, extrinsics))
    return encoded_block[len(HEADER.encode(some_header)) :], body_root


# A node that checks the header first is spared the body.
def _tiny_extrinsics(_: AttackScene) -> MakeMessage:
    body, body_root = tiny_body()

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        tip_height = intruder.peer_status.tip_height if intruder.peer_status else 1
        return FrameKind.BLOCK, HEADER.encode(header_naming(os.urandom(32), tip_height + 2, body_root, "Alice")) + body

    return make


# The named author is drawn for this slot in turn, so a check of the slot alone refuses only a part.
def _unsealed_blocks(scene: AttackScene) -> MakeMessage:
    (body, body_root), author_names = tiny_body(), [member.name for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        status = intruder.peer_status
        parent_hash, tip_height = (status.tip, status.tip_height) if status else (os.urandom(32), 0)
        return FrameKind.BLOCK, HEADER.encode(
            header_naming(parent_hash, tip_height + 1, body_root, author_names[number % len(author_names)])
        ) + body

    return make


# Orphans share a queue with honest blocks, so a full queue delays those.
def _small_orphans(_: AttackScene) -> MakeMessage:
    # A header begins with the parent's hash, so another 32 bytes give another orphan without encoding it.
    template = BLOCK.encode(Block(header_naming(bytes(32), 10**6, extrinsics_root(()), "Alice"), ()))[32:]
    return lambda *_: (FrameKind.BLOCK, os.urandom(32) + template)


def _unasked_blocks(_: AttackScene) -> MakeMessage:
    payload = BLOCKS.encode((os.urandom(64_000),))
    return lambda *_: (FrameKind.BLOCKS, payload)


BATCH_COUNT, REMARKS_PER_BATCH = 1_000, 19
REMARK_BYTES = 59_000
SIGNATURE_MARK = b"\xa5" * 64


@dataclass(frozen=True, slots=True)
class FloodSigner:
    """Signs extrinsics for the devnet's chain."""

    genesis: bytes
    runtime: Runtime

    @staticmethod
    def of(scene: AttackScene) -> FloodSigner:
        """Return a signer for the chain of this scene."""
        return FloodSigner(scene.genesis, runtime_for("devnet", is_development=True))

    def signed(
        self, call: Call, signing_key: Keypair, nonce: int, tip: int = 0, era: Era = IMMORTAL, birth: bytes = b""
    ) -> bytes:
        """Return a signed extrinsic.

        `birth` is the hash of the block that `era` begins with, genesis for the immortal.
        """
        extra_fields = Extra(era, nonce, tip)
        version = self.runtime.version
        additional_fields = Additional(
            version.spec_version, version.transaction_version, self.genesis, birth or self.genesis
        )
        payload = signing_payload(payload_head(self.runtime, call, extra_fields), additional_fields)
        signature = MultiSignature(signing_key.scheme, signing_key.sign(payload))
        return encode_signed(self.runtime, call, extra_fields, signing_key.account, signature)

    def unsigned(self, call: Call, account: bytes) -> bytes:
        """Return a signed extrinsic with `MARK` as its signature."""
        return encode_signed(self.runtime, call, Extra(), account, MultiSignature(Scheme.SR25519, SIGNATURE_MARK))


# Decoding a nested call comes before its signature can be verified.
def _remark_batches(scene: AttackScene) -> MakeMessage:
    inner_batch = Utility.batch(calls=(System.remark(remark=b""),) * REMARKS_PER_BATCH)
    extrinsic = FloodSigner.of(scene).unsigned(
        Utility.batch(calls=(inner_batch,) * BATCH_COUNT), dev_accounts.stash("Alice")
    )
    bytes_before, _, bytes_after = extrinsic.partition(SIGNATURE_MARK)
    return lambda *_: (FrameKind.TX, bytes_before + os.urandom(64) + bytes_after)


# A node cannot ban for this: an honest peer ahead of it relays extrinsics that it cannot judge yet.
def _refused_extrinsics(scene: AttackScene) -> MakeMessage:
    signer, signing_key = FloodSigner.of(scene), Keypair.from_seed(Scheme.ED25519, os.urandom(32))
    return lambda _, number: (
        FrameKind.TX, signer.signed(System.remark(remark=os.urandom(REMARK_BYTES)), signing_key, number)
    )  # fmt: skip


REPLACER_SURI, PAYER_SURI, HONEST_SURI = "//Ferdie", "//Eve", "//Dave"
GAP_COUNT, FIRST_TIP = 60, 1_000
HOARDER_COUNT, FUTURES_EACH = 32, 64
FUTURE_BLOCKS = 64
HONEST_TIP = 10**8
AnswerT = TypeVar("AnswerT")


# Bitcoin asks each replacement to pay for its own relay (BIP 125), for this reason.
def _replacements(scene: AttackScene) -> MakeMessage:
    signer, signing_key = FloodSigner.of(scene), keypair_from_suri(REPLACER_SURI)
    nonce = asyncio.run(_ask_victim(scene.devnet, lambda chain: chain.nonce(signing_key.account)))

    def make(_: HostilePeer, number: int) -> FloodMessage:
        step, gap_index = divmod(number, GAP_COUNT)
        tip_grains = int(FIRST_TIP * 1.3**step) + step
        call = System.remark(remark=os.urandom(REMARK_BYTES))
        # One nonce stays unused, so none of these extrinsics is ever due.
        return FrameKind.TX, signer.signed(call, signing_key, nonce + 2 + gap_index, tip_grains)

    return make


# Strangers can fill the pool at no cost. The pool must still take an extrinsic that pays well.
async def _honest_one_early(devnet: Devnet) -> list[str]:
    """Check that the pool still accepts a well-paying honest extrinsic one nonce early, and then its predecessor."""
    return await with_client(devnet, _try_early)


async def _try_early(chain: ChainClient) -> list[str]:
    signing_key = keypair_from_suri(HONEST_SURI)
    nonce = await chain.nonce(signing_key.account)
    call = System.remark(remark=b"honest")
    try:
        early_extrinsic = await chain.sign(call, signing_key, nonce=nonce + 1, tip=HONEST_TIP)
        await chain.rpc.call("author_submitExtrinsic", "0x" + early_extrinsic.hex())
    except RpcError as refusal:
        return [f"an honest extrinsic one nonce early was refused: {refusal}"]
    due = await chain.sign(call, signing_key, nonce=nonce)
    await chain.send(due, until="inBlock")
    return []


# Extrinsics that are never due evicted paying ones in Ethereum's clients (Li and others, DETER, 2021).
async def _fill_with_futures(scene: AttackScene) -> None:
    hoarders = [
        Keypair.from_seed(Scheme.ED25519, blake2_256(b"hoarder %d" % number)) for number in range(HOARDER_COUNT)
    ]
    tip_height, birth_hash = await with_client(scene.devnet, lambda chain: _endow_hoarders(chain, hoarders))
    signer, validity_era = FloodSigner.of(scene), mortal(FUTURE_BLOCKS, tip_height)
    call = System.remark(remark=b"hoarded")
    extrinsics = [
        signer.signed(call, signing_key, nonce, era=validity_era, birth=birth_hash)
        for nonce in range(1, 1 + FUTURES_EACH)
        for signing_key in hoarders
    ]

    async def serve(intruder: HostilePeer) -> None:
        async for due in scene.paced(1_000, at_once=100):
            unsent_count = len(extrinsics) - due
            await intruder.send((FrameKind.TX, extrinsic) for extrinsic in extrinsics[max(0, unsent_count) :])
            del extrinsics[max(0, unsent_count) :]
            if not extrinsics:
                return

    await connect_and_attack(scene, [scene.victim], serve)


async def _endow_hoarders(chain: ChainClient, hoarders: list[Keypair]) -> tuple[int, bytes]:
    """Give each key one oGPU. Return the height and hash of a final block."""
    transfers = tuple(
        Balances.transfer_keep_alive(dest=signing_key.account, value=GRAINS_PER_OGPU) for signing_key in hoarders
    )
    await chain.submit(Utility.batch(calls=transfers), keypair_from_suri(PAYER_SURI))
    final_block = await chain.finalized()
    return await chain.height(final_block), final_block


# trio runs the attack and asyncio the client, so the client gets a thread of its own.
async def with_client(devnet: Devnet, ask_chain: Callable[[ChainClient], Awaitable[AnswerT]]) -> AnswerT:
    """Query the victim's node as a wallet does, which uses asyncio."""
    return await trio.to_thread.run_sync(lambda: asyncio.run(_ask_victim(devnet, ask_chain)))


async def _ask_victim(devnet: Devnet, ask_chain: Callable[[ChainClient], Awaitable[AnswerT]]) -> AnswerT:
    async with await ChainClient.connect(victim_of(devnet).rpc_url) as chain:
        return await ask_chain(chain)


BLOCK_FLOODS = (
    Attack("small_orphans", "M6", "Empty blocks with unknown parents, 15,000 a second to each validator: they share "
           "one queue with honest blocks.", prepared_flood_action(15_000, _small_orphans), 2_000_000,
           UNKNOWN_PARENT_RULE),
    Attack("tiny_extrinsics", "C1", "Blocks of as many of the smallest extrinsics as may be and an unknown parent, "
           "four a second to each validator. To decode one of 50,000 and to build its trie took a quarter of a second "
           "before the header was looked at.", prepared_flood_action(4, _tiny_extrinsics, at_once=4), 2_000,
           UNKNOWN_PARENT_RULE),
    Attack("unsealed_blocks", "C1", "The same bodies on the tip that everybody knows, in the slot of now, each "
           "validator in turn named as author. The seal is random: a node that checks the header first is spared the "
           "body.", prepared_flood_action(4, _unsealed_blocks, at_once=4), 2_000,
           "blocks that their author did not seal"),
    Attack("unasked_blocks", "own", "Answers of 64 kB without a request for blocks, 200 a second to each validator.",
           prepared_flood_action(200, _unasked_blocks, at_once=16), 50_000,
           "answers that were not asked for"),
)  # fmt: skip
TRANSACTION_FLOODS = (
    Attack("remark_batches", "C2", "Extrinsics of 60 kB, a thousand batches of 19 remarks under a rich account's name, "
           "each with a random signature. To decode one took 26 ms of the loop, and 256 were decoded in one turn; 40 a "
           "second to each validator.", prepared_flood_action(40, _remark_batches, at_once=20), 10_000,
           "transactions of which none is valid"),
    Attack("refused_extrinsics", "N2", "Extrinsics of 60 kB with good signatures of an account that has nothing, 100 a "
           "second to each validator. Each is refused; the memory of the refusal was not given back. It breaks no "
           "rule: a node that is behind refuses good ones for the same reason, so it listens less to their bringers, "
           "and bans nobody.", prepared_flood_action(100, _refused_extrinsics, at_once=16), 12_000),
    Attack("replacements", "N5", "Extrinsics of 59 kB behind a gap of nonces, each replaced again and again by one "
           "with a little more tip. The tip is never paid, and the first node passed each of them on to all others; "
           "100 a second to one node.",
           prepared_flood_action(100, _replacements, at_once=16, members_of=lambda scene: [scene.victim]), 3_000),
    Attack("futures", "N6", "32 accounts with 64 extrinsics each, the first nonce never sent: all places of waiting "
           "extrinsics, for no fee. They are mortal here, so that the attacks after this one find an empty pool.",
           _fill_with_futures, 4_000, aftermath=_honest_one_early),
)  # fmt: skip
