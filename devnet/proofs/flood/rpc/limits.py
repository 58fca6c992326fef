"""Calls at the limits of what one may ask for: each is allowed, and none may keep others waiting."""

from __future__ import annotations

import os

from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.http_client import batch_body, call, call_body
from devnet.proofs.flood.peers.pool import with_client
from devnet.proofs.flood.peers.transactions import BATCHES, MARK, REMARKS_PER_BATCH, FloodSigner
from devnet.proofs.flood.reconnecting import each_socket
from devnet.proofs.flood.rpc.batches import result_of
from devnet.proofs.flood.rpc.posting import post_again_and_again
from devnet.proofs.flood.scene import Scene
from devnet.proofs.flood.websocket_client import WebSocket
from genesis import dev_accounts
from node.rpc.jsonrpc import MAX_BATCH, RequestLimits
from node.rpc.methods.state import MAX_KEYS_PER_QUERY
from runtime.frame.weights import SIGNED_LENGTH_MAX_BYTES
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from runtime.state.trie_node import MAX_KEY_BYTES
from wallet.suri import keypair_from_suri

SUBMIT = "author_submitExtrinsic"
FORGED, FORGED_CLIENTS = 4, 4
LONG_FUTURES, FUTURES_AT_ONCE = 400, 3
LONG_REMARK_BYTES = 60_000  # of two in each
WATCHING_CLIENTS, WATCHED_SETS = 25, 20
PROOFS, HEADERS_CLIENTS = 20, 3


def nested_batch(scene: Scene) -> bytes:
    """An extrinsic as long as one may be signed, a thousand batches, whose signature is `MARK`."""
    inner = Utility.batch(calls=(System.remark(remark=b""),) * (2 * REMARKS_PER_BATCH))
    raw = FloodSigner.of(scene).unsigned(Utility.batch(calls=(inner,) * BATCHES), dev_accounts.stash("Alice"))
    assert len(raw) <= SIGNED_LENGTH_MAX_BYTES
    return raw


@attack("E1", messages_max=2_000)
async def forged_submissions(scene: Scene) -> None:
    """Four clients hand in the longest extrinsics under a rich account's name, four a batch, with random signatures.

    The pool has accounts of time for peers; what came by RPC had none.
    """
    head, _, tail = nested_batch(scene).partition(MARK)

    def make(_: int) -> bytes:
        raws = ["0x" + (head + os.urandom(len(MARK)) + tail).hex() for _ in range(FORGED)]
        return batch_body([call(SUBMIT, raw, number=number) for number, raw in enumerate(raws)])

    await post_again_and_again(scene, make, clients=FORGED_CLIENTS)


@attack("E1", messages_max=2_000)
async def small_forged_submissions(scene: Scene) -> None:
    """The same with 500 of the shortest in each batch: a signature to check for every 150 bytes."""
    raw = FloodSigner.of(scene).unsigned(System.remark(remark=b""), dev_accounts.stash("Alice"))
    head, _, tail = raw.partition(MARK)

    def make(_: int) -> bytes:
        raws = ["0x" + (head + os.urandom(len(MARK)) + tail).hex() for _ in range(MAX_BATCH)]
        return batch_body([call(SUBMIT, raw, number=number) for number, raw in enumerate(raws)])

    await post_again_and_again(scene, make, clients=FORGED_CLIENTS)


@attack("E2", messages_max=LONG_FUTURES)
async def long_futures(scene: Scene) -> None:
    """Extrinsics of 100 kB and more with good signatures of an account that can pay, each nonce ahead of its time."""
    signer, key = FloodSigner.of(scene), keypair_from_suri("//Ferdie")
    nonce = await with_client(scene.net, lambda client: client.nonce(key.account))
    long = Utility.batch(calls=(System.remark(remark=os.urandom(LONG_REMARK_BYTES)),) * 2)
    raws = [signer.signed(long, key, nonce + 2 + ahead) for ahead in range(LONG_FUTURES)]
    bodies = [
        batch_body(
            [call(SUBMIT, "0x" + raw.hex(), number=number) for number, raw in enumerate(raws[at:][:FUTURES_AT_ONCE])]
        )
        for at in range(0, LONG_FUTURES, FUTURES_AT_ONCE)
    ]
    await post_again_and_again(scene, lambda number: bodies[number % len(bodies)], clients=2)


@attack("E3", messages_max=50_000)
async def watched_keys(scene: Scene) -> None:
    """25 clients that subscribe to a thousand of the longest keys, twenty times each, and to a thousand that exist."""
    longest = [b"\xff" * (MAX_KEY_BYTES - 4) + number.to_bytes(4, "big") for number in range(MAX_KEYS_PER_QUERY)]
    there = await result_of(scene, "state_getKeysPaged", "0x", MAX_KEYS_PER_QUERY, None)
    bodies = [call_body("state_subscribeStorage", ["0x" + key.hex() for key in longest])] * WATCHED_SETS
    bodies.append(call_body("state_subscribeStorage", there))

    async def serve(scene: Scene, socket: WebSocket) -> None:
        for body in bodies:
            await socket.send(body)
            scene.sent(1, len(body))
        while True:
            message = await socket.receive()
            scene.note("refused" if "error" in message else "answered")

    await each_socket(scene, WATCHING_CLIENTS, serve)


@attack("E4", messages_max=2_000)
async def proofs_at_the_limit(scene: Scene) -> None:
    """Batches of twenty `state_getReadProof` with a thousand keys each, by two clients."""
    keys = await result_of(scene, "state_getKeysPaged", "0x", MAX_KEYS_PER_QUERY, None)
    body = batch_body([call("state_getReadProof", keys, number=number) for number in range(PROOFS)])
    if len(body) > RequestLimits().request_bytes:  # it would be refused unread
        body = batch_body([call("state_getReadProof", keys, number=number) for number in range(PROOFS // 4)])
    await post_again_and_again(scene, lambda _: body, clients=2)


@attack("E4", messages_max=2_000)
async def certified_headers(scene: Scene) -> None:
    """Batches of 500 `ogpu_certifiedHeader`, each of a height of its own: a header and a certificate from the disk."""
    body = batch_body([call("ogpu_certifiedHeader", number, number=number) for number in range(MAX_BATCH)])
    await post_again_and_again(scene, lambda _: body, clients=HEADERS_CLIENTS)


@attack("E5", messages_max=2_000)
async def nested_fees(scene: Scene) -> None:
    """What a thousand batches within one extrinsic of 117 kB would cost, asked by two clients again and again."""
    body = call_body("payment_queryInfo", "0x" + nested_batch(scene).hex())
    await post_again_and_again(scene, lambda _: body, clients=2)
