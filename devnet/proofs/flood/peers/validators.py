"""Slots: who may have those that are kept for validators, and what a handshake costs."""

from __future__ import annotations

import os

import trio

from devnet.launcher.layout import NodeLayout
from devnet.proofs.flood.attack import Door, Needs, attack
from devnet.proofs.flood.peers.intruder import dial, fresh_identity
from devnet.proofs.flood.scene import Scene
from node.duty.keystore import KeyPair
from node.p2p.handshake import HandshakeFailed
from node.p2p.hello import Role
from node.peers.peer_proof import prove

CLAIMANTS = 96


@attack("M2", messages_max=20_000, doors=(Door.SLOTS,), needs=Needs.STRICT_NODE)
async def self_made_validators(scene: Scene) -> None:
    """96 connections that prove a session key of their own make, to a node with 64 slots, and back when refused.

    Anybody can make a key: the half of the slots that is kept for validators must stay free for those of the epoch.
    """
    strict = scene.net.members[-1]
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(CLAIMANTS):
            nursery.start_soon(_claim, scene, strict)


async def _claim(scene: Scene, member: NodeLayout) -> None:
    """One claimant: stay if taken, come again if not."""
    async for _ in scene.paced(1.0, at_once=1):
        identity = fresh_identity()
        made = KeyPair.from_seed(os.urandom(32))
        proof = prove([(made.public, made.secret)], scene.genesis, identity.peer_id)
        try:
            intruder = await dial(scene, member, identity, Role.VALIDATOR, proof)
        except (HandshakeFailed, OSError, trio.TooSlowError) as error:
            scene.note(f"refused: {error}")
            continue
        scene.note("taken")
        scene.sent(1, len(proof))
        await intruder.listen()


@attack("N8", messages_max=20_000, doors=(Door.PEERS,))
async def identity_churn(scene: Scene) -> None:
    """A new identity connects, says hello and leaves, as fast as one client can, at each validator in turn.

    Each cost the node 3.5 ms, and names are free; peers that come from where a validator is must still get in.
    """
    members = scene.validators
    await scene.begin()
    number = 0
    async for _ in scene.paced(300, at_once=1):
        number += 1
        try:
            intruder = await dial(scene, members[number % len(members)], fresh_identity())
        except (HandshakeFailed, OSError, trio.TooSlowError):
            scene.note("refused at the door")
            continue
        scene.sent(1, 0)
        await intruder.leave()
