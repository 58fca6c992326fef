"""Posting bodies to one node's JSON-RPC, each on a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from devnet.proofs.flood.http_client import BadAnswerError, ask
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene

JSON = {"Content-Type": "application/json"}
AGAIN_SECONDS = 0.05


async def post_again_and_again(
    scene: Scene, make: Callable[[int], bytes], clients: int = 1, headers: Mapping[str, str] | None = None
) -> None:
    """So many clients post one body after the other, each when its last was answered."""
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for client in range(clients):
            nursery.start_soon(_post, scene, make, client, headers or JSON)


async def _post(scene: Scene, make: Callable[[int], bytes], number: int, headers: Mapping[str, str]) -> None:
    async for _ in scene.paced(1 / AGAIN_SECONDS, at_once=1):
        body = make(number)
        number += 1
        scene.sent(1, len(body))
        try:
            answer = await ask(scene.victim.ports.rpc, "POST", "/", body, SOURCE_ADDRESS, headers)
            scene.note(f"status {answer.status}")
        except (OSError, trio.BrokenResourceError, BadAnswerError) as error:
            scene.note(f"no answer: {type(error).__name__}")
