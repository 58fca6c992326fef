"""Answers that were asked for, and are made up."""

from __future__ import annotations

import os

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.blocks import header, tiny_body
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail
from devnet.proofs.flood.scene import Scene
from node.p2p.frames import FrameKind
from node.peers.messages import BLOCKS, GET_BLOCKS, STATUS, PeerStatus
from runtime.blocks.block import HEADER, block_id

AHEAD, STATUSES_PER_SECOND = 30, 5
BLOCKS_IN_ANSWER = 8


@attack("R2", rule="answers whose blocks nobody sealed", messages_max=5_000)
async def made_up_answers(scene: Scene) -> None:
    """Say that a tip 30 blocks ahead is known; when asked for it, answer with eight blocks of 50,000 extrinsics."""
    body, root = tiny_body()

    def answer(intruder: HostilePeer, payload: bytes) -> list[FloodMessage]:
        asked = GET_BLOCKS.decode(payload)
        scene.note("was asked")
        parent, height = (intruder.standing.tip, intruder.standing.tip_height) if intruder.standing else (bytes(32), 0)
        made_up: list[bytes] = []
        for step in range(BLOCKS_IN_ANSWER):
            head = header(parent, max(height, asked.above) + 1 + step, root, "Alice")
            made_up.append(HEADER.encode(head) + body)
            parent = block_id(head)
        return [(FrameKind.BLOCKS, BLOCKS.encode(tuple(made_up)))]

    async def serve(intruder: HostilePeer) -> None:
        intruder.answers[FrameKind.GET_BLOCKS] = lambda payload: answer(intruder, payload)
        async for due in scene.paced(STATUSES_PER_SECOND, at_once=1):
            known = intruder.standing or PeerStatus(os.urandom(32), 1, os.urandom(32), 0)
            status = PeerStatus(os.urandom(32), known.tip_height + AHEAD * due, known.final, known.final_height)
            if not await intruder.send([(FrameKind.STATUS, STATUS.encode(status))]):
                return

    await assail(scene, scene.validators, serve)
