"""Batches: one message that asks for more than anybody else then gets."""

from __future__ import annotations

import json
from typing import Any

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.http_client import ask, batch_body, call, call_body
from devnet.proofs.flood.rpc.posting import JSON, post_again_and_again
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from node.rpc.jsonrpc import MAX_BATCH

HEIGHTS, CALLS = 1_000, 100
BACK_MOST = 256
"""At most so many blocks back the RPC process remembers states."""


async def result_of(scene: Scene, method: str, *params: Any) -> Any:
    """The answer to one call; None when it was refused."""
    answer = await ask(scene.victim.ports.rpc, "POST", "/", call_body(method, *params), SOURCE_ADDRESS, JSON)
    return json.loads(answer.body).get("result")


async def _final_height(scene: Scene) -> int:
    header = await result_of(scene, "chain_getHeader", await result_of(scene, "chain_getFinalizedHead"))
    return int(header["number"], 16)


@attack("M7", messages_max=2_000)
async def batch_of_heights(scene: Scene) -> None:
    """A hundred calls of `chain_getBlockHash` with the thousand newest heights each: half a megabyte of questions.

    For each height the chain of parents was walked down from the final block: 15 s of the process.
    """
    final = await _final_height(scene)
    heights = [max(0, final - back) for back in range(HEIGHTS)]
    body = batch_body([call("chain_getBlockHash", heights, number=number) for number in range(CALLS)])
    await post_again_and_again(scene, lambda _: body)


@attack("M7", messages_max=2_000)
async def batch_of_keys(scene: Scene) -> None:
    """500 calls of `state_getKeysPaged` at the oldest block whose state is remembered, under all that came later."""
    final, block, back = await _final_height(scene), None, BACK_MOST
    while back and block is None:
        back = back * 7 // 8
        candidate = await result_of(scene, "chain_getBlockHash", max(0, final - back))
        block = candidate if await result_of(scene, "state_getKeysPaged", "0x", 1, None, candidate) else None
    scene.note(f"{back} blocks back")
    calls = [call("state_getKeysPaged", "0x", 1_000, None, block, number=number) for number in range(MAX_BATCH)]
    body = batch_body(calls)
    await post_again_and_again(scene, lambda _: body)


@attack("A15", messages_max=2_000)
async def batch_of_metadata(scene: Scene) -> None:
    """Batches of 100 `state_getMetadata`, one after the other by three clients: answered without giving way."""
    body = batch_body([call("state_getMetadata", number=number) for number in range(CALLS)])
    await post_again_and_again(scene, lambda _: body, clients=3)
