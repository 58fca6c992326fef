"""Uploads that keep a provider's blob store from its own work."""

from __future__ import annotations

import os

import trio

from devnet.proofs.flood.attack import Door, Needs, attack
from devnet.proofs.flood.http_client import LOOPBACK, BadAnswerError, ask, request_head
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from gpu_tasks.data.sealing import BLOB_BYTES_MAX

SLOW_UPLOADS = 48
"""More than the 32 requests that the store serves at once."""
DRIP_SECONDS = 1.0
UPLOADERS = 8
BLOB_BYTES = BLOB_BYTES_MAX
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, BadAnswerError)


@attack("M5", messages_max=50_000, doors=(Door.BLOBS,), needs=Needs.PROVIDER)
async def slow_uploads(scene: Scene) -> None:
    """48 uploads that send a byte a second, back when they are closed: 34 shut the store for reads as well."""
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(SLOW_UPLOADS):
            nursery.start_soon(_drip, scene)


async def _drip(scene: Scene) -> None:
    port = scene.victim.ports.blobs
    async for _ in scene.paced(5, at_once=1):
        try:
            stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=SOURCE_ADDRESS)
        except BROKEN:
            scene.note("refused")
            continue
        try:
            await stream.send_all(request_head("PUT", "/blobs", port, BLOB_BYTES, {}))
            scene.sent(1, 0)
            while True:
                with trio.move_on_after(DRIP_SECONDS):
                    if not await stream.receive_some():
                        break
                await stream.send_all(b"x")
        except BROKEN:
            pass
        finally:
            await trio.aclose_forcefully(stream)
        scene.note("closed by the store")


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
