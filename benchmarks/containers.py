"""`python -m benchmarks.containers`: the cost of sandboxes beside a bare process. Writes out/container-cost.json.

For bubblewrap and Docker it measures the times of start, end and removal, the CPU time beside the program's own, the
memory of a running container, and the program's slowdown. Needs root, Docker and busybox. It starts a container engine
of its own in a temporary folder, without a network.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.processes import children
from devnet.launcher.dockerd import own_engine
from devnet.launcher.made_images import MadeImage, busybox_files
from devnet.launcher.processes import every_process
from devnet.stage.report import write_report
from gpu_tasks.provider.execution.containers.engine import ContainerEngine, open_engine
from gpu_tasks.provider.execution.containers.spec import MIB, ContainerLimits, ContainerPolicy, ContainerSpec
from gpu_tasks.provider.execution.containers.workspaces import WorkspaceKind
from gpu_tasks.provider.execution.sandbox import NoSandboxError, find_sandbox

ENGINE_GROUP = Path("/sys/fs/cgroup/cpuacct/ogpu-benchmark")
ENGINE_PROGRAMS = ("dockerd", "containerd", "containerd-shim", "docker-init", "pause")
LIMITS = ContainerLimits(cpu_thousandths=2_000, wall_seconds=300, memory_bytes=128 * MIB)
STEPS = {
    "computes": "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done",
    "calls the kernel": "dd if=/dev/zero of=/dev/null bs=1 count=1500000 2>/dev/null",
    "starts processes": "i=0; while [ $i -lt 1500 ]; do busybox true; i=$((i+1)); done",
}
MANY = 5


def main() -> int:
    """Measure everything and write the report."""
    parser = argparse.ArgumentParser("benchmarks.containers", description="Measure the cost of a container.")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    report: dict[str, Any] = {"bare": {"start_ms": _bare(rounds)}, "bubblewrap": _walled(rounds)}
    with tempfile.TemporaryDirectory(prefix="ogpu-containers-") as name, own_engine(Path(name) / "engine") as address:
        with _engine_apart() as engine_cpu:
            for kind in WorkspaceKind:
                report[kind.value] = asyncio.run(_contained(address, Path(name), kind, rounds, engine_cpu))
        report["slower"] = asyncio.run(_slower(address, Path(name)))
    path = write_report("container-cost", report)
    memory, bare = report["memory"], report["bare"]["start_ms"]
    print(
        f"containers: start {memory['start_ms']} ms, at best {memory['start_ms_best']} (bare process {bare} ms), "
        f"removal {memory['remove_ms']} ms, {memory['engine_cpu_ms']} ms of the engine's CPU, "
        f"{memory['provider_cpu_ms']} ms of the provider's, {memory['resident_mib']} MiB each; {path}"
    )
    return 0


def _bare(rounds: int) -> float:
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(["/bin/busybox", "true"], check=True)
        found.append(time.perf_counter() - began)
    return _middle(found)


def _walled(rounds: int) -> dict[str, Any]:
    """Return the costs of a worker's sandbox around the same programs. Without a sandbox, return the reason."""
    try:
        walls = find_sandbox()
    except NoSandboxError as error:
        return {"why_not": str(error)}
    own = os.times()
    times = [_seconds(walls.around(["/bin/busybox", "true"])) for _ in range(rounds)]
    now = os.times()
    cpu = now.children_user + now.children_system - own.children_user - own.children_system
    slower = {}
    nothing = min(times)
    for name, script in STEPS.items():
        bare = min(_seconds(["/bin/busybox", "sh", "-c", script]) for _ in range(3))
        within = min(_seconds(walls.around(["/bin/busybox", "sh", "-c", script])) for _ in range(3))
        # The sandbox's own start is no slowdown of the program.
        slower[name] = round((within - nothing) / bare, 2)
    sleeper = subprocess.Popen(walls.around(["/bin/busybox", "sleep", "30"]))
    try:
        time.sleep(0.5)
        pids = [sleeper.pid, *children(sleeper.pid)]
        resident = sum(_proportional(pid) for pid in pids if _name_of(pid).startswith("bwrap"))
    finally:
        sleeper.kill()
        sleeper.wait()
    return {
        "start_ms": _middle(times), "start_ms_best": round(nothing * 1_000, 1),
        "cpu_ms": round(cpu / rounds * 1_000, 1), "resident_mib": round(resident / MIB, 2), "slower": slower,
    }  # fmt: skip


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


