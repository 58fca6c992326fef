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
from devnet.proofs.flood.clients import (
    LOOPBACK,
    BadAnswerError,
    WebSocket,
    WebSocketError,
    http_request,
    open_socket,
    rpc_body,
)
from devnet.proofs.flood.intruder import connect, fresh_identity
from devnet.proofs.flood.judging import DiskWrite, HonestCall, ProcessUsage, Records, Sample
from genesis import dev_accounts
from node.duty.keystore import KeyPair
from node.p2p.handshake import HandshakeFailed
from node.p2p.hello import Role
from node.peers.peer_proof import prove

PAUSE_SECONDS = 0.05
PROBE_BYTES = bytes(512)


async def watch_disk(folder: Path, records: Records) -> None:
    """Write to a file beside the nodes' files and sync it, repeatedly, until cancelled."""
    probe_path = folder / "disk.probe"
    descriptor = os.open(probe_path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while True:
            started = time.monotonic()
            await trio.to_thread.run_sync(_write_and_sync, descriptor)
            records.writes.append(DiskWrite(started, time.monotonic() - started))
            await trio.sleep(PAUSE_SECONDS)
    finally:
        os.close(descriptor)
        probe_path.unlink(missing_ok=True)


def _write_and_sync(descriptor: int) -> None:
    os.pwrite(descriptor, PROBE_BYTES, 0)
    # Synced, because sign-states are: the probe must wait for the same disk queue.
    os.fsync(descriptor)


SAMPLE_SECONDS = 0.25
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ROLES_BY_MODULE = {b"node.rpc": "rpc", b"node.pool.verify_worker": "verifier"}
TRACEBACK = b"Traceback (most recent call last)"


async def watch_processes(devnet: Devnet, records: Records) -> None:
    """Sample until cancelled."""
    while True:
        records.samples.append(Sample(time.monotonic(), usages(devnet), machine_seconds() - time.process_time()))
        await trio.sleep(SAMPLE_SECONDS)


def machine_seconds() -> float:
    """Return the CPU seconds of all processors since boot, including time stolen by the host."""
    with Path("/proc/stat").open(encoding="ascii") as stat_lines:
        # Guest time is a part of user time (proc_stat(5)), so the fields after the eighth are left out.
        cpu_times = [int(cpu_time) for cpu_time in stat_lines.readline().split()[1:]]
    user_time, nice_time, system, _idle, _waiting, interrupts, soft_interrupts, stolen = cpu_times[:8]
    return (user_time + nice_time + system + interrupts + soft_interrupts + stolen) / TICKS_PER_SECOND


def usages(devnet: Devnet) -> dict[str, ProcessUsage]:
    """Return the resource usage of each role of each node. A provider counts while it runs."""
    labels_by_leader = {processes.running(process): process.label for process in watched_processes(devnet)}
    labels_by_leader.pop(None, None)
    usage_by_role: dict[str, tuple[dict[int, float], int]] = {}
    for pid, stat_fields in processes.every_process():
        # A node's processes share its session. The fields are those of proc(5), counted from the state as 0.
        session_leader, folder = int(stat_fields[3]), Path("/proc") / str(pid)
        if session_leader in labels_by_leader:
            process_role = "node" if pid == session_leader else _role_of_process(folder)
            role = f"{labels_by_leader[session_leader]}/{process_role}"
            cpu_by_process, resident = usage_by_role.get(role, ({}, 0))
            cpu_by_process[pid] = (int(stat_fields[11]) + int(stat_fields[12])) / TICKS_PER_SECOND
            usage_by_role[role] = cpu_by_process, resident + int(stat_fields[21]) * PAGE_BYTES
    return {role: ProcessUsage(cpu_by_process, resident) for role, (cpu_by_process, resident) in usage_by_role.items()}


def watched_processes(devnet: Devnet) -> list[Process]:
    """Return every node and provider that may run."""
    return [process_of(devnet, member) for member in devnet.members for process_of in (node_process, provider_process)]


def rpc_pid(devnet: Devnet, name: str) -> int | None:
    """Return the process that serves a node's JSON-RPC."""
    rpc_usage = usages(devnet).get(f"{name}/rpc")
    return next(iter(rpc_usage.cpu_seconds), None) if rpc_usage is not None else None


def log_sizes(devnet: Devnet) -> dict[Path, int]:
    """Return the length of each log."""
    return {process.log: process.log.stat().st_size for process in watched_processes(devnet) if process.log.exists()}


def added_bytes(sizes_before: dict[Path, int], sizes_after: dict[Path, int]) -> int:
    """Return the bytes that were added to the logs in between."""
    return sum(size_after - sizes_before.get(probe_path, 0) for probe_path, size_after in sizes_after.items())


def tracebacks(sizes_before: dict[Path, int], sizes_after: dict[Path, int]) -> int:
    """Return the number of stack traces that were added to the logs in between."""
    return sum(
        _log_part(probe_path, sizes_before.get(probe_path, 0), size_after).count(TRACEBACK)
        for probe_path, size_after in sizes_after.items()
    )


def _log_part(probe_path: Path, offset_before: int, offset_after: int) -> bytes:
    with probe_path.open("rb") as log_file:
        log_file.seek(offset_before)
        return log_file.read(offset_after - offset_before)


def _role_of_process(folder: Path) -> str:
    """Return the role of a node's child process, by its Python module."""
    try:
        command_words: Iterable[bytes] = (folder / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "other"
    return next((ROLES_BY_MODULE[cpu_time] for cpu_time in command_words if cpu_time in ROLES_BY_MODULE), "other")


PATIENCE_SECONDS = 10.0
JSON_HEADERS = {"Content-Type": "application/json"}
TryInterface = Callable[[], Awaitable[bool]]
CONNECTION_ERRORS = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    BadAnswerError,
    WebSocketError,
    HandshakeFailed,
)
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


async def keep_trying(door: str, try_once: TryInterface, records: Records) -> None:
    """Call an interface until cancelled."""
    while True:
        honest_call = HonestCall(door, time.monotonic())
        records.calls.append(honest_call)
        with trio.move_on_after(PATIENCE_SECONDS):
            try:
                honest_call.is_answered = await try_once()
            except CONNECTION_ERRORS:
                honest_call.is_answered = False
        honest_call.ended = time.monotonic()
        await trio.sleep(max(0.0, honest_call.began + EVERY_SECONDS[door] - honest_call.ended))


def doors_of(devnet: Devnet, genesis: bytes) -> dict[str, TryInterface]:
    """Return the victim's interfaces that need no further process."""
    victim = victim_of(devnet)

    async def rpc() -> bool:
        answer = await http_request(victim.ports.rpc, "POST", "/", rpc_body("chain_getHeader"), LOOPBACK, JSON_HEADERS)
        return answer.status == 200 and b'"result"' in answer.body

    async def proofs() -> bool:
        body = rpc_body("state_getReadProof", [PROVED_KEY])
        answer = await http_request(victim.ports.rpc, "POST", "/", body, LOOPBACK, JSON_HEADERS)
        return answer.status == 200 and b'"proof"' in answer.body

    async def websocket() -> bool:
        opened_socket = await open_socket(victim.ports.rpc, LOOPBACK)
        try:
            return "result" in await opened_socket.call("chain_getHeader")
        finally:
            await opened_socket.aclose()

    async def metrics() -> bool:
        return (await http_request(victim.ports.metrics, "GET", "/metrics", b"", LOOPBACK)).status == 200

    async def peers() -> bool:
        return await shakes_hands(victim, genesis, Role.FULL, None)

    return {"rpc": rpc, "proofs": proofs, "websocket": websocket, "metrics": metrics, "peers": peers}


def slots_of(member: NodeLayout, genesis: bytes) -> TryInterface:
    """Return a call: a validator of this epoch connects to that node."""
    session_keys = KeyPair.from_seed(dev_accounts.key_seed("Bob", dev_accounts.SESSION))

    async def slots() -> bool:
        return await shakes_hands(member, genesis, Role.VALIDATOR, session_keys)

    return slots


def blobs_of(member: NodeLayout, address: str) -> TryInterface:
    """Return a call: a client fetches a blob of a provider."""

    async def blobs() -> bool:
        return (await http_request(member.ports.blobs, "GET", f"/blobs/{address}", b"", LOOPBACK)).status == 200

    return blobs


async def shakes_hands(member: NodeLayout, genesis: bytes, role: Role, session_keys: KeyPair | None) -> bool:
    """Connect to a node with a new identity, and return True. A refusal raises."""
    # A new identity each time: a node must admit a newcomer while strangers flood it.
    identity = fresh_identity()
    proof = (
        b"" if session_keys is None else prove([(session_keys.public, session_keys.secret)], genesis, identity.peer_id)
    )
    connection = await connect(member.address, genesis, identity, role, proof, LOOPBACK)
    await connection.close()
    return True


async def watch_finals(devnet: Devnet, records: Records) -> None:
    """Record the time of each final block that each node but the victim announces, until cancelled."""
    async with trio.open_nursery() as nursery:
        for member in devnet.members:
            # The victim's RPC is attacked itself, so its own announcements measure the attack and not finality.
            if member != victim_of(devnet):
                records.finals[member.name] = []
                nursery.start_soon(_watch_finals_of, member, records.finals[member.name])


async def _watch_finals_of(member: NodeLayout, cpu_times: list[float]) -> None:
    while True:
        try:
            web_socket = await open_socket(member.ports.rpc, LOOPBACK)
            await _record_finals(web_socket, cpu_times)
        except CONNECTION_ERRORS:
            await trio.sleep(0.2)


async def _record_finals(web_socket: WebSocket, cpu_times: list[float]) -> None:
    """Follow one subscription. Its first item is an old block."""
    try:
        await web_socket.call("chain_subscribeFinalizedHeads")
        await web_socket.receive()
        while True:
            await web_socket.receive()
            cpu_times.append(time.monotonic())
    finally:
        await web_socket.aclose()
