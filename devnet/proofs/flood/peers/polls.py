"""Polls: questions without end, answers that nobody asked for, and blocks that nobody has."""

from __future__ import annotations

import os

from consensus.wire import MESSAGE, Chits, PullQuery
from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail, cycled, flooding
from devnet.proofs.flood.scene import Scene
from node.p2p.frames import FrameKind
from node.peers.messages import STATUS, PeerStatus

VARIETY = 2_000
IDENTITIES = 8


@attack("own", messages_max=700_000)
async def poll_queries(scene: Scene) -> None:
    """Queries about the tip that everybody knows, 5,000 a second to each validator: more than it must answer."""

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        standing = intruder.standing
        tip, height = (standing.tip, standing.tip_height) if standing else (bytes(32), 0)
        return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, tip, height))

    await assail(scene, scene.validators, flooding(scene, 5_000, make, at_once=500))


@attack("own", messages_max=700_000)
async def unasked_chits(scene: Scene) -> None:
    """Answers to polls that nobody asked, 5,000 a second to each validator, from one that is no validator."""
    answers = cycled(
        [
            MESSAGE.encode(Chits(number, os.urandom(32), os.urandom(32), os.urandom(32), number, number))
            for number in range(VARIETY)
        ]
    )
    serve = flooding(scene, 5_000, lambda _, number: (FrameKind.CHITS, answers(number)))
    await assail(scene, scene.validators, serve)


@attack("F5", messages_max=200_000)
async def wanted_ids(scene: Scene) -> None:
    """Eight identities of one client name 500 random blocks a second in queries and statuses.

    They filled the list of wanted blocks, and a leader's block was asked for 3 s late.
    """

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        height = intruder.standing.tip_height if intruder.standing else 1
        if number % 2:
            return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, os.urandom(32), height))
        standing = PeerStatus(os.urandom(32), height, os.urandom(32), max(0, height - 1))
        return FrameKind.STATUS, STATUS.encode(standing)

    await assail(scene, scene.validators, flooding(scene, 500 / IDENTITIES, make), IDENTITIES)
