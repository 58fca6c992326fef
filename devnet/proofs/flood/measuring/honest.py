"""Honest clients: at each door one that tries it again and again, and times each try.

What always holds: they come from another address than attackers; each try is a new connection, as a wallet's is; none
waits longer than `PATIENCE_SECONDS`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import trio

from devnet.launcher.layout import Devnet, NodeLayout
from devnet.proofs.flood.http_client import LOOPBACK, BadAnswerError, ask, call_body
from devnet.proofs.flood.measuring.records import HonestCall, Records
from devnet.proofs.flood.peers.intruder import connect, fresh_identity
from devnet.proofs.flood.scene import victim_of
from devnet.proofs.flood.websocket_client import WebSocket, WebSocketError, open_socket
from genesis import dev_accounts
from node.duty.keystore import KeyPair
from node.p2p.handshake import HandshakeFailed
from node.p2p.hello import Role
from node.peers.peer_proof import prove

PATIENCE_SECONDS = 10.0
JSON = {"Content-Type": "application/json"}
Try = Callable[[], Awaitable[bool]]
GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, BadAnswerError, WebSocketError, HandshakeFailed)
PROVED_KEY = "0x" + b":code".hex()
EVERY_SECONDS = {
    "rpc": 0.05,
    "proofs": 0.1,
    "websocket": 0.25,
    "metrics": 0.25,
    "peers": 0.5,
    "blobs": 0.1,
    "slots": 0.5,
}


async def keep_trying(door: str, attempt: Try, records: Records) -> None:
    """Try a door until cancelled."""
    while True:
        call = HonestCall(door, time.monotonic())
        records.calls.append(call)
        with trio.move_on_after(PATIENCE_SECONDS):
            try:
                call.is_answered = await attempt()
            except GONE:
                call.is_answered = False
        call.ended = time.monotonic()
        await trio.sleep(max(0.0, call.began + EVERY_SECONDS[door] - call.ended))


def doors_of(net: Devnet, genesis: bytes) -> dict[str, Try]:
    """The doors that are always open: the victim's."""
    victim = victim_of(net)

    async def rpc() -> bool:
        answer = await ask(victim.ports.rpc, "POST", "/", call_body("chain_getHeader"), LOOPBACK, JSON)
        return answer.status == 200 and b'"result"' in answer.body

    async def proofs() -> bool:
        body = call_body("state_getReadProof", [PROVED_KEY])
        answer = await ask(victim.ports.rpc, "POST", "/", body, LOOPBACK, JSON)
        return answer.status == 200 and b'"proof"' in answer.body

    async def websocket() -> bool:
        opened = await open_socket(victim.ports.rpc, LOOPBACK)
        try:
            return "result" in await opened.call("chain_getHeader")
        finally:
            await opened.aclose()

    async def metrics() -> bool:
        return (await ask(victim.ports.metrics, "GET", "/metrics", b"", LOOPBACK)).status == 200

    async def peers() -> bool:
        return await shakes_hands(victim, genesis, Role.FULL, None)

    return {"rpc": rpc, "proofs": proofs, "websocket": websocket, "metrics": metrics, "peers": peers}


def slots_of(member: NodeLayout, genesis: bytes) -> Try:
    """A validator of this epoch wants a connection to that node."""
    session = KeyPair.from_seed(dev_accounts.key_seed("Bob", dev_accounts.SESSION))

    async def slots() -> bool:
        return await shakes_hands(member, genesis, Role.VALIDATOR, session)

    return slots


def blobs_of(member: NodeLayout, address: str) -> Try:
    """Somebody wants a blob that a provider has."""

    async def blobs() -> bool:
        return (await ask(member.ports.blobs, "GET", f"/blobs/{address}", b"", LOOPBACK)).status == 200

    return blobs


async def shakes_hands(member: NodeLayout, genesis: bytes, role: Role, session: KeyPair | None) -> bool:
    """Whether a newcomer is accepted by a node."""
    identity = fresh_identity()
    proof = b"" if session is None else prove([(session.public, session.secret)], genesis, identity.peer_id)
    connection = await connect(member.address, genesis, identity, role, proof, LOOPBACK)
    await connection.close()
    return True


async def watch_finals(net: Devnet, records: Records) -> None:
    """Note when each node but the victim tells of a final block, until cancelled."""
    async with trio.open_nursery() as nursery:
        for member in net.members:
            if member != victim_of(net):
                records.finals[member.name] = []
                nursery.start_soon(_watch_finals, member, records.finals[member.name])


async def _watch_finals(member: NodeLayout, times: list[float]) -> None:
    while True:
        try:
            socket = await open_socket(member.ports.rpc, LOOPBACK)
            await _note_finals(socket, times)
        except GONE:
            await trio.sleep(0.2)


async def _note_finals(socket: WebSocket, times: list[float]) -> None:
    """One subscription; its first item is the past."""
    try:
        await socket.call("chain_subscribeFinalizedHeads")
        await socket.receive()
        while True:
            await socket.receive()
            times.append(time.monotonic())
    finally:
        await socket.aclose()
