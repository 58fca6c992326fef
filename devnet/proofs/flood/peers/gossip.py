"""Forged heartbeats and evidence: each names a real key, so a node must check a signature to detect the forgery."""

from __future__ import annotations

import os
import random

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail, flooding
from devnet.proofs.flood.scene import Scene
from genesis import dev_accounts
from node.p2p.frames import FrameKind
from node.pool.heartbeat_pool import HEARTBEAT
from runtime.blocks.evidence import EVIDENCE, DoubleBallot
from runtime.blocks.votes import Ballot, BallotKind
from runtime.pallets.im_online import Heartbeat, SeenFinal

PER_SECOND = 1_500
IDENTITIES = 2
AHEAD = 60
"""Blocks above the final one that heartbeats name: nodes take so many, and cannot know their hashes."""
FORGED_RULE = "gossip whose signature does not verify"


@attack("S68", rule=FORGED_RULE, messages_max=250_000, hogged=True)
async def forged_heartbeats(scene: Scene) -> None:
    """Heartbeats of real candidates for blocks to come, with random hashes and signatures, by two identities.

    1,500 a second of each to each validator; without a penalty they took what CPU the nodes had, and finality stood.
    """
    stashes = [dev_accounts.stash(member.name) for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        final = 0 if intruder.standing is None else intruder.standing.final_height
        seen = SeenFinal(stashes[number % len(stashes)], final + random.randint(1, AHEAD), os.urandom(32))
        return FrameKind.HEARTBEAT, HEARTBEAT.encode(Heartbeat(seen, os.urandom(64)))

    await assail(scene, scene.validators, flooding(scene, PER_SECOND, make), IDENTITIES)


@attack("S72", rule=FORGED_RULE, messages_max=250_000, hogged=True)
async def forged_evidence(scene: Scene) -> None:
    """Two ballots of one round in the name of a validator, with random signatures; as many as of heartbeats."""
    keys = [dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        epoch, round_ = intruder.position or (0, 1)
        ballots = [Ballot(BallotKind.NOTARISE, epoch, round_, 5, os.urandom(32)) for _ in range(2)]
        accused = keys[number % len(keys)]
        evidence = DoubleBallot(accused, ballots[0], os.urandom(64), ballots[1], os.urandom(64))
        return FrameKind.EVIDENCE, EVIDENCE.encode(evidence)

    await assail(scene, scene.validators, flooding(scene, PER_SECOND, make), IDENTITIES)
