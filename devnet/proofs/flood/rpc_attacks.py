"""Attacks of clients on JSON-RPC, on idle sockets, and on a provider's blob store."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import trio

from devnet.launcher.layout import Devnet
from devnet.proofs.flood.attack import (
    SOURCE_ADDRESS,
    Act,
    Attack,
    Door,
    Needs,
    Scene,
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
from devnet.proofs.flood.intruder import cycled
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
# A browser sends text/plain to a foreign origin without a preflight request (Fetch standard, CORS-safelisted).
FROM_A_PAGE = {"Content-Type": "text/plain", "Origin": "https://page.example"}
USER = "//Charlie"
AGAIN_SECONDS = 0.05
MANY = 1_200
"""More than the 1,024 files that a process may usually open."""
PROVING_CLIENTS, CRUMBLING_CLIENTS = 300, 20
SUBSCRIBERS_OF_ADDRESS = 25
"""A quarter of a node's WebSockets, the limit for one address."""
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(66, 70))
WEBSOCKETS = 150
"""More than the 100 that the RPC process accepts by default."""
SLOW_UPLOADS = 48
"""More than the 32 requests that the store serves at once."""
UPLOADERS = 8
HOST = b"Host: 127.0.0.1\r\n"
HALF_HEAD = b"GET / HTTP/1.1\r\n" + HOST + b"X-Slow: "
HALF_METRICS = b"GET /metrics HTTP/1.1\r\n" + HOST + b"X-Slow: "
HALF_NEGOTIATION = b"\x13/multistream/1.0.0"
JSON_HEAD = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
HALF_POST = JSON_HEAD + b"Content-Length: 100000\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CRUMBS = b"1\r\na\r\n" * 10_000
HEIGHTS, CALLS = 1_000, 100
BACK_MOST = 256
"""The most blocks back for which the RPC process keeps states."""
SUBMIT, HEADS = "author_submitExtrinsic", "chain_subscribeNewHeads"
FORGED, FORGED_CLIENTS = 4, 4
LONG_FUTURES, FUTURES_AT_ONCE = 400, 3
LONG_REMARK_BYTES = 60_000  # of each of two in an extrinsic
WATCHING_CLIENTS, WATCHED_SETS = 25, 20
PROOFS = 20
CLIENTS, SUBSCRIPTIONS, PER_BATCH = 40, 1_024, 128
SLOW_CLIENTS, REQUESTS_EACH = 60, 40
ABORTING_CLIENTS, PER_SECOND = 10, 5
ANSWERS, FIRST_BYTES = 20, 1_000
MAX_REQUEST_BYTES = MAX_REQUEST_MEBIBYTES * 1024 * 1024
QUOTES = b'"' + b'\\"' * (MAX_REQUEST_BYTES // 2 - 1)
UNANSWERED = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, BadAnswerError, WebSocketError)

PostBodies = Callable[[int], bytes]
"""A function from a request's number to its body."""
Prepare = Callable[[Scene], Awaitable[PostBodies]]


# --- clients that post, drip, crumble, and use WebSockets


def posts(*bodies: bytes, clients: int = 1) -> Act:
    """Return an act: `clients` clients post these bodies in turn, each after its last answer."""

    async def prepare(_: Scene) -> PostBodies:
        return cycled(bodies)

    return prepared_posts(prepare, clients)


def prepared_posts(prepare: Prepare, clients: int = 1, headers: Mapping[str, str] = JSON) -> Act:
    """Return an act as `posts` does, for bodies with a preparation."""

    async def act(scene: Scene) -> None:
        body = await prepare(scene)
        await scene.begin()
        async with trio.open_nursery() as nursery:
            for client in range(clients):
                nursery.start_soon(_post, scene, body, client, headers)

    return act


async def _post(scene: Scene, body: PostBodies, number: int, headers: Mapping[str, str]) -> None:
    async for _ in scene.paced(1 / AGAIN_SECONDS, at_once=1):
        await _answered(scene, scene.victim.ports.rpc, "POST", "/", body(number), headers)
        number += 1


