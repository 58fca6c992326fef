"""Votes and certificates that cost a node more than their sender."""

from __future__ import annotations

import os
from dataclasses import replace

import trio

from consensus.certificates import VERSION_ED25519, Certificate
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, MESSAGE, Certified, Vote
from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import (
    FloodMessage,
    HostilePeer,
    assail,
    cycled,
    dial,
    flooding,
    fresh_identity,
)
from devnet.proofs.flood.scene import Scene
from genesis import dev_accounts
from node.p2p.frames import FrameKind
from node.p2p.handshake import HandshakeFailed
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot

VARIETY = 2_000
FAR_ROUND = 1_000_000
NEAR_ROUNDS = 20
"""Ahead of the round that was heard of: within what a node takes, and not over before the attack is."""
FORGERIES_PER_VISIT = 50
BACK_SECONDS, VISIT_SECONDS = 0.2, 5.0
FORGED_RULE = "signatures that do not verify"


def ballot(epoch: int, round_: int, voter: bytes, kind: BallotKind = BallotKind.NOTARISE) -> bytes:
    """An encoded vote whose signature is random."""
    said = Ballot(kind, epoch, round_, 5, os.urandom(32))
    return MESSAGE.encode(Vote(SignedBallot(said, voter, os.urandom(64)), None))


def near(intruder: HostilePeer) -> tuple[int, int]:
    """An epoch and a round that the node will be in soon."""
    epoch, round_ = intruder.position or (0, 1)
    return epoch, round_ + NEAR_ROUNDS


@attack("N1", rule="votes for rounds far beyond what may be ahead", messages_max=2_500_000)
async def far_votes(scene: Scene) -> None:
    """Votes for a round a million ahead, 18,000 a second to each validator.

    They were dropped without a look at the signature, after 40 us of the loop each, and cost their sender nothing.
    """
    votes = cycled([ballot(0, FAR_ROUND + number, os.urandom(32)) for number in range(VARIETY)])
    serve = flooding(scene, 18_000, lambda _, number: (FrameKind.VOTE, votes(number)))
    await assail(scene, scene.validators, serve)


@attack("N7", rule=FORGED_RULE, messages_max=700_000)
async def own_key_ballots(scene: Scene) -> None:
    """Votes in the receiver's own name, near and far in turn, 5,000 a second to each validator.

    The signature was checked before round and duplicates, because a copy of the validator's key must be noticed.
    """
    keys = {member.name: dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators}
    variety = {
        name: [ballot(0, FAR_ROUND + number if number % 2 else number, key) for number in range(VARIETY)]
        for name, key in keys.items()
    }

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        return FrameKind.VOTE, variety[intruder.member.name][number % VARIETY]

    await assail(scene, scene.validators, flooding(scene, 5_000, make))


@attack("N1", rule=FORGED_RULE, messages_max=700_000)
async def forged_votes(scene: Scene) -> None:
    """Votes for a round that is near, in the name of each validator, 5,000 a second: each must be checked."""
    voters = [dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        return FrameKind.VOTE, ballot(*near(intruder), voters[number % len(voters)])

    await assail(scene, scene.validators, flooding(scene, 5_000, make, at_once=200))


@attack("N8", rule=FORGED_RULE, messages_max=200_000)
async def forgers_with_new_names(scene: Scene) -> None:
    """Forged votes until the node has enough, and back at once under a new identity: a ban alone ends nothing."""
    voter = dev_accounts.key(scene.validators[0].name, dev_accounts.SESSION)
    await scene.begin()
    async for _ in scene.paced(1 / BACK_SECONDS, at_once=1):
        try:
            intruder = await dial(scene, scene.victim, fresh_identity())
        except (HandshakeFailed, OSError, trio.TooSlowError):
            scene.note("refused at the door")
            continue
        async with trio.open_nursery() as nursery:
            nursery.start_soon(intruder.listen)
            with trio.move_on_after(VISIT_SECONDS):
                await intruder.heard.wait()
                await intruder.send(
                    (FrameKind.VOTE, ballot(*near(intruder), voter)) for _ in range(FORGERIES_PER_VISIT)
                )
                await intruder.gone.wait()
            nursery.cancel_scope.cancel()


@attack("own", rule=FORGED_RULE, messages_max=20_000)
async def forged_certificates(scene: Scene) -> None:
    """Certificates for a round that is near, 32 a message, all signers named and no signature good; 100 a second."""
    signers = bytes([(1 << len(scene.validators)) - 1])

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        epoch, round_ = near(intruder)
        said = Ballot(BallotKind.NOTARISE, epoch, round_, 5, os.urandom(32))
        first = Certificate(VERSION_ED25519, said, signers, tuple(os.urandom(64) for _ in scene.validators))
        many = [replace(first, ballot=replace(said, round=round_ + offset)) for offset in range(8)]
        return FrameKind.CERT, MESSAGE.encode(Certified((tuple(many) * 4)[:CERTIFICATES_PER_MESSAGE_MAX]))

    await assail(scene, scene.validators, flooding(scene, 100, make, at_once=20))
