"""Below the frames: encrypted records, and the frames of the muxer in them."""

from __future__ import annotations

import struct

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import HostilePeer, ServeConnection, assail
from devnet.proofs.flood.scene import Scene
from node.p2p.channel import MAX_RECORD_PLAINTEXT_BYTES

UPDATE = struct.pack(">BBHII", 0, 1, 0, 1, 0)
"""yamux: the window of the stream that carries the frames is larger by nothing."""
FULL = UPDATE * (MAX_RECORD_PLAINTEXT_BYTES // len(UPDATE))


def _writing(scene: Scene, record: bytes, per_second: float, at_once: int) -> ServeConnection:
    async def serve(intruder: HostilePeer) -> None:
        async for due in scene.paced(per_second, at_once):
            for _ in range(due):
                if not await intruder.write_record(record):
                    return

    return serve


@attack("R1", messages_max=200_000)
async def small_records(scene: Scene) -> None:
    """Records of twelve bytes, 4,000 a second to each validator: each has to be decrypted."""
    await assail(scene, scene.validators, _writing(scene, UPDATE, 4_000, 100))


@attack("R1", messages_max=20_000)
async def muxer_frames(scene: Scene) -> None:
    """Records full of window updates, 5,458 in each, 300 a second to each validator: 10 ms of the loop for a record."""
    await assail(scene, scene.validators, _writing(scene, FULL, 300, 8))
