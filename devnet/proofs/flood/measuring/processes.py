"""CPU time, memory and logs of the devnet's processes, read from /proc and their folders."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import trio

from devnet.launcher import processes
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import node_process, provider_process
from devnet.launcher.processes import Process
from devnet.proofs.flood.measuring.records import ProcessUsage, Records, Sample

SAMPLE_SECONDS = 0.25
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ROLES = {b"node.rpc": "rpc", b"node.pool.verify_worker": "verifier"}
TRACEBACK = b"Traceback (most recent call last)"


async def watch(net: Devnet, records: Records) -> None:
    """Sample until cancelled."""
    while True:
        records.samples.append(Sample(time.monotonic(), usages(net), machine_seconds() - time.process_time()))
        await trio.sleep(SAMPLE_SECONDS)


def machine_seconds() -> float:
    """CPU seconds of all processors since the machine's start, with what its host took away."""
    with Path("/proc/stat").open(encoding="ascii") as lines:
        times = [int(word) for word in lines.readline().split()[1:]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = times[:8]
    return (user + nice + system + interrupts + soft_interrupts + stolen) / TICKS


def usages(net: Devnet) -> dict[str, ProcessUsage]:
    """What each role of each node uses now; a provider counts while it runs."""
    leaders = {processes.running(process): process.label for process in watched(net)}
    leaders.pop(None, None)
    found: dict[str, tuple[dict[int, float], int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _fields(entry)) is not None and int(fields[3]) in leaders:
            pid, leader = int(entry.name), int(fields[3])
            role = f"{leaders[leader]}/{_role(entry) if pid != leader else 'node'}"
            cpu, resident = found.get(role, ({}, 0))
            cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
            found[role] = cpu, resident + int(fields[21]) * PAGE_BYTES
    return {role: ProcessUsage(cpu, resident) for role, (cpu, resident) in found.items()}


def watched(net: Devnet) -> list[Process]:
    """Every node and provider that may run."""
    return [make(net, member) for member in net.members for make in (node_process, provider_process)]


def rpc_pid(net: Devnet, name: str) -> int | None:
    """The process that answers JSON-RPC for a node."""
    usage = usages(net).get(f"{name}/rpc")
    return next(iter(usage.cpu_seconds), None) if usage is not None else None


def log_sizes(net: Devnet) -> dict[Path, int]:
    """The length of each log."""
    return {process.log: process.log.stat().st_size for process in watched(net) if process.log.exists()}


def growth(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Bytes that were added to the logs between."""
    return sum(size - before.get(path, 0) for path, size in after.items())


def tracebacks(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Stack traces among what was added to the logs between."""
    return sum(_part(path, before.get(path, 0), size).count(TRACEBACK) for path, size in after.items())


def _part(path: Path, start: int, end: int) -> bytes:
    with path.open("rb") as log:
        log.seek(start)
        return log.read(end - start)


def _role(entry: Path) -> str:
    """What a child of a node is, by the module that it runs."""
    try:
        words: Iterable[bytes] = (entry / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "other"
    return next((ROLES[word] for word in words if word in ROLES), "other")


def _fields(entry: Path) -> list[str] | None:
    """The fields of /proc/PID/stat after the program's name."""
    try:
        return (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
