"""Every attempt to escape from a container, in order: the machine, the kernel, neighbours, outputs and images."""

from __future__ import annotations

import asyncio
import hashlib
import io
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import docker

from devnet.launcher import processes
from devnet.launcher.made_images import ImageFile, MadeImage, busybox_files, layer_of
from devnet.proofs.escape import ground
from devnet.proofs.escape.scene import (
    LIMITS,
    OTHER_REPOSITORY,
    POLICY,
    REPOSITORY,
    EscapeAttempt,
    EscapeChecks,
    EscapeScene,
    RanProgram,
    attempt,
    cpu_seconds,
    pid_of,
    process_count,
    resident_bytes,
    used_disk,
)
from gpu_tasks.provider.execution.containers.engine import open_engine
from gpu_tasks.provider.execution.containers.programs import run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.run import EndReason
from gpu_tasks.provider.execution.containers.spec import MIB, ImageArchive, ImageByDigest, NetworkAccess

DISK_SLACK_BYTES = 16 * MIB
"""An engine's own records of a container, with a reserve."""
FLOOD_SECONDS = 6.0


@attempt
async def fill_the_disk(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Write to every folder until it is full: /workspace, /out, /tmp, /dev/shm, the root."""
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
    # Volumes are allocated before the container starts, so a full one takes no more of the disk.
    most = LIMITS.workspace_bytes + LIMITS.output_bytes + DISK_SLACK_BYTES
    checks.that(used < most, "the machine's disk", f"{used // MIB} MiB of at most {most // MIB}")


@attempt
async def use_up_the_inodes(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Create empty files without end in every writable folder."""
    folders = "/workspace /out /tmp /dev/shm"
    script = f"for p in {folders}; do i=0; while touch $p/$i 2>/dev/null; do i=$((i+1)); done; echo files $i; done"
    ran = await scene.shell(script, limits={"wall_seconds": 60, "tmp_bytes": MIB, "cpu_thousandths": 2_000})
    counts = [int(line.split()[1]) for line in ran.text.splitlines() if line.startswith("files")]
    is_bounded = len(counts) == 4 or ran.end.reason in {EndReason.OUT_OF_MEMORY, EndReason.TIME_IS_UP}
    checks.that(is_bounded and all(count < 20_000 for count in counts), "it comes to an end", f"{counts} {ran.end}")


@attempt
async def eat_the_memory(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Touch memory without end, and fill the folders in memory too."""
    ran = await scene.run("probe", "memory")
    limit = LIMITS.memory_bytes // MIB
    checks.that(ran.end.reason is EndReason.OUT_OF_MEMORY and ran.end.exit_code == 137, "it is ended", ran.end)
    checks.that(0 < ran.number("megabytes") <= limit, "within its limit", f"{ran.number('megabytes')} of {limit} MiB")
    script = "dd if=/dev/zero of=/dev/shm/a bs=65536; dd if=/dev/zero of=/tmp/a bs=65536; probe memory"
    ran = await scene.shell(script, limits={"tmp_bytes": 24 * MIB})
    # Both folders together hold up to 48 MiB, which must count against the container's memory.
    checks.that(ran.number("megabytes") <= limit - 40, "folders in memory count", f"{ran.number('megabytes')} MiB left")


@attempt
async def start_too_many_processes(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Fork until the kernel refuses."""
    ran = await scene.run("probe", "processes")
    checks.that(0 < ran.number("processes") <= LIMITS.processes, "processes", ran.text)


@attempt
async def fork_bomb(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Start a bomb: every process forks for ever."""
    before = process_count()
    async with scene.container("probe", "bomb", limits={"wall_seconds": 8}) as container:
        await asyncio.sleep(2)
        during = process_count()
        start_time = time.monotonic()
        other = await scene.run("echo", "alive")
        seconds = time.monotonic() - start_time
        deadline = await scene.engine.wait(container)
    checks.that(
        during - before <= LIMITS.processes + 16, "processes of the machine", f"{before} before, {during} during"
    )
    checks.that(other.text == "alive" and seconds < 10, "another container runs beside it", f"{seconds:.1f} s")
    checks.that(deadline.reason is EndReason.TIME_IS_UP, "ended by its time", deadline)
    checks.that(process_count() <= before + 8, "none is left", f"{before} before, {process_count()} after")


@attempt
async def stay_beyond_its_time(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Ignore every signal that can be ignored, fork away from the first process, and compute."""
    script = "trap '' TERM INT HUP QUIT; (while :; do :; done) & while :; do :; done"
    before = pid_of("dockerd")
    async with scene.container("sh", "-c", script, limits={"wall_seconds": 3}) as container:
        start_time = time.monotonic()
        deadline = await scene.engine.wait(container)
        seconds = time.monotonic() - start_time
    checks.that(
        deadline.reason is EndReason.TIME_IS_UP and seconds < 6,
        "ended",
        f"{deadline.reason.name} after {seconds:.1f} s",
    )
    async with scene.container("sh", "-c", script) as container:
        start_time = time.monotonic()
        deadline = await scene.engine.stop(container, grace_seconds=1)
        seconds = time.monotonic() - start_time
    checks.that(
        deadline.reason is EndReason.STOPPED and seconds < 4, "stopped", f"{deadline.reason.name} after {seconds:.1f} s"
    )
    checks.that(pid_of("dockerd") == before, "the engine is the same process")


@attempt
async def take_the_processors(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Compute in eight processes with half a core."""
    meters = " ".join(f"/sys/fs/cgroup/{name}" for name in ("cpu/cpuacct.usage", "cpuacct/cpuacct.usage", "cpu.stat"))
    script = f"for i in $(seq 8); do (while :; do :; done) & done; sleep 4; cat {meters}"
    start_time = time.monotonic()
    ran = await scene.shell(script, limits={"wall_seconds": 30})
    seconds = time.monotonic() - start_time
    used = [int(line) / 1e9 for line in ran.text.splitlines() if line.isdecimal()]
    used += [int(line.split()[1]) / 1e6 for line in ran.text.splitlines() if line.startswith("usage_usec")]
    most = seconds * LIMITS.cpu_thousandths / 1_000 + 0.3
    checks.that(
        used and 0 < used[0] <= most, "seconds of processors", f"{used[:1]} of at most {most:.1f}: {ran.text[-100:]}"
    )


@attempt
async def flood_the_log(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Print short lines, long lines and bytes without line ends at full speed."""
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
    """Open files until the kernel refuses, in one process and in as many as allowed."""
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
    with open("/proc/sys/fs/file-nr") as numbers:  # noqa: PTH123  # the shortest way
        return int(numbers.read().split()[0])


_SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/fs/file-max",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/module/printk/parameters/time",
    "/sys/power/state",
    "/sys/class/net/lo/mtu",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/pids/pids.max",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/cgroup.procs",
    "/dev/kmsg",
)
_WATCHED = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/fs/file-max")


def _all_refused(ran: RanProgram, checks: EscapeChecks, least: int, allowed: tuple[str, ...] = ()) -> None:
    done = [what for what in ran.done() if what not in allowed]
    checks.that(not done and ran.refused() >= least, f"{ran.refused()} refused", done or ran.text[-200:])


@attempt
async def mount_something(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Mount, remount the root, unmount the covers of /proc, make namespaces, change the root."""
    _all_refused(await scene.run("probe", "mounts"), checks, 14)
    ran = await scene.shell("mount -o remount,rw /; touch /etc/x && echo BAD; mount -t proc p /tmp && echo BAD; exit 0")
    checks.that("BAD" not in ran.text, "the root stays as it is", ran.text)


@attempt
async def change_the_system(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Write to /proc/sysrq-trigger, /proc/sys, /sys and the container's own control groups."""
    before = _settings()
    script = "; ".join(f"if echo 1 2>/dev/null >{path}; then echo WROTE {path}; else echo no; fi" for path in _SETTINGS)
    ran = await scene.shell(script)
    wrote = [line for line in ran.text.splitlines() if line.startswith("WROTE")]
    checks.that(not wrote and ran.text.count("no") == len(_SETTINGS), f"{len(_SETTINGS)} refused", wrote or ran.text)
    ran = await scene.shell("echo -1000 >/proc/self/oom_score_adj && echo SPARED; exit 0")
    checks.that("SPARED" not in ran.text, "it is not spared when memory runs out", ran.text)
    checks.that(before == _settings(), "the machine's settings are as before")


def _settings() -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in _WATCHED if Path(path).exists()}


@attempt
async def become_root(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Run a setuid root program of the image, and ask for user 0."""
    for program in ("probe", "probe-as-root"):
        ran = await scene.run(program, "users")
        _all_refused(ran, checks, 4)
        checks.that("user 65534 65534" in ran.text, f"{program} stays nobody", ran.text)
    status = await scene.shell("cat /proc/self/status")
    lines = dict(line.split(":\t", 1) for line in status.text.splitlines() if ":\t" in line)
    checks.that(all(int(lines.get(name, "1"), 16) == 0 for name in ("CapPrm", "CapEff", "CapBnd")), "no capabilities")
    checks.that(lines.get("NoNewPrivs") == "1" and lines.get("Seccomp") == "2", "no new ones; calls are filtered")


@attempt
async def reach_other_processes(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Trace, kill and read processes of the machine and of another container."""
    async with scene.container("sleep", "15") as other:
        ran = await scene.run("probe", "others")
        checks.that("others 0" in ran.text, "it sees none", ran.text)
        checks.that(not [what for what in ran.done() if what != "kill everybody"], "nothing was opened", ran.done())
        ran = await scene.shell("kill -9 -1; for i in $(seq 1 5000); do kill -9 $i 2>/dev/null; done; echo over")
        checks.that(not other.end.done(), "the other one lives")


@attempt
async def make_devices(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Make device nodes of disks and memory. Open the machine's nodes and those of the image."""
    _all_refused(await scene.run("probe", "devices"), checks, 20)


@attempt
async def open_raw_sockets(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Open sockets that write raw packets, with and without a network."""
    for network in NetworkAccess:
        _all_refused(await scene.run("probe", "sockets", network=network), checks, 4)


@attempt
async def call_the_kernel(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Call the kernel to load modules, trace, reboot, open files by handle, set clocks and names."""
    _all_refused(await scene.run("probe", "calls"), checks, 19)


_WORLD_PLACE = (ground.WORLD_PUBLIC, str(ground.WORLD_PORT))
_FIND_SECONDS = 30


@attempt
async def use_the_network_without_leave(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to other hosts from a container without a network."""
    places = (
        *_WORLD_PLACE,
        ground.METADATA,
        "80",
        ground.MACHINE_PUBLIC,
        str(ground.MACHINE_PORT),
        "127.0.0.1",
        "8098",
    )
    ran = await scene.run("probe", "reach", *places)
    checks.that(not ran.done() and ran.refused() == 4, "nobody is reached", ran.text)
    ran = await scene.shell("ls /sys/class/net; cat /proc/net/route /proc/net/if_inet6 | wc -l; cat /proc/net/dev")
    checks.that(ran.text.splitlines()[:1] == ["lo"] and "eth" not in ran.text, "it has no interface", ran.text[:200])


@attempt
async def ask_the_cloud(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to 169.254.169.254, where a cloud serves a machine's keys, from a container with a network."""
    ran = await _reach(scene, *_WORLD_PLACE, ground.METADATA, "80", "169.254.170.2", "80")
    checks.that(ran == [":".join(_WORLD_PLACE)], "only the world is reached", ran)


@attempt
async def reach_the_machine(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to the machine's loopback ports, addresses and private networks from a container with a network."""
    gateways = [f"10.213.{number}.1" for number in range(3)]
    machine = [word for place in (*gateways, ground.MACHINE_PUBLIC) for word in (place, str(ground.MACHINE_PORT))]
    loopback = ["127.0.0.1", str(ground.LOOPBACK_PORT), "127.0.0.1", str(ground.MACHINE_PORT)]
    ran = await _reach(scene, *_WORLD_PLACE, *machine, *loopback, ground.PRIVATE, "80")
    checks.that(ran == [":".join(_WORLD_PLACE)], "only the world is reached", ran)


@attempt
async def reach_another_container(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to a container of another customer, both with a network."""
    async with scene.container("sh", "-c", "while :; do sleep 1; done", network=NetworkAccess.OUTBOUND) as other:
        said = await scene.engine.inside.run(other, ["cat", "/proc/net/fib_trie"], 10, 20_000)
        arguments = {word for word in said.out.decode().split() if word.startswith("10.213.") and "/" not in word}
        own = sorted(word for word in arguments if not word.endswith((".0", ".255")))
        checks.that(own, "the other one has an address", said.out[:200])
        ran = await _reach(scene, *_WORLD_PLACE, *[word for address in own for word in (address, "80")])
        places = [word for address in own for word in (address, "80")]
        refused = await scene.run("probe", "reach", *places, network=NetworkAccess.OUTBOUND)
    checks.that(ran == [":".join(_WORLD_PLACE)], "only the world is reached", ran)
    # A closed port answers "refused" to every packet that arrives, so silence proves that the packets are dropped.
    checks.that("ECONNREFUSED" not in refused.text and refused.refused(), "packets do not arrive", refused.text)


@attempt
async def find_the_engine(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Search for the engine's socket, by its usual names and everywhere."""
    socket = scene.address.removeprefix("unix://")
    usual = "/var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock"
    script = f"ls {usual} {socket}; find / -type s 2>/dev/null; echo over"
    ran = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
    found = [line for line in ran.text.splitlines() if line.startswith("/")]
    checks.that(not found and "over" in ran.text, "there is no socket", found or ran.text[-200:])


@attempt
async def read_the_providers_key(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Read the provider's key file by its path, through /proc, and through links in the container's folders."""
    key = scene.key_file.resolve()
    script = (
        f"cat {key} /proc/1/root{key} /proc/*/root{key} /proc/*/cwd/{key.name}; cd /out; ln -s {key} key; cat key; "
        f"ln -s / root; cat root{key}; find / -name {key.name} 2>/dev/null; cat /proc/*/environ; env; echo over"
    )
    ran = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
    checks.that(scene.secret not in ran.text and "over" in ran.text, "it is not there", ran.text[-200:])
    checks.that(scene.key_file.read_text() == scene.secret, "it is untouched")


@attempt
async def read_another_customers_files(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Read secrets, inputs and workspace of another customer, in its container and on the host."""
    token = "another-customers-token"  # noqa: S105  # a marker
    things = {"secrets": {"token": token.encode()}, "inputs": {"data": token.encode()}}
    async with scene.container("sleep", "15", **things) as other:
        await scene.engine.inside.copy_in(other, "workspace", {"x": token.encode()})
        data = scene.folder / "engine" / "data"
        script = (
            f"cat /secrets/* /in/* /workspace/*; ls {data} /var/lib/docker/volumes; cat {data}/volumes/*/_data/*; "
            f"cat /proc/*/root/secrets/*; find / -name token 2>/dev/null; cat /proc/mounts; echo over"
        )
        ran = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
        checks.that(token not in ran.text and "over" in ran.text, "they are not there", ran.text[-200:])
        seen = await scene.engine.inside.run(other, ["cat", "/secrets/token"], 10, 1_000)
        checks.that(seen.out.decode() == token, "their owner reads them")
        told = str(await scene.ask_engine(lambda client: client.inspect_container(other.name)))
        checks.that(token not in told, "a secret stands in nothing that the engine tells")


async def _reach(scene: EscapeScene, *places: str) -> list[str]:
    ran = await scene.run("probe", "reach", *places, network=NetworkAccess.OUTBOUND)
    return ran.done()


_OUTPUTS = {
    "a link to a file of the machine": "ln -s /etc/shadow /out/x",
    "a link to a folder": "mkdir /out/d; ln -s / /out/d/x",
    "a hard link": "echo a >/out/a; ln /out/a /out/b",
    "a pipe": "mkfifo /out/x",
    "a file with a hole of a terabyte": "dd if=/dev/null of=/out/x bs=1 seek=1000000000000",
    "a hundred and one files": "for i in $(seq 101); do touch /out/$i; done",
    "folders in folders": "p=/out; for i in $(seq 20); do p=$p/d; mkdir $p; done",
    "a name that a terminal takes for a command": "touch \"/out/$(printf '\\033]0;x')\"",
    "a name with a line end": 'touch "/out/a\nb"',
    "a name that is not UTF-8": "touch \"/out/$(printf '\\377')\"",
    "the folder itself as a link": "cd /; rm -r /out || ln -s / /out/../x || ln -s /secrets /out/o",
}


@attempt
async def hand_over_bad_outputs(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Leave links, pipes, holes, too many files, deep folders and bad names in /out."""
    for what, script in _OUTPUTS.items():
        disk, start_time = used_disk(scene.folder), time.monotonic()
        async with scene.container("sh", "-c", script) as container:
            ran = await scene.ended(container)
            sink = io.BytesIO()
            try:
                archive = await scene.engine.outputs(container, sink)
            except ContainerRefusedError as refusal:
                said = str(refusal)
            else:
                said = f"TAKEN {archive.files} files: {ran.text[:100]}"
        checks.that(not said.startswith("TAKEN"), what, said)
        checks.that(
            sink.tell() < LIMITS.output_bytes + MIB and time.monotonic() - start_time < 15, f"{what}: soon refused"
        )
        checks.that(used_disk(scene.folder) - disk < 8 * MIB, f"{what}: no disk taken")
    # The order, times and modes of the files differ between both runs, and must not change the hash.
    script = "mkdir /out/d; echo b >/out/d/b; echo a >/out/a; chmod 4777 /out/a"
    hashes = []
    for text in (script, "echo a >/out/a; mkdir /out/d; sleep 1; echo b >/out/d/b; chmod 755 /out/a"):
        async with scene.container("sh", "-c", text) as container:
            await scene.engine.wait(container)
            hashes.append((await scene.engine.outputs(container, io.BytesIO())).blake2_256)
    checks.that(hashes[0] == hashes[1], "the same files have the same hash")


@attempt
async def hand_over_bad_images(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Use images with unsafe configurations, that unpack to too much, or that take over other images' names."""
    files = busybox_files()
    good = MadeImage(files).archive()
    hole = struct.pack(">4xQ", 1 << 40)  # GNU's binary size: a terabyte, without any data
    bad = {
        "LD_PRELOAD": MadeImage(files, {"Env": ["LD_PRELOAD=/evil.so"]}).archive(),
        "NVIDIA_VISIBLE_DEVICES": MadeImage(files, {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}).archive(),
        "volumes": MadeImage(files, {"Volumes": {"/data": {}}}).archive(),
        "a health check": MadeImage(files, {"Healthcheck": {"Test": ["CMD", "yes"]}}).archive(),
        "triggers": MadeImage(files, {"OnBuild": ["RUN id"]}).archive(),
        "our labels": MadeImage(files, {"Labels": {"org.ogpu.owner": "x"}}).archive(),
        "another id": replace(good, sha256="0" * 64),
        "a packed layer": MadeImage(files).archive(is_packed=True),
        "a gigabyte of zeros, packed": MadeImage(files).archive(is_packed=True, layer=bytes(64 * MIB)),
        "a layer that is none": MadeImage(files).archive(layer=b"\xff" * 4096),
        "a layer with a hole": MadeImage(files).archive(layer=_with_size(layer_of([ImageFile("x", b"")]), hole)),
        "more bytes than the limit": MadeImage((*files, ImageFile("x", bytes(24 * MIB)))).archive(),
        "an archive that is none": ImageArchive(b"no tar" * 1_000, "1" * 64),
        "half an archive": replace(good, content=_half(good)),
    }
    memory, engine_memory = resident_bytes(), resident_bytes(pid_of("dockerd"))
    for what, image in bad.items():
        try:
            await scene.run("id", image=image, limits={"image_bytes": 16 * MIB})
        except ContainerRefusedError as refusal:
            checks.that(True, what, refusal)
        else:
            checks.that(False, what, "it RAN")
    grown = resident_bytes() - memory, resident_bytes(pid_of("dockerd")) - engine_memory
    checks.that(max(grown) < 160 * MIB, "memory", grown)
    tagged = MadeImage((*files, ImageFile("tagged", b"")), tags=("postgres:latest",)).archive()
    ran = await scene.run("id", image=tagged)
    names = await scene.ask_engine(lambda client: client.images(name="postgres"))
    checks.that(ran.end.exit_code == 0 and not names, "a tag of the archive names nothing here", names)


def _with_size(layer: bytes, size: bytes) -> bytes:
    """Return the layer with another size in its first header, and a matching checksum."""
    header = bytearray(layer[:512])
    header[124:136] = b"\x80" + size[1:]
    # The checksum of a tar header is computed with spaces in its own field (POSIX ustar).
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + layer[512:]


def _half(image: ImageArchive) -> bytes:
    assert isinstance(image.content, bytes)
    return image.content[: len(image.content) // 2]


@attempt
async def swap_the_image(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Use a registry with other content than the digest's, and a repository that is not permitted."""
    digest = ImageByDigest(REPOSITORY, scene.registry_digest)
    other = ImageByDigest(OTHER_REPOSITORY, scene.registry_digest)
    ran = await scene.run("echo", "by digest", image=digest)
    checks.that(ran.text == "by digest", "the right one runs", ran.text)
    wrong = replace(digest, sha256=hashlib.sha256(b"no such image").hexdigest())
    for what, image in {"another digest": wrong, "another repository": other}.items():
        try:
            await scene.run("id", image=image)
        except ContainerError as refusal:
            checks.that(True, what, refusal)
        else:
            checks.that(False, what, "it RAN")


@attempt
async def outlive_the_provider(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Kill the provider with SIGKILL while containers run. The next one must find exactly its own containers."""
    folder = scene.folder / "victim"
    environment = processes.source_path()
    command = [sys.executable, "-m", "devnet.proofs.escape.victim", scene.address, str(folder)]
    provider = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
    async with scene.container("sleep", "60") as other:
        assert provider.stdout is not None
        line = await asyncio.wait_for(provider.stdout.readline(), 60)
        provider.kill()
        await provider.wait()
        checks.that(line == b"standing\n", "it had containers")
        before = await _traces(scene, folder.name)
        checks.that(len(before) >= 12, "they are still there", len(before))
        async with asyncio.timeout(60):
            next_provider = await open_engine(folder, POLICY, scene.address)
        await next_provider.close()
        checks.that(next_provider.leftovers.total >= 12, "removed", next_provider.leftovers)
        after = await _traces(scene, folder.name)
        checks.that(not after, "nothing is left", after)
        checks.that(not other.end.done(), "another provider's container runs on")


async def _traces(scene: EscapeScene, folder: str) -> list[str]:
    """Return all objects of a provider: in the engine, firewall rules, loop devices and files."""
    owner = (scene.folder / folder / "container-owner").read_text().strip()

    def named(client: docker.APIClient) -> list[str]:
        found = [str(thing["Names"]) for thing in client.containers(all=True)]
        found += [str(thing["Name"]) for thing in client.volumes().get("Volumes") or []]
        return found + [str(thing["Name"]) for thing in client.networks()]

    names = [name for name in await scene.ask_engine(named) if owner in name]
    rules = [line for line in (await run_program("iptables", "-S")).splitlines() if owner in line]
    loops = [line for line in (await run_program("losetup", "--all")).splitlines() if owner in line]
    return [*names, *rules, *loops, *map(str, (scene.folder / folder / "workspaces").glob("*"))]


ATTEMPTS: Final = {each.name: each for each in list(globals().values()) if isinstance(each, EscapeAttempt)}
