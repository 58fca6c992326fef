"""The latency of honest clients, and the resources of the processes, during the attacks.

Invariant: honest clients have another address than attackers. Each try is a new connection, as a wallet's is, and waits
at most `PATIENCE_SECONDS`. A stall of the machine's disk stalls all nodes, so it is measured too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import trio

from devnet.launcher import processes
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.lifecycle import node_process, provider_process
from devnet.launcher.processes import Process
from devnet.proofs.flood.attack import victim_of
from devnet.proofs.flood.clients import LOOPBACK, BadAnswerError, WebSocket, WebSocketError, ask, call_body, open_socket
from devnet.proofs.flood.intruder import connect, fresh_identity
from devnet.proofs.flood.judging import DiskWrite, HonestCall, ProcessUsage, Records, Sample
from genesis import dev_accounts
from node.duty.keystore import KeyPair
from node.p2p.handshake import HandshakeFailed
from node.p2p.hello import Role
from node.peers.peer_proof import prove

PAUSE_SECONDS = 0.05
WRITTEN = bytes(512)


async def watch_disk(folder: Path, records: Records) -> None:
    """Write to a file beside the nodes' files and sync it, repeatedly, until cancelled."""
    path = folder / "disk.probe"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while True:
            start_time = time.monotonic()
            await trio.to_thread.run_sync(_write, descriptor)
            records.writes.append(DiskWrite(start_time, time.monotonic() - start_time))
            await trio.sleep(PAUSE_SECONDS)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def _write(descriptor: int) -> None:
    os.pwrite(descriptor, WRITTEN, 0)
    os.fsync(descriptor)


SAMPLE_SECONDS = 0.25
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ROLES = {b"node.rpc": "rpc", b"node.pool.verify_worker": "verifier"}
TRACEBACK = b"Traceback (most recent call last)"


async def watch_processes(devnet: Devnet, records: Records) -> None:
    """Sample until cancelled."""
    while True:
        records.samples.append(Sample(time.monotonic(), usages(devnet), machine_seconds() - time.process_time()))
        await trio.sleep(SAMPLE_SECONDS)


def machine_seconds() -> float:
    """Return the CPU seconds of all processors since boot, including time stolen by the host."""
    with Path("/proc/stat").open(encoding="ascii") as lines:
        times = [int(word) for word in lines.readline().split()[1:]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = times[:8]
    return (user + nice + system + interrupts + soft_interrupts + stolen) / TICKS


def usages(devnet: Devnet) -> dict[str, ProcessUsage]:
    """Return the resource usage of each role of each node. A provider counts while it runs."""
    leaders = {processes.running(process): process.label for process in watched(devnet)}
    leaders.pop(None, None)
    found: dict[str, tuple[dict[int, float], int]] = {}
    for process_id, fields in processes.every_process():
        # A node's processes share its session. The fields are those of proc(5), counted from the state as 0.
        leader, entry = int(fields[3]), Path("/proc") / str(process_id)
        if leader in leaders:
            role = f"{leaders[leader]}/{_role(entry) if process_id != leader else 'node'}"
            cpu, resident = found.get(role, ({}, 0))
            cpu[process_id] = (int(fields[11]) + int(fields[12])) / TICKS
            found[role] = cpu, resident + int(fields[21]) * PAGE_BYTES
    return {role: ProcessUsage(cpu, resident) for role, (cpu, resident) in found.items()}


def watched(devnet: Devnet) -> list[Process]:
    """Return every node and provider that may run."""
    return [make(devnet, member) for member in devnet.members for make in (node_process, provider_process)]


def rpc_pid(devnet: Devnet, name: str) -> int | None:
    """Return the process that serves a node's JSON-RPC."""
    usage = usages(devnet).get(f"{name}/rpc")
    return next(iter(usage.cpu_seconds), None) if usage is not None else None


def log_sizes(devnet: Devnet) -> dict[Path, int]:
    """Return the length of each log."""
    return {process.log: process.log.stat().st_size for process in watched(devnet) if process.log.exists()}


def growth(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Return the bytes that were added to the logs in between."""
    return sum(size - before.get(path, 0) for path, size in after.items())


def tracebacks(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Return the number of stack traces that were added to the logs in between."""
    return sum(_part(path, before.get(path, 0), size).count(TRACEBACK) for path, size in after.items())


def _part(path: Path, start: int, deadline: int) -> bytes:
    with path.open("rb") as log:
        log.seek(start)
        return log.read(deadline - start)


def _role(entry: Path) -> str:
    """Return the role of a node's child process, by its Python module."""
    try:
        arguments: Iterable[bytes] = (entry / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "other"
    return next((ROLES[word] for word in arguments if word in ROLES), "other")


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
    """Call an interface until cancelled."""
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


def doors_of(devnet: Devnet, genesis: bytes) -> dict[str, Try]:
    """Return the victim's interfaces that need no further process."""
    victim = victim_of(devnet)

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
    """Return a call: a validator of this epoch connects to that node."""
    session = KeyPair.from_seed(dev_accounts.key_seed("Bob", dev_accounts.SESSION))

    async def slots() -> bool:
        return await shakes_hands(member, genesis, Role.VALIDATOR, session)

    return slots


def blobs_of(member: NodeLayout, address: str) -> Try:
    """Return a call: a client fetches a blob of a provider."""

    async def blobs() -> bool:
        return (await ask(member.ports.blobs, "GET", f"/blobs/{address}", b"", LOOPBACK)).status == 200

    return blobs


async def shakes_hands(member: NodeLayout, genesis: bytes, role: Role, session: KeyPair | None) -> bool:
    """Connect to a node with a new identity, and return True. A refusal raises."""
    identity = fresh_identity()
    proof = b"" if session is None else prove([(session.public, session.secret)], genesis, identity.peer_id)
    connection = await connect(member.address, genesis, identity, role, proof, LOOPBACK)
    await connection.close()
    return True


async def watch_finals(devnet: Devnet, records: Records) -> None:
    """Record the time of each final block that each node but the victim announces, until cancelled."""
    async with trio.open_nursery() as nursery:
        for member in devnet.members:
            if member != victim_of(devnet):
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
    """Follow one subscription. Its first item is an old block."""
    try:
        await socket.call("chain_subscribeFinalizedHeads")
        await socket.receive()
        while True:
            await socket.receive()
            times.append(time.monotonic())
    finally:
        await socket.aclose()
