"""Batches: one message that asks for more than anybody else then gets."""

from __future__ import annotations

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.http_client import ask, batch_body, call, call_body
from devnet.proofs.flood.rpc.posting import JSON, post_again_and_again
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene
from node.rpc.jsonrpc import MAX_BATCH

HEIGHTS = list(range(1, 1_001))


@attack("M7", messages_max=2_000)
async def batch_of_heights(scene: Scene) -> None:
    """A hundred calls of `chain_getBlockHash` with a thousand heights each: half a megabyte, 15 s of the process."""
    body = batch_body([call("chain_getBlockHash", HEIGHTS, number=number) for number in range(100)])
    await post_again_and_again(scene, lambda _: body)


@attack("M7", messages_max=2_000)
async def batch_of_keys(scene: Scene) -> None:
    """500 calls of `state_getKeysPaged` at the oldest block whose state is remembered."""
    port = scene.victim.ports.rpc
    answer = await ask(port, "POST", "/", call_body("chain_getFinalizedHead"), SOURCE_ADDRESS, JSON)
    block = answer.body.decode().partition('"result":"')[2][:66]
    calls = [call("state_getKeysPaged", "0x", 1_000, None, block, number=number) for number in range(MAX_BATCH)]
    body = batch_body(calls)
    await post_again_and_again(scene, lambda _: body)


@attack("A15", messages_max=2_000)
async def batch_of_metadata(scene: Scene) -> None:
    """Batches of 100 `state_getMetadata`, one after the other by three clients: answered without giving way."""
    body = batch_body([call("state_getMetadata", number=number) for number in range(100)])
    await post_again_and_again(scene, lambda _: body, clients=3)
