"""Attempts on what the machine has: disk, memory, processes, time, the log, open files."""

from __future__ import annotations

import asyncio
import time

from devnet.proofs.escape.attempt import EscapeChecks, attempt
from devnet.proofs.escape.scene import (
    LIMITS,
    EscapeScene,
    cpu_seconds,
    pid_of,
    process_count,
    resident_bytes,
    used_disk,
)
from gpu_tasks.provider.execution.containers.running import EndReason
from gpu_tasks.provider.execution.containers.spec import MIB

DISK_SLACK_BYTES = 16 * MIB
"""What an engine writes down of a container, and more."""
FLOOD_SECONDS = 6.0


@attempt
async def fill_the_disk(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Write until it is full, everywhere: /workspace, /out, /tmp, /dev/shm, the root."""
    before = used_disk(scene.folder)
    places = "/workspace /out /tmp /dev/shm / /etc /bin /in /secrets /dev /run"
    script = (
        f"for p in {places}; do dd if=/dev/zero of=$p/full bs=65536 count=4096 2>/dev/null; done; ls -l /*/full /full"
    )
    async with scene.container("sh", "-c", script, limits={"memory_bytes": 256 * MIB}) as container:
        ran = await scene.ended(container)
        used = used_disk(scene.folder) - before
    sizes = {line.split()[-1]: int(line.split()[4]) for line in ran.text.splitlines() if line.startswith("-")}
    limits = {
        "/workspace/full": LIMITS.workspace_bytes,
        "/out/full": LIMITS.output_bytes,
        "/tmp/full": LIMITS.tmp_bytes,  # noqa: S108 the container's own
        "/dev/shm/full": LIMITS.tmp_bytes,  # noqa: S108 as above
    }
    checks.that(sizes, "it wrote", ran.text)
    checks.that(all(size <= limits.get(path, 0) for path, size in sizes.items()), "within the volumes", sizes)
    # Volumes are taken from the disk before the container starts: a full one takes no more.
    most = LIMITS.workspace_bytes + LIMITS.output_bytes + DISK_SLACK_BYTES
    checks.that(used < most, "the machine's disk", f"{used // MIB} MiB of at most {most // MIB}")


@attempt
async def use_up_the_inodes(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Make empty files without end in every folder that can be written to."""
    folders = "/workspace /out /tmp /dev/shm"
    script = f"for p in {folders}; do i=0; while touch $p/$i 2>/dev/null; do i=$((i+1)); done; echo files $i; done"
    ran = await scene.shell(script, limits={"wall_seconds": 60, "tmp_bytes": MIB, "cpu_thousandths": 2_000})
    counts = [int(line.split()[1]) for line in ran.text.splitlines() if line.startswith("files")]
    is_bounded = len(counts) == 4 or ran.end.reason in {EndReason.OUT_OF_MEMORY, EndReason.TIME_IS_UP}
    checks.that(is_bounded and all(count < 20_000 for count in counts), "it comes to an end", f"{counts} {ran.end}")


@attempt
async def eat_the_memory(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Touch memory without end, and fill folders in memory beside."""
    ran = await scene.run("probe", "memory")
    limit = LIMITS.memory_bytes // MIB
    checks.that(ran.end.reason is EndReason.OUT_OF_MEMORY and ran.end.exit_code == 137, "it is ended", ran.end)
    checks.that(0 < ran.number("megabytes") <= limit, "within its limit", f"{ran.number('megabytes')} of {limit} MiB")
    script = "dd if=/dev/zero of=/dev/shm/a bs=65536; dd if=/dev/zero of=/tmp/a bs=65536; probe memory"
    ran = await scene.shell(script, limits={"tmp_bytes": 24 * MIB})
    checks.that(ran.number("megabytes") <= limit - 40, "folders in memory count", f"{ran.number('megabytes')} MiB left")


@attempt
async def start_too_many_processes(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Fork until the kernel says no."""
    ran = await scene.run("probe", "processes")
    checks.that(0 < ran.number("processes") <= LIMITS.processes, "processes", ran.text)


@attempt
async def fork_bomb(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Every process forks for ever."""
    before = process_count()
    async with scene.container("probe", "bomb", limits={"wall_seconds": 8}) as container:
        await asyncio.sleep(2)
        during = process_count()
        began = time.monotonic()
        other = await scene.run("echo", "alive")
        seconds = time.monotonic() - began
        end = await scene.engine.wait(container)
    checks.that(
        during - before <= LIMITS.processes + 16, "processes of the machine", f"{before} before, {during} during"
    )
    checks.that(other.text == "alive" and seconds < 10, "another container runs beside it", f"{seconds:.1f} s")
    checks.that(end.reason is EndReason.TIME_IS_UP, "ended by its time", end)
    checks.that(process_count() <= before + 8, "none is left", f"{before} before, {process_count()} after")


@attempt
async def stay_beyond_its_time(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Ignore every signal that can be ignored, fork away from the first process, and compute."""
    script = "trap '' TERM INT HUP QUIT; (while :; do :; done) & while :; do :; done"
    before = pid_of("dockerd")
    async with scene.container("sh", "-c", script, limits={"wall_seconds": 3}) as container:
        began = time.monotonic()
        end = await scene.engine.wait(container)
        seconds = time.monotonic() - began
    checks.that(end.reason is EndReason.TIME_IS_UP and seconds < 6, "ended", f"{end.reason.name} after {seconds:.1f} s")
    async with scene.container("sh", "-c", script) as container:
        began = time.monotonic()
        end = await scene.engine.stop(container, grace_seconds=1)
        seconds = time.monotonic() - began
    checks.that(end.reason is EndReason.STOPPED and seconds < 4, "stopped", f"{end.reason.name} after {seconds:.1f} s")
    checks.that(pid_of("dockerd") == before, "the engine is the same process")


@attempt
async def take_the_processors(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Compute in eight processes with half a core."""
    meters = " ".join(f"/sys/fs/cgroup/{name}" for name in ("cpu/cpuacct.usage", "cpuacct/cpuacct.usage", "cpu.stat"))
    script = f"for i in $(seq 8); do (while :; do :; done) & done; sleep 4; cat {meters}"
    began = time.monotonic()
    ran = await scene.shell(script, limits={"wall_seconds": 30})
    seconds = time.monotonic() - began
    used = [int(line) / 1e9 for line in ran.text.splitlines() if line.isdecimal()]
    used += [int(line.split()[1]) / 1e6 for line in ran.text.splitlines() if line.startswith("usage_usec")]
    most = seconds * LIMITS.cpu_thousandths / 1_000 + 0.3
    checks.that(
        used and 0 < used[0] <= most, "seconds of processors", f"{used[:1]} of at most {most:.1f}: {ran.text[-100:]}"
    )


@attempt
async def flood_the_log(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Say short lines, long lines and no lines, as fast as it goes."""
    engine_pid = pid_of("dockerd")
    for script in ("yes", "yes $(head -c 100000 /bin/busybox | tail -c 90000 | head -c 60000)", "cat /dev/zero"):
        memory, engine_memory, disk = resident_bytes(), resident_bytes(engine_pid), used_disk(scene.folder)
        cpu, engine_cpu = cpu_seconds(), cpu_seconds(engine_pid)
        async with scene.container("sh", "-c", script, limits={"cpu_thousandths": 2_000}) as container:
            await asyncio.sleep(FLOOD_SECONDS)
            lines = container.log.lines
            kept = sum(len(line.text) for line in lines)
            seen, disk_used = container.log.bytes_seen, used_disk(scene.folder) - disk
            ours, theirs = (cpu_seconds() - cpu) / FLOOD_SECONDS, (cpu_seconds(engine_pid) - engine_cpu) / FLOOD_SECONDS
            grown, engine_grown = resident_bytes() - memory, resident_bytes(engine_pid) - engine_memory
        name = script[:14]
        checks.that(lines and kept <= LIMITS.log_bytes, f"{name}: kept", f"{kept} bytes of {seen}")
        checks.that(grown < 48 * MIB and engine_grown < 64 * MIB, f"{name}: memory", f"{grown} {engine_grown}")
        checks.that(disk_used < LIMITS.workspace_bytes + LIMITS.output_bytes + 16 * MIB, f"{name}: disk", disk_used)
        checks.that(ours < 0.6 and theirs < 0.6, f"{name}: CPU", f"provider {ours:.2f}, engine {theirs:.2f} cores")


@attempt
async def open_too_many_files(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Open files until the kernel says no, in one process and in all that may be."""
    before = _open_files()
    async with scene.container("probe", "files") as container:
        await asyncio.sleep(2.5)
        during = _open_files() - before
        await scene.engine.stop(container, grace_seconds=0)
        text = "\n".join(line.text for line in container.log.lines)
    count = next((int(line.split()[1]) for line in text.splitlines() if line.startswith("files")), -1)
    checks.that(0 < count <= LIMITS.open_files, "of one process", text)
    most = LIMITS.open_files * LIMITS.processes + 4_000
    checks.that(during < most, "of the machine", f"{during} of at most {most}")


def _open_files() -> int:
    with open("/proc/sys/fs/file-nr") as numbers:  # noqa: PTH123 the shortest way
        return int(numbers.read().split()[0])
