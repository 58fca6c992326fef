"""Requests and statements within the protocol, many more than any honest peer makes."""

from __future__ import annotations

import os

from consensus.wire import MESSAGE, NeedCerts
from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail, flooding
from devnet.proofs.flood.scene import Scene
from node.p2p.frames import FrameKind
from node.peers.messages import GET_BLOCKS, STATUS, GetBlocks, PeerStatus


@attack("own", messages_max=700_000)
async def statuses(scene: Scene) -> None:
    """STATUS with the tip that everybody knows, 5,000 a second to each validator."""

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        standing = intruder.standing or PeerStatus(os.urandom(32), 1, os.urandom(32), 0)
        return FrameKind.STATUS, STATUS.encode(standing)

    await assail(scene, scene.validators, flooding(scene, 5_000, make))


@attack("own", messages_max=200_000)
async def block_requests(scene: Scene) -> None:
    """GET_BLOCKS for the whole chain, 1,000 a second to each validator: a small question, a megabyte of an answer."""

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        tip = intruder.standing.tip if intruder.standing else bytes(32)
        return FrameKind.GET_BLOCKS, GET_BLOCKS.encode(GetBlocks(tip, 0))

    await assail(scene, scene.validators, flooding(scene, 1_000, make))


@attack("own", messages_max=500_000)
async def certificate_requests(scene: Scene) -> None:
    """GET_CERTS from rounds of the past, and every other one from an epoch far ahead, 3,000 a second to each."""

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        epoch, round_ = intruder.position or (0, 1)
        need = NeedCerts(epoch + 1_000 * (number % 2), max(1, round_ - number % 20), 0, 0, b"")
        return FrameKind.GET_CERTS, MESSAGE.encode(need)

    await assail(scene, scene.validators, flooding(scene, 3_000, make))


@attack("own", messages_max=700_000)
async def pings(scene: Scene) -> None:
    """PING, 5,000 a second to each validator, each of which has to be answered."""
    serve = flooding(scene, 5_000, lambda *_: (FrameKind.PING, bytes(8)))
    await assail(scene, scene.validators, serve)
