"""The abilities of this machine's container engine, with reasons for missing ones.

Commands print these values, and the engine obeys them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_tasks.provider.execution.containers.docker_door import DEFAULT_ADDRESS, open_door
from gpu_tasks.provider.execution.containers.networks import why_not_outbound
from gpu_tasks.provider.execution.containers.programs import is_there, run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import GIB
from gpu_tasks.provider.execution.containers.workspaces import WorkspaceKind, best_kind, has_noswap
from gpu_tasks.provider.execution.diagnoses import Diagnosis, Grade, bad, good, weak

TOOLKIT_LEAST = (1, 17, 8)
"""The least version of NVIDIA's container toolkit. Older ones let an image's LD_PRELOAD run outside (CVE-2025-23266).
"""
HOOK = "nvidia-container-runtime-hook"
"""An engine that finds this program at its start gives GPUs without a special runtime."""
CDI_DEVICES = "nvidia.com/gpu="
ENGINE_PARTS = ("dockerd", "containerd", "runc")
"""The engine's programs on this machine. The client `docker` alone runs nothing."""
DISK_LEAST_BYTES = 10 * GIB
LIMITS = {
    "MemoryLimit": "memory",
    "SwapLimit": "swap",
    "CpuCfsQuota": "CPU",
    "PidsLimit": "processes",
}
"""The engine's keys for the limits of its control groups."""
DELEGATE = (
    "as root write `[Service]` and `Delegate=cpu cpuset io memory pids` into "
    "/etc/systemd/system/user@.service.d/delegate.conf, run `systemctl daemon-reload`, and restart the user's session; "
    "an engine without root wants control groups v2"
)


@dataclass(frozen=True, slots=True)
class ContainerAbility:
    """All findings. Containers run if no indispensable ability is missing."""

    items: tuple[Diagnosis, ...]
    why_not: str
    """The reason that no container runs here; empty if they do."""
    why_no_gpu: str = ""
    why_no_outbound: str = ""
    machine: str = ""
    """The architecture of the machine, in the engine's name for it."""


async def look_at_engine(address: str = DEFAULT_ADDRESS) -> ContainerAbility:
    """Examine the engine and the machine. Missing abilities are findings, not errors."""
    if (item := why_unreachable(address)) is not None:
        return _without(item)
    try:
        door = await open_door(address)
    except ContainerError as error:
        return _without(bad("engine", error.why, "start it: `systemctl start docker`"))
    try:
        info = await door.call("query the engine", lambda client: client.info())
    except ContainerError as error:
        return _without(bad("engine", error.why, "check its log: `journalctl -u docker`"))
    finally:
        await door.close()
    toolkit = await _toolkit()
    if toolkit.grade is Grade.GOOD:
        toolkit = judge_gpus(info, toolkit.says, has_hook=is_there(HOOK))
    outward = await why_not_outbound()
    items = (
        _engine(info),
        _storage(info),
        *_limits(info),
        _seccomp(info),
        _user_namespace(info),
        _workspaces(),
        _swap(),
        _disk(info),
        toolkit,
        weak("network", outward, "only containers without a network run") if outward else good("network", "outbound"),
    )
    return ContainerAbility(
        items,
        "; ".join(f"{item.check}: {item.says}" for item in items if item.grade is Grade.BAD),
        "" if toolkit.grade is Grade.GOOD else toolkit.says,
        outward,
        str(info.get("Architecture") or ""),
    )


def why_unreachable(address: str) -> Diagnosis | None:
    """Return the obstacle between this process and the engine's socket; None if there is none."""
    path = Path(address.removeprefix("unix://"))
    try:
        is_socket = path.is_socket()
    except PermissionError:
        is_socket = True  # a closed folder on the path has the same remedy as a closed socket
    if not is_socket:
        if missing := [part for part in ENGINE_PARTS if shutil.which(part) is None and not is_there(part)]:
            says = f"Docker is incomplete: {', '.join(missing)} not installed"
            return bad("engine", says, "apt-get install docker.io iptables")
        return bad("engine", f"not running: no socket {path}", "systemctl start docker")
    if not os.access(path, os.R_OK | os.W_OK):
        return bad("engine", f"no permission for {path}", "add the daemon's user to the group docker (equal to root)")
    return None


def _without(item: Diagnosis) -> ContainerAbility:
    return ContainerAbility((item,), f"{item.check}: {item.says}", item.says, item.says)


def _engine(info: Mapping[str, Any]) -> Diagnosis:
    return good("engine", f"Docker {info.get('ServerVersion')} with {info.get('DefaultRuntime')}")


def _storage(info: Mapping[str, Any]) -> Diagnosis:
    driver = str(info.get("Driver"))
    # There an image's id is not the hash of its configuration, and ids are how archives are verified.
    if any("io.containerd.snapshotter" in str(line) for line in info.get("DriverStatus") or []):
        then = 'put "features": {"containerd-snapshotter": false} into /etc/docker/daemon.json'
        return bad("storage", "images are in containerd's store, under other ids", then)
    if driver == "vfs":
        return weak("storage", "vfs copies every layer of every image", "use overlay2")
    return good("storage", driver)