async def _answered(
    scene: Scene, port: int, method: str, path: str, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    """Send a request, and count its outcome."""
    scene.sent(1, len(body))
    try:
        answer = await ask(port, method, path, body, SOURCE_ADDRESS, headers)
        scene.note(f"status {answer.status}")
    except UNANSWERED as error:
        scene.note(f"no answer: {type(error).__name__}")


def drips(port: str, clients: int, opening: bytes) -> Act:
    """Return an act: incomplete requests to one of the victim's ports, each continued by a byte a second."""
    return lambda scene: each_dripping(scene, getattr(scene.victim.ports, port), clients, opening)


def crumbles(port: str, head: bytes) -> Act:
    """Return an act: bodies in chunks of one byte to one of the victim's ports."""

    async def serve(scene: Scene, stream: trio.SocketStream) -> None:
        await stream.send_all(head)
        while True:
            await stream.send_all(CRUMBS)
            scene.sent(1, len(CRUMBS))

    return lambda scene: each_stream(scene, getattr(scene.victim.ports, port), CRUMBLING_CLIENTS, serve)


def talks(clients: int, *bodies: bytes, reads: bool = True, sources: Sequence[str] = (SOURCE_ADDRESS,)) -> Act:
    """Return an act: `clients` WebSockets from each address send these bodies, and read all answers or none."""

    async def serve(scene: Scene, socket: WebSocket) -> None:
        for body in bodies:
            await socket.send(body)
            scene.sent(1, len(body))
        while reads:
            message = await socket.receive()
            scene.note("refused" if "error" in message else "answered")
        await trio.sleep_forever()

    return lambda scene: each_socket(scene, clients, serve, sources)


def batch(method: str, count: int, *params: Any) -> bytes:
    """Return a batch of `count` equal calls."""
    return batch_body([call(method, *params, number=number) for number in range(count)])


async def _prove_again(scene: Scene) -> None:
    body = call_body("state_getReadProof", ["0x" + os.urandom(32).hex() for _ in range(KEYS_AT_ONCE)])
    request = JSON_HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    await each_stream(scene, scene.victim.ports.rpc, PROVING_CLIENTS, partial(_ask_again, request=request))


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


async def _was_submitted(devnet: Devnet) -> list[str]:
    """Return a problem if the node executed the call with a foreign origin: its signer's nonce then moved."""
    body = call_body("system_accountNextIndex", ss58.encode(keypair_from_suri(USER).account))
    answer = await ask(victim_of(devnet).ports.rpc, "POST", "/", body, SOURCE_ADDRESS, JSON)
    moved = json.loads(answer.body)["result"]
    return [f"a call with a foreign origin was executed: {moved} extrinsics of {USER} were taken"] if moved else []


async def _from_a_page(scene: Scene) -> PostBodies:
    async def submission(client: ChainClient) -> bytes:
        extrinsic = await client.sign(System.remark(remark=b"from a page"), keypair_from_suri(USER))
        return call_body(SUBMIT, "0x" + extrinsic.hex())

    return cycled([await with_client(scene.devnet, submission), *[batch("state_getMetadata", 100)] * 3])


async def result_of(scene: Scene, method: str, *params: Any) -> Any:
    """Return the result of one call, or None if it was refused."""
    answer = await ask(scene.victim.ports.rpc, "POST", "/", call_body(method, *params), SOURCE_ADDRESS, JSON)
    return json.loads(answer.body).get("result")


async def _final_height(scene: Scene) -> int:
    header = await result_of(scene, "chain_getHeader", await result_of(scene, "chain_getFinalizedHead"))
    return int(header["number"], 16)


async def _of_heights(scene: Scene) -> PostBodies:
    final = await _final_height(scene)
    return cycled([batch("chain_getBlockHash", CALLS, [max(0, final - back) for back in range(HEIGHTS)])])


async def _of_keys(scene: Scene) -> PostBodies:
    final, block, back = await _final_height(scene), None, BACK_MOST
    # The node keeps states for a limited number of blocks, so the oldest available one is searched.
    while back and block is None:
        back = back * 7 // 8
        candidate = await result_of(scene, "chain_getBlockHash", max(0, final - back))
        block = candidate if await result_of(scene, "state_getKeysPaged", "0x", 1, None, candidate) else None
    scene.note(f"{back} blocks back")
    return cycled([batch("state_getKeysPaged", MAX_BATCH, "0x", 1_000, None, block)])


async def _of_proofs(scene: Scene) -> PostBodies:
    keys = await result_of(scene, "state_getKeysPaged", "0x", MAX_KEYS_PER_QUERY, None)
    body = batch("state_getReadProof", PROOFS, keys)
    is_too_long = len(body) > RequestLimits().request_bytes  # the node would refuse it unread
    return cycled([batch("state_getReadProof", PROOFS // 4, keys) if is_too_long else body])


def nested_batch(scene: Scene) -> bytes:
    """Return an extrinsic of the longest signed length, a thousand batches, with `MARK` as its signature."""
    inner = Utility.batch(calls=(System.remark(remark=b""),) * (2 * REMARKS_PER_BATCH))
    raw = FloodSigner.of(scene).unsigned(Utility.batch(calls=(inner,) * BATCHES), dev_accounts.stash("Alice"))
    assert len(raw) <= SIGNED_LENGTH_MAX_BYTES
    return raw


def forged(raw_of: Callable[[Scene], bytes], count: int) -> Prepare:
    """Prepare batches of `count` submissions of an extrinsic, each with another random signature."""

    async def prepare(scene: Scene) -> PostBodies:
        head, _, tail = raw_of(scene).partition(MARK)

        def body(_: int) -> bytes:
            raws = ["0x" + (head + os.urandom(len(MARK)) + tail).hex() for _ in range(count)]
            return batch_body([call(SUBMIT, raw, number=number) for number, raw in enumerate(raws)])

        return body

    return prepare


def _short_remark(scene: Scene) -> bytes:
    return FloodSigner.of(scene).unsigned(System.remark(remark=b""), dev_accounts.stash("Alice"))


async def _futures(scene: Scene) -> PostBodies:
    signer, key = FloodSigner.of(scene), keypair_from_suri("//Ferdie")
    nonce = await with_client(scene.devnet, lambda client: client.nonce(key.account))
    long = Utility.batch(calls=(System.remark(remark=os.urandom(LONG_REMARK_BYTES)),) * 2)
    raws = ["0x" + signer.signed(long, key, nonce + 2 + ahead).hex() for ahead in range(LONG_FUTURES)]
    starts = range(0, LONG_FUTURES, FUTURES_AT_ONCE)
    groups = [list(enumerate(raws[start : start + FUTURES_AT_ONCE])) for start in starts]
    return cycled([batch_body([call(SUBMIT, raw, number=number) for number, raw in group]) for group in groups])


async def _nested_fee(scene: Scene) -> PostBodies:
    return cycled([call_body("payment_queryInfo", "0x" + nested_batch(scene).hex())])


async def _watch_keys(scene: Scene) -> None:
    longest = [b"\xff" * (MAX_KEY_BYTES - 4) + number.to_bytes(4, "big") for number in range(MAX_KEYS_PER_QUERY)]
    there = await result_of(scene, "state_getKeysPaged", "0x", MAX_KEYS_PER_QUERY, None)
    bodies = [call_body("state_subscribeStorage", ["0x" + key.hex() for key in longest])] * WATCHED_SETS
    await talks(WATCHING_CLIENTS, *bodies, call_body("state_subscribeStorage", there))(scene)


SUBSCRIBING = [
    batch_body([call(HEADS, number=start + offset) for offset in range(PER_BATCH)])
    for start in range(0, SUBSCRIPTIONS, PER_BATCH)
]


async def _abort(scene: Scene) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for client in range(ABORTING_CLIENTS):
            nursery.start_soon(_abort_again_and_again, scene, client % 2 == 0)


async def _abort_again_and_again(scene: Scene, by_post: bool) -> None:
    body = batch("state_getMetadata", ANSWERS)
    async for _ in scene.paced(PER_SECOND, at_once=1):
        try:
            stream = await (_posted if by_post else _sent)(scene.victim.ports.rpc, body)
            scene.sent(1, len(body))
            await stream.receive_some(FIRST_BYTES)
            # A reset instead of a close makes the other end's writes fail.
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await trio.aclose_forcefully(stream)
        except UNANSWERED as error:
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


async def _send_quotes(scene: Scene) -> None:
    await scene.begin()
    async for _ in scene.paced(2, at_once=1):
        try:
            socket = await open_socket(scene.victim.ports.rpc, SOURCE_ADDRESS)
            scene.sent(1, len(QUOTES))
            await socket.send(QUOTES)
            await socket.receive()
            await socket.aclose()
            scene.note("answered")
        except UNANSWERED as error:
            scene.note(f"no answer: {type(error).__name__}")


def _bomb(part: bytes) -> bytes:
    return b"[" + part * ((MAX_REQUEST_BYTES - 16) // len(part)) + b"0]"


_HEADERS = batch_body([call("ogpu_certifiedHeader", number, number=number) for number in range(MAX_BATCH)])
_DEEPEST = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b","
_BOMBS = [_bomb(part) for part in (b'"",', b"9" * 4_000 + b",", _DEEPEST, b"{},")]


async def _upload_slowly(scene: Scene) -> None:
    port = scene.victim.ports.blobs
    await each_dripping(scene, port, SLOW_UPLOADS, request_head("PUT", "/blobs", port, BLOB_BYTES_MAX, {}))


async def _fill_the_quota(scene: Scene) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(UPLOADERS):
            nursery.start_soon(_store, scene)


async def _store(scene: Scene) -> None:
    async for _ in scene.paced(100, at_once=1):
        await _answered(scene, scene.victim.ports.blobs, "PUT", "/blobs", os.urandom(BLOB_BYTES_MAX))


ATTACKS = (
    Attack("silent_peers", "M4", "1,200 connections to the port for peers that never finish a handshake, back when "
           "they are closed.", drips("peers", MANY, HALF_NEGOTIATION), 200_000, beside=(Door.PEERS,)),
    Attack("slow_posts", "M4", "1,200 POST requests to JSON-RPC that announce 100 kB and send a byte a second.",
           drips("rpc", MANY, HALF_POST), 200_000, beside=(Door.WEBSOCKET,)),
    Attack("idle_websockets", "N9", "150 WebSockets from one address that say nothing: an honest client must still "
           "find a place.", talks(WEBSOCKETS), 50_000, beside=(Door.WEBSOCKET,)),
    Attack("half_heads", "own", "1,200 requests to JSON-RPC whose head never ends, a byte a second, back when they "
           "are closed.", drips("rpc", MANY, HALF_HEAD), 200_000, beside=(Door.PROOFS, Door.WEBSOCKET), hogged=True),
    Attack("proving_crowd", "own", "300 connections of one address that each ask for a proof of 64 keys, and again "
           "when it has come.", _prove_again, 200_000, beside=(Door.PROOFS, Door.WEBSOCKET), hogged=True),
    Attack("crumbs", "own", "20 bodies to JSON-RPC in chunks of one byte, as fast as they go, back when they are "
           "closed.", crumbles("rpc", JSON_HEAD + CHUNKED), 200_000, beside=(Door.PROOFS, Door.WEBSOCKET), hogged=True),
    Attack("subscribing_addresses", "own", "25 WebSockets from each of four addresses, with one subscription each: "
           "as many as a node takes.",
           talks(SUBSCRIBERS_OF_ADDRESS, call_body(HEADS), sources=ADDRESSES),
           20_000, beside=(Door.PROOFS, Door.WEBSOCKET), hogged=True),
    Attack("crumbs_for_a_store", "own", "20 uploads to a provider's blob store in chunks of one byte, as fast as "
           "they go.",
           crumbles("blobs", b"PUT /blobs HTTP/1.1\r\n" + HOST + CHUNKED),
           200_000, beside=(Door.BLOBS,), needs=Needs.PROVIDER, hogged=True),
    Attack("foreign_origin", "M1", "POST as a foreign page sends it, without a preflight: a submission, and batches "
           "of metadata. The origin was looked at when the calls had run; the page sees 403, and what it wanted has "
           "happened.", prepared_posts(_from_a_page, 4, FROM_A_PAGE), 5_000, aftermath=_was_submitted),
    Attack("batch_of_metadata", "A15", "Batches of 100 `state_getMetadata`, one after the other by three clients: "
           "answered without giving way.", posts(batch("state_getMetadata", CALLS), clients=3), 2_000),
    Attack("batch_of_heights", "M7", "A hundred calls of `chain_getBlockHash` with the thousand newest heights each: "
           "half a megabyte of questions. For each height the chain of parents was walked down from the final block: "
           "15 s of the process.", prepared_posts(_of_heights), 2_000),
    Attack("batch_of_keys", "M7", "500 calls of `state_getKeysPaged` at the oldest block whose state is remembered, "
           "under all that came later.", prepared_posts(_of_keys), 2_000),
    Attack("forged_submissions", "E1", "Four clients hand in the longest extrinsics under a rich account's name, "
           "four a batch, with random signatures. The pool has accounts of time for peers; what came by RPC had none.",
           prepared_posts(forged(nested_batch, FORGED), FORGED_CLIENTS), 2_000),
    Attack("small_forged_submissions", "E1", "The same with 500 of the shortest in each batch: a signature to check "
           "for every 150 bytes.", prepared_posts(forged(_short_remark, MAX_BATCH), FORGED_CLIENTS), 2_000),
    Attack("long_futures", "E2", "Extrinsics of 100 kB and more with good signatures of an account that can pay, "
           "each nonce ahead of its time.", prepared_posts(_futures, 2), LONG_FUTURES),
    Attack("watched_keys", "E3", "25 clients that subscribe to a thousand of the longest keys, twenty times each, "
           "and to a thousand that exist.", _watch_keys, 50_000),
    Attack("proofs_at_the_limit", "E4", "Batches of twenty `state_getReadProof` with a thousand keys each, by two "
           "clients.", prepared_posts(_of_proofs, 2), 2_000),
    Attack("certified_headers", "E4", "Batches of 500 `ogpu_certifiedHeader`, each of a height of its own: a header "
           "and a certificate from the disk.", posts(_HEADERS, clients=3), 2_000),
    Attack("nested_fees", "E5", "What a thousand batches within one extrinsic of 117 kB would cost, asked by two "
           "clients again and again.", prepared_posts(_nested_fee, 2), 2_000),
    Attack("many_subscriptions", "N3", "40 clients with 1,024 subscriptions each, in batches, that read all that "
           "comes: nothing bounded them together.", talks(CLIENTS, *SUBSCRIBING), 20_000),
    Attack("unread_subscriptions", "N4", "The same clients, but none reads: each dropped item was a line in the "
           "node's log, 30,000 a second.", talks(CLIENTS, *SUBSCRIBING, reads=False), 20_000),
    Attack("slow_readers", "N3b", "60 clients with 40 requests for metadata each, never read: what waits for one "
           "client was bounded, for all not.",
           talks(SLOW_CLIENTS, *[call_body("state_getMetadata")] * REQUESTS_EACH, reads=False), 50_000),
    Attack("aborting_clients", "A16", "Ten clients ask for megabytes of metadata, by POST and by WebSocket, and "
           "reset the connection at the first byte. Each left a stack trace in the log.", _abort, 50_000),
    Attack("json_bombs", "M7", "1 MB of empty strings, of numbers of 4,000 digits, of brackets to the permitted "
           "depth, of short objects.", posts(*_BOMBS, clients=4), 5_000),
    Attack("parse_bomb", "C3", "1 MB of escaped quotes that no quote ends: a search that began anew at each of them "
           "took half an hour.", posts(QUOTES, clients=4), 2_000),
    Attack("parse_bomb_by_websocket", "C3", "The same as a WebSocket message.", _send_quotes, 2_000),
    Attack("slow_uploads", "M5", "48 uploads that send a byte a second, back when they are closed: 34 shut the store "
           "for reads as well.", _upload_slowly, 50_000, beside=(Door.BLOBS,), needs=Needs.PROVIDER),
    Attack("full_quota", "M5", "Eight clients store the largest blobs as fast as they are taken, until the quota for "
           "strangers is used up.", _fill_the_quota, 3_000, beside=(Door.BLOBS,), needs=Needs.PROVIDER),
    Attack("half_metrics_requests", "M4", "1,200 half requests to the metrics port, a byte a second: each took a "
           "thread and a file of the node for ever. With 1,024 files the node could not write its sign-state, and "
           "died.", drips("metrics", MANY, HALF_METRICS), 200_000, beside=(Door.METRICS,)),
)  # fmt: skip
