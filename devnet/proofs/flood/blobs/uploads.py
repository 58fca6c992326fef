"""Uploads that keep a provider's blob store from its own work."""

from __future__ import annotations

import os

import trio

from devnet.proofs.flood.attack import Door, Needs, attack
from devnet.proofs.flood.http_client import BadAnswerError, ask, request_head
from devnet.proofs.flood.reconnecting import each_dripping
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from gpu_tasks.data.sealing import BLOB_BYTES_MAX

SLOW_UPLOADS = 48
"""More than the 32 requests that the store serves at once."""
UPLOADERS = 8
BLOB_BYTES = BLOB_BYTES_MAX
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, BadAnswerError)


@attack("M5", messages_max=50_000, doors=(Door.BLOBS,), needs=Needs.PROVIDER)
async def slow_uploads(scene: Scene) -> None:
    """48 uploads that send a byte a second, back when they are closed: 34 shut the store for reads as well."""
    port = scene.victim.ports.blobs
    opening = request_head("PUT", "/blobs", port, BLOB_BYTES, {})
    await each_dripping(scene, port, SLOW_UPLOADS, opening)


@attack("M5", messages_max=3_000, doors=(Door.BLOBS,), needs=Needs.PROVIDER)
async def full_quota(scene: Scene) -> None:
    """Eight clients store the largest blobs as fast as they are taken, until the quota for strangers is used up."""
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(UPLOADERS):
            nursery.start_soon(_store, scene)


async def _store(scene: Scene) -> None:
    async for _ in scene.paced(100, at_once=1):
        blob = os.urandom(BLOB_BYTES)
        scene.sent(1, len(blob))
        try:
            answer = await ask(scene.victim.ports.blobs, "PUT", "/blobs", blob, SOURCE_ADDRESS)
            scene.note(f"status {answer.status}")
        except BROKEN as error:
            scene.note(f"no answer: {type(error).__name__}")
