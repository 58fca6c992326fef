"""Attempts on the kernel: mounts, system settings, users, other processes, devices, sockets, system calls."""

from __future__ import annotations

from pathlib import Path

from devnet.proofs.escape.attempt import EscapeChecks, attempt
from devnet.proofs.escape.scene import EscapeScene, RanProgram
from gpu_tasks.provider.execution.containers.spec import NetworkAccess

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
    """Mount, remount the root, unmount what covers /proc, make namespaces, change the root."""
    _all_refused(await scene.run("probe", "mounts"), checks, 14)
    ran = await scene.shell("mount -o remount,rw /; touch /etc/x && echo BAD; mount -t proc p /tmp && echo BAD; exit 0")
    checks.that("BAD" not in ran.text, "the root stays as it is", ran.text)


@attempt
async def change_the_system(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Write to /proc/sysrq-trigger, /proc/sys, /sys and its own control groups."""
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
    """Run a program of the image that belongs to root and has the setuid bit; ask for user 0."""
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
    """Make nodes of disks and memory; open the machine's, and those that the image brought along."""
    _all_refused(await scene.run("probe", "devices"), checks, 20)


@attempt
async def open_raw_sockets(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Sockets that write packets of their own, with and without a network."""
    for network in NetworkAccess:
        _all_refused(await scene.run("probe", "sockets", network=network), checks, 4)


@attempt
async def call_the_kernel(scene: EscapeScene, checks: EscapeChecks) -> None:
    """System calls that load, trace, reboot, open files by handle, set clocks and names."""
    _all_refused(await scene.run("probe", "calls"), checks, 19)