def _limits(info: Mapping[str, Any]) -> tuple[Diagnosis, ...]:
    version = f"control groups v{info.get('CgroupVersion') or '?'}"
    found = []
    for key, name in LIMITS.items():
        # Control groups v2 always limit swap separately, and engines do not report it.
        if info.get(key) or (key == "SwapLimit" and info.get("CgroupVersion") == "2"):
            found.append(good(f"limit of {name}", version))
        else:
            found.append(bad(f"limit of {name}", f"{version} do not enforce it here", _remedy(info, key)))
    return tuple(found)


def _remedy(info: Mapping[str, Any], limit: str) -> str:
    """Return the remedy for a limit that is not enforced: a rootless engine has only delegated controllers."""
    if _is_rootless(info):
        return DELEGATE
    return "boot with cgroup_enable=memory swapaccount=1" if limit in {"MemoryLimit", "SwapLimit"} else "see Docker"


def _is_rootless(info: Mapping[str, Any]) -> bool:
    return any(str(option).startswith("name=rootless") for option in info.get("SecurityOptions") or [])


def _seccomp(info: Mapping[str, Any]) -> Diagnosis:
    options = [str(option) for option in info.get("SecurityOptions") or []]
    mine = [option for option in options if option.startswith("name=seccomp")]
    if not mine or "unconfined" in mine[0]:
        return bad("system calls", "the engine has no filter (seccomp)", "run it with its default profile")
    more = ", ".join(option.split(",")[0].removeprefix("name=") for option in options if option not in mine)
    return good("system calls", "filtered by the default profile" + (f"; {more}" if more else ""))


def _user_namespace(info: Mapping[str, Any]) -> Diagnosis:
    if any(str(option).startswith("name=userns") for option in info.get("SecurityOptions") or []):
        return good("user namespace", "container users map to unprivileged users")
    if _is_rootless(info):
        return good("user namespace", "the engine is not root")
    then = 'put "userns-remap": "default" into /etc/docker/daemon.json'
    return weak("user namespace", "none: a container's user 65534 is also the machine's", then)


def _workspaces() -> Diagnosis:
    if best_kind() is WorkspaceKind.FILE:
        return good("workspaces", "one file system per workspace")
    return weak(
        "workspaces", "in memory only: no root, losetup, mkfs.ext4 or /dev/loop-control", "bid only for small ones"
    )


def _swap() -> Diagnosis:
    try:
        has_swap = len(Path("/proc/swaps").read_text().splitlines()) > 1
    except OSError:
        has_swap = False
    # A tmpfs volume may be swapped out, and swap space survives the container.
    if has_swap and not has_noswap():
        return weak("secrets", "before Linux 6.4 they may be swapped to disk", "encrypt it, or `swapoff -a`")
    return good("secrets", "only in memory")


def _disk(info: Mapping[str, Any]) -> Diagnosis:
    root = str(info.get("DockerRootDir") or "/")
    try:
        free = shutil.disk_usage(root).free
    except OSError:
        return weak("disk for images", f"{root} cannot be read", "check it with `df`")
    says = f"{free // GIB} GiB free under {root}"
    if free < DISK_LEAST_BYTES:
        return weak("disk for images", says, f"free {DISK_LEAST_BYTES // GIB} GiB: `docker image prune`")
    return good("disk for images", says)


async def _toolkit() -> Diagnosis:
    then = f"install nvidia-container-toolkit {'.'.join(map(str, TOOLKIT_LEAST))} or newer"
    programs = [name for name in ("nvidia-ctk", "nvidia-container-toolkit") if is_there(name)]
    if not programs:
        return weak("GPUs", "NVIDIA's container toolkit is not installed", then)
    try:
        said = await run_program(programs[0], "--version")
    except ContainerError as error:
        return weak("GPUs", error.why, then)
    return judge_toolkit(said, then)


def judge_gpus(info: Mapping[str, Any], toolkit: str, *, has_hook: bool) -> Diagnosis:
    """Judge whether the engine itself can give a container a GPU, given a sufficient NVIDIA toolkit."""
    devices = [str(device.get("ID")) for device in info.get("DiscoveredDevices") or [] if isinstance(device, Mapping)]
    ways = {
        "its runtime nvidia": "nvidia" in (info.get("Runtimes") or {}),
        "CDI": any(device.startswith(CDI_DEVICES) for device in devices),
        f"the program {HOOK}": has_hook,
    }
    known = [way for way, is_known in ways.items() if is_known]
    if known:
        return good("GPUs", f"{toolkit}; the engine knows it by {known[0]}")
    says = f"{toolkit}, but the engine has neither the runtime nvidia nor a CDI device {CDI_DEVICES}..: it gives no GPU"
    return weak("GPUs", says, "nvidia-ctk runtime configure --runtime=docker; systemctl restart docker")


def judge_toolkit(said: str, then: str = "") -> Diagnosis:
    """Judge NVIDIA's toolkit by the output of its version command."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)(-\S+)?", said)
    if found is None:
        return weak("GPUs", "the version of NVIDIA's container toolkit is unknown", then)
    version = tuple(int(part) for part in found.groups()[:3])
    shown = f"NVIDIA's container toolkit {found[0]}"
    # A pre-release of the least version precedes the fix.
    if version < TOOLKIT_LEAST or (version == TOOLKIT_LEAST and found[4]):
        return weak("GPUs", f"{shown} lets an image run code outside its container (CVE-2025-23266)", then)
    return good("GPUs", shown)