async def _contained(
    address: str, folder: Path, kind: WorkspaceKind, rounds: int, engine_cpu: Callable[[], float]
) -> dict[str, float]:
    engine = await open_engine(folder / kind.value, ContainerPolicy(any_archive=True), address, kind)
    try:
        spec = ContainerSpec("bench", MadeImage(busybox_files()).archive(), ("true",), limits=LIMITS)
        await _round(engine, spec)  # pulls the image, which later rounds find in the engine
        own, others = time.process_time(), engine_cpu()
        times = [await _round(engine, spec) for _ in range(rounds)]
        own, others = time.process_time() - own, engine_cpu() - others
        found = {name: _middle([taken[name] for taken in times]) for name in times[0]}
        found |= {f"{name}_best": round(min(taken[name] for taken in times) * 1_000, 1) for name in times[0]}
        found["provider_cpu_ms"] = round(own / rounds * 1_000, 1)
        found["engine_cpu_ms"] = round(others / rounds * 1_000, 1)
        before = _resident()
        for number in range(MANY):
            await engine.start(replace(spec, container_id=f"bench-{number}", command=("sleep", "300")))
        found["resident_mib"] = round((_resident() - before) / MANY / MIB, 1)
        return found
    finally:
        await engine.close()


async def _round(engine: ContainerEngine, spec: ContainerSpec) -> dict[str, float]:
    began = time.perf_counter()
    container = await engine.start(spec)
    started = time.perf_counter()
    await engine.wait(container)
    ended = time.perf_counter()
    await engine.outputs(container, io.BytesIO())
    fetched = time.perf_counter()
    await engine.remove(container)
    removed = time.perf_counter()
    return {
        "start_ms": started - began,
        "end_ms": ended - started,
        "outputs_ms": fetched - ended,
        "remove_ms": removed - fetched,
    }


async def _slower(address: str, folder: Path) -> dict[str, float]:
    """Return each script's slowdown: its seconds in a container over its seconds outside.

    Both are the best of three alternating runs.
    """
    engine = await open_engine(folder / "slower", ContainerPolicy(any_archive=True), address, WorkspaceKind.MEMORY)
    try:
        spec = ContainerSpec("bench", MadeImage(busybox_files()).archive(), ("sleep", "300"), limits=LIMITS)
        container = await engine.start(spec)
        found = {}
        for name, script in STEPS.items():
            bare, contained = [], []
            for _ in range(3):
                bare.append(await _timed(partial(_run_bare, script)))
                run = ["busybox", "sh", "-c", script]
                contained.append(await _timed(partial(engine.inside.run, container, run, 120, 1_000)))
            nothing = await _timed(partial(engine.inside.run, container, ["busybox", "true"], 20, 10))
            # The call into the container is no slowdown of the program.
            found[name] = round((min(contained) - nothing) / min(bare), 2)
        return found
    finally:
        await engine.close()


async def _run_bare(script: str) -> None:
    process = await asyncio.create_subprocess_exec("/bin/busybox", "sh", "-c", script)
    await process.wait()


async def _timed(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


@contextlib.contextmanager
def _engine_apart() -> Iterator[Callable[[], float]]:
    """Move the engine's processes, without containers, to a control group (version 1) that counts their CPU time."""
    usage = ENGINE_GROUP / "cpuacct.usage"
    with contextlib.suppress(OSError):
        ENGINE_GROUP.mkdir(exist_ok=True)
        for pid in _pids():
            (ENGINE_GROUP / "cgroup.procs").write_text(str(pid))
    try:
        yield lambda: int(usage.read_text()) / 1e9 if usage.exists() else 0.0
    finally:
        with contextlib.suppress(OSError):
            for line in (ENGINE_GROUP / "cgroup.procs").read_text().split():
                (ENGINE_GROUP.parent / "cgroup.procs").write_text(line)
            ENGINE_GROUP.rmdir()


def _pids() -> list[int]:
    return [pid for pid, _ in every_process() if _name_of(pid).startswith(ENGINE_PROGRAMS)]


def _resident() -> int:
    """Return the bytes of memory of the engine's processes. A shared page counts in proportion."""
    total = 0
    for pid in _pids():
        with contextlib.suppress(OSError):
            total += _proportional(pid)
    return total


def _proportional(pid: int) -> int:
    """Return the bytes of memory of a process. A shared page counts in proportion (Linux: Pss)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1_024 for line in lines if line.startswith("Pss:"))


def _middle(seconds: list[float]) -> float:
    """Return the median in milliseconds."""
    return round(statistics.median(seconds) * 1_000, 1)


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("containers: only root can start a container engine")
    sys.exit(main())
