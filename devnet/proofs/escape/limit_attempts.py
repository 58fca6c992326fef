"""The attempts to use more of the machine than the limits allow: disk, memory, processes, time, files, the log."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from devnet.proofs.escape.scene import (
    CONTAINER_LIMITS,
    EscapeChecks,
    EscapeScene,
    attempts_in,
    cpu_seconds,
    escape_attempt,
    first_pid_of,
    process_count,
    resident_bytes,
    used_disk_bytes,
)
from gpu_tasks.provider.execution.containers.run import EndReason
from gpu_tasks.provider.execution.containers.spec import MIB

# An engine's own records of a container, with a reserve.
DISK_SLACK_BYTES = 16 * MIB
FLOOD_SECONDS = 6.0


@escape_attempt
async def fill_the_disk(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Write to every folder until it is full: /workspace, /out, /tmp, /dev/shm, the root."""
    disk_before = used_disk_bytes(scene.folder)
    folders = "/workspace /out /tmp /dev/shm / /etc /bin /in /secrets /dev /run"
    script = (
        f"for p in {folders}; do dd if=/dev/zero of=$p/full bs=65536 count=4096 2>/dev/null; done; ls -l /*/full /full"
    )
    async with scene.container("sh", "-c", script, limits={"memory_bytes": 256 * MIB}) as container:
        run = await scene.ended(container)
        used_bytes = used_disk_bytes(scene.folder) - disk_before
    sizes_by_path = {line.split()[-1]: int(line.split()[4]) for line in run.text.splitlines() if line.startswith("-")}
    limits = {
        "/workspace/full": CONTAINER_LIMITS.workspace_bytes,
        "/out/full": CONTAINER_LIMITS.output_bytes,
        "/tmp/full": CONTAINER_LIMITS.tmp_bytes,  # noqa: S108 the container's own
        "/dev/shm/full": CONTAINER_LIMITS.tmp_bytes,  # noqa: S108 as above
    }
    checks.that(sizes_by_path, "it wrote", run.text)
    checks.that(
        all(written_bytes <= limits.get(path, 0) for path, written_bytes in sizes_by_path.items()),
        "within the volumes",
        sizes_by_path,
    )
    # Volumes are allocated before the container starts, so a full one takes no more of the disk.
    disk_bytes_max = CONTAINER_LIMITS.workspace_bytes + CONTAINER_LIMITS.output_bytes + DISK_SLACK_BYTES
    checks.that(
        used_bytes < disk_bytes_max, "the machine's disk", f"{used_bytes // MIB} MiB of at most {disk_bytes_max // MIB}"
    )


@escape_attempt
async def use_up_the_inodes(scene: EscapeScene, checks: EscapeChecks) -> None:
    # An empty file takes no bytes, so a quota of bytes alone does not stop this.
    """Create empty files without end in every writable folder."""
    folders = "/workspace /out /tmp /dev/shm"
    script = f"for p in {folders}; do i=0; while touch $p/$i 2>/dev/null; do i=$((i+1)); done; echo files $i; done"
    run = await scene.shell(script, limits={"wall_seconds": 60, "tmp_bytes": MIB, "cpu_thousandths": 2_000})
    file_counts = [int(line.split()[1]) for line in run.text.splitlines() if line.startswith("files")]
    is_bounded = len(file_counts) == 4 or run.end.reason in {EndReason.OUT_OF_MEMORY, EndReason.TIME_IS_UP}
    checks.that(
        is_bounded and all(file_count < 20_000 for file_count in file_counts),
        "it comes to an end",
        f"{file_counts} {run.end}",
    )


