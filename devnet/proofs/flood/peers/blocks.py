"""Blocks that cost more to look at than to make."""

from __future__ import annotations

import os
import time

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail, flooding
from devnet.proofs.flood.scene import Scene
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from node.p2p.frames import FrameKind
from node.peers.messages import BLOCKS
from runtime.blocks.block import BLOCK, HEADER, Block, Header, extrinsics_root
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.frame.weights import EXTRINSICS_PER_BLOCK_MAX

TINY, TINY_COUNT = b"\x04\x00", EXTRINSICS_PER_BLOCK_MAX
UNKNOWN_PARENT_RULE = "blocks with unknown parents that nobody ever has"


def header(parent: bytes, number: int, root: bytes, author: str) -> Header:
    """A header of now that names `author`, with a seal of nobody."""
    slot = time.time_ns() // 1_000_000 // CONSENSUS["devnet"].slot_ms
    vrf_output, vrf_proof = os.urandom(32), os.urandom(80)
    items = (
        author_item(dev_accounts.stash(author)),
        pre_digest_item(PreDigest(slot, 0, vrf_output, vrf_proof)),
        seal_item(os.urandom(64)),
    )
    return Header(parent, number, os.urandom(32), root, items)


def tiny_body() -> tuple[bytes, bytes]:
    """The largest number of the smallest extrinsics: the encoded body, and its root."""
    extrinsics = (TINY,) * TINY_COUNT
    root = extrinsics_root(extrinsics)
    some_header = header(bytes(32), 1, root, "Alice")
    block = BLOCK.encode(Block(some_header, extrinsics))
    return block[len(HEADER.encode(some_header)) :], root


@attack("C1", rule=UNKNOWN_PARENT_RULE, messages_max=2_000)
async def tiny_extrinsics(scene: Scene) -> None:
    """Blocks of as many of the smallest extrinsics as may be and an unknown parent, four a second to each validator.

    To decode one of 50,000 and to build its trie took a quarter of a second before the header was looked at.
    """
    body, root = tiny_body()

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        height = intruder.standing.tip_height if intruder.standing else 1
        return FrameKind.BLOCK, HEADER.encode(header(os.urandom(32), height + 2, root, "Alice")) + body

    await assail(scene, scene.validators, flooding(scene, 4, make, at_once=4))


@attack("C1", rule="blocks that their author did not seal", messages_max=2_000)
async def unsealed_blocks(scene: Scene) -> None:
    """The same bodies on the tip that everybody knows, in the slot of now, each validator in turn named as author.

    The seal is random: only one who checks the header first is spared the body.
    """
    body, root = tiny_body()
    names = [member.name for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        standing = intruder.standing
        parent, height = (standing.tip, standing.tip_height) if standing else (os.urandom(32), 0)
        return FrameKind.BLOCK, HEADER.encode(header(parent, height + 1, root, names[number % len(names)])) + body

    await assail(scene, scene.validators, flooding(scene, 4, make, at_once=4))


@attack("M6", rule=UNKNOWN_PARENT_RULE, messages_max=2_000_000)
async def small_orphans(scene: Scene) -> None:
    """Empty blocks with unknown parents, 15,000 a second to each validator: they share one queue with honest blocks."""
    template = BLOCK.encode(Block(header(bytes(32), 10**6, extrinsics_root(()), "Alice"), ()))[32:]

    def make(_: HostilePeer, __: int) -> FloodMessage:
        return FrameKind.BLOCK, os.urandom(32) + template

    await assail(scene, scene.validators, flooding(scene, 15_000, make))


@attack("own", rule="answers that were not asked for", messages_max=50_000)
async def unasked_blocks(scene: Scene) -> None:
    """Answers of 64 kB to requests for blocks that nobody made, 200 a second to each validator."""
    payload = BLOCKS.encode((os.urandom(64_000),))
    await assail(scene, scene.validators, flooding(scene, 200, lambda *_: (FrameKind.BLOCKS, payload), at_once=16))