@escape_attempt
async def eat_the_memory(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Touch memory without end, and fill the folders in memory too."""
    run = await scene.run("probe", "memory")
    limit_mebibytes = CONTAINER_LIMITS.memory_bytes // MIB
    checks.that(run.end.reason is EndReason.OUT_OF_MEMORY and run.end.exit_code == 137, "it is ended", run.end)
    checks.that(
        0 < run.number("megabytes") <= limit_mebibytes,
        "within its limit",
        f"{run.number('megabytes')} of {limit_mebibytes} MiB",
    )
    # Pages of tmpfs are charged to the control group that touches them first (kernel, cgroup v2).
    script = "dd if=/dev/zero of=/dev/shm/a bs=65536; dd if=/dev/zero of=/tmp/a bs=65536; probe memory"
    run = await scene.shell(script, limits={"tmp_bytes": 24 * MIB})
    # Both folders together hold up to 48 MiB, which must count against the container's memory.
    checks.that(
        run.number("megabytes") <= limit_mebibytes - 40,
        "folders in memory count",
        f"{run.number('megabytes')} MiB left",
    )


@escape_attempt
async def start_too_many_processes(scene: EscapeScene, checks: EscapeChecks) -> None:
    # PIDs are shared by the whole machine: without a limit, one container can leave none for the provider.
    """Fork until the kernel refuses."""
    run = await scene.run("probe", "processes")
    checks.that(0 < run.number("processes") <= CONTAINER_LIMITS.processes, "processes", run.text)


@escape_attempt
async def fork_bomb(scene: EscapeScene, checks: EscapeChecks) -> None:
    # A limit on processes alone is not enough: a bomb refills it at once, so it must also end by its time.
    """Start a bomb: every process forks for ever."""
    processes_before = process_count()
    async with scene.container("probe", "bomb", limits={"wall_seconds": 8}) as container:
        await asyncio.sleep(2)
        processes_during = process_count()
        started = time.monotonic()
        other_run = await scene.run("echo", "alive")
        elapsed_seconds = time.monotonic() - started
        container_end = await scene.engine.wait(container)
    checks.that(
        processes_during - processes_before <= CONTAINER_LIMITS.processes + 16,
        "processes of the machine",
        f"{processes_before} before, {processes_during} during",
    )
    checks.that(
        other_run.text == "alive" and elapsed_seconds < 10,
        "another container runs beside it",
        f"{elapsed_seconds:.1f} s",
    )
    checks.that(container_end.reason is EndReason.TIME_IS_UP, "ended by its time", container_end)
    checks.that(
        process_count() <= processes_before + 8, "none is left", f"{processes_before} before, {process_count()} after"
    )


@escape_attempt
async def stay_beyond_its_time(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Ignore every signal that can be ignored, fork away from the first process, and compute."""
    script = "trap '' TERM INT HUP QUIT; (while :; do :; done) & while :; do :; done"
    engine_pid = first_pid_of("dockerd")
    async with scene.container("sh", "-c", script, limits={"wall_seconds": 3}) as container:
        started = time.monotonic()
        container_end = await scene.engine.wait(container)
        elapsed_seconds = time.monotonic() - started
    checks.that(
        container_end.reason is EndReason.TIME_IS_UP and elapsed_seconds < 6,
        "ended",
        f"{container_end.reason.name} after {elapsed_seconds:.1f} s",
    )
    async with scene.container("sh", "-c", script) as container:
        started = time.monotonic()
        container_end = await scene.engine.stop(container, grace_seconds=1)
        elapsed_seconds = time.monotonic() - started
    checks.that(
        container_end.reason is EndReason.STOPPED and elapsed_seconds < 4,
        "stopped",
        f"{container_end.reason.name} after {elapsed_seconds:.1f} s",
    )
    checks.that(first_pid_of("dockerd") == engine_pid, "the engine is the same process")


@escape_attempt
async def take_the_processors(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Compute in eight processes with half a core."""
    # The meters of cgroup v1, in nanoseconds, and of v2, in microseconds: machines have either.
    meter_paths = " ".join(
        f"/sys/fs/cgroup/{meter_name}" for meter_name in ("cpu/cpuacct.usage", "cpuacct/cpuacct.usage", "cpu.stat")
    )
    script = f"for i in $(seq 8); do (while :; do :; done) & done; sleep 4; cat {meter_paths}"
    started = time.monotonic()
    run = await scene.shell(script, limits={"wall_seconds": 30})
    elapsed_seconds = time.monotonic() - started
    used_seconds = [int(line) / 1e9 for line in run.text.splitlines() if line.isdecimal()]
    used_seconds += [int(line.split()[1]) / 1e6 for line in run.text.splitlines() if line.startswith("usage_usec")]
    # The kernel enforces a CPU quota by periods of 100 ms, so a short excess is no fault.
    seconds_max = elapsed_seconds * CONTAINER_LIMITS.cpu_thousandths / 1_000 + 0.3
    checks.that(
        used_seconds and 0 < used_seconds[0] <= seconds_max,
        "seconds of processors",
        f"{used_seconds[:1]} of at most {seconds_max:.1f}: {run.text[-100:]}",
    )


@escape_attempt
async def flood_the_log(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Print short lines, long lines and bytes without line ends at full speed."""
    engine_pid = first_pid_of("dockerd")
    for script in ("yes", "yes $(head -c 100000 /bin/busybox | tail -c 90000 | head -c 60000)", "cat /dev/zero"):
        memory_before, engine_memory_before, disk_before = (
            resident_bytes(),
            resident_bytes(engine_pid),
            used_disk_bytes(scene.folder),
        )
        cpu_before, engine_cpu_before = cpu_seconds(), cpu_seconds(engine_pid)
        async with scene.container("sh", "-c", script, limits={"cpu_thousandths": 2_000}) as container:
            await asyncio.sleep(FLOOD_SECONDS)
            log_lines = container.log.lines
            kept_bytes = sum(len(line.text) for line in log_lines)
            seen_bytes, disk_used = container.log.bytes_seen, used_disk_bytes(scene.folder) - disk_before
            provider_cores, engine_cores = (
                (cpu_seconds() - cpu_before) / FLOOD_SECONDS,
                (cpu_seconds(engine_pid) - engine_cpu_before) / FLOOD_SECONDS,
            )
            memory_growth, engine_growth = (
                resident_bytes() - memory_before,
                resident_bytes(engine_pid) - engine_memory_before,
            )
        script_name = script[:14]
        checks.that(
            log_lines and kept_bytes <= CONTAINER_LIMITS.log_bytes,
            f"{script_name}: kept",
            f"{kept_bytes} bytes of {seen_bytes}",
        )
        checks.that(
            memory_growth < 48 * MIB and engine_growth < 64 * MIB,
            f"{script_name}: memory",
            f"{memory_growth} {engine_growth}",
        )
        checks.that(
            disk_used < CONTAINER_LIMITS.workspace_bytes + CONTAINER_LIMITS.output_bytes + 16 * MIB,
            f"{script_name}: disk",
            disk_used,
        )
        checks.that(
            provider_cores < 0.6 and engine_cores < 0.6,
            f"{script_name}: CPU",
            f"provider {provider_cores:.2f}, engine {engine_cores:.2f} cores",
        )


@escape_attempt
async def open_too_many_files(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Open files until the kernel refuses, in one process and in as many as allowed."""
    open_before = _open_files()
    async with scene.container("probe", "files") as container:
        await asyncio.sleep(2.5)
        opened_during = _open_files() - open_before
        await scene.engine.stop(container, grace_seconds=0)
        output = "\n".join(line.text for line in container.log.lines)
    opened_count = next((int(line.split()[1]) for line in output.splitlines() if line.startswith("files")), -1)
    checks.that(0 < opened_count <= CONTAINER_LIMITS.open_files, "of one process", output)
    files_max = CONTAINER_LIMITS.open_files * CONTAINER_LIMITS.processes + 4_000
    checks.that(opened_during < files_max, "of the machine", f"{opened_during} of at most {files_max}")


def _open_files() -> int:
    # The first number counts the open files of the whole machine, in all namespaces (proc_sys_fs(5)).
    with open("/proc/sys/fs/file-nr") as kernel_file:  # noqa: PTH123  # the shortest way
        return int(kernel_file.read().split()[0])


LIMIT_ATTEMPTS: Final = attempts_in(globals())
