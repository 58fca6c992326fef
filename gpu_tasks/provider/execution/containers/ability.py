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
LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "CPU", "PidsLimit": "processes"}
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
    if (diagnosis := why_unreachable(address)) is not None:
        return _without(diagnosis)
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
    toolkit_state = await _diagnose_toolkit()
    if toolkit_state.grade is Grade.GOOD:
        toolkit_state = judge_gpus(info, toolkit_state.says, has_hook=is_there(HOOK))
    why_no_outbound = await why_not_outbound()
    diagnoses = (
        _diagnose_engine(info),
        _diagnose_storage(info),
        *_diagnose_limits(info),
        _diagnose_seccomp(info),
        _user_namespace(info),
        _workspaces(),
        _diagnose_swap(),
        _diagnose_disk(info),
        toolkit_state,
        weak("network", why_no_outbound, "only containers without a network run")
        if why_no_outbound
        else good("network", "outbound"),
    )
    return ContainerAbility(
        diagnoses,
        "; ".join(f"{diagnosis.check}: {diagnosis.says}" for diagnosis in diagnoses if diagnosis.grade is Grade.BAD),
        "" if toolkit_state.grade is Grade.GOOD else toolkit_state.says,
        why_no_outbound,
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
        if missing_parts := [
            engine_part
            for engine_part in ENGINE_PARTS
            if shutil.which(engine_part) is None and not is_there(engine_part)
        ]:
            missing_text = f"Docker is incomplete: {', '.join(missing_parts)} not installed"
            return bad("engine", missing_text, "apt-get install docker.io iptables")
        return bad("engine", f"not running: no socket {path}", "systemctl start docker")
    if not os.access(path, os.R_OK | os.W_OK):
        return bad("engine", f"no permission for {path}", "add the daemon's user to the group docker (equal to root)")
    return None


def _without(diagnosis: Diagnosis) -> ContainerAbility:
    return ContainerAbility((diagnosis,), f"{diagnosis.check}: {diagnosis.says}", diagnosis.says, diagnosis.says)


def _diagnose_engine(info: Mapping[str, Any]) -> Diagnosis:
    return good("engine", f"Docker {info.get('ServerVersion')} with {info.get('DefaultRuntime')}")


def _diagnose_storage(info: Mapping[str, Any]) -> Diagnosis:
    storage_driver = str(info.get("Driver"))
    # There an image's id is not the hash of its configuration, and ids are how archives are verified.
    if any("io.containerd.snapshotter" in str(status_line) for status_line in info.get("DriverStatus") or []):
        remedy = 'put "features": {"containerd-snapshotter": false} into /etc/docker/daemon.json'
        return bad("storage", "images are in containerd's store, under other ids", remedy)
    if storage_driver == "vfs":
        return weak("storage", "vfs copies every layer of every image", "use overlay2")
    return good("storage", storage_driver)


def _diagnose_limits(info: Mapping[str, Any]) -> tuple[Diagnosis, ...]:
    cgroups_version = f"control groups v{info.get('CgroupVersion') or '?'}"
    diagnoses = []
    for info_key, limit_name in LIMITS.items():
        # Control groups v2 always limit swap separately, and engines do not report it.
        if info.get(info_key) or (info_key == "SwapLimit" and info.get("CgroupVersion") == "2"):
            diagnoses.append(good(f"limit of {limit_name}", cgroups_version))
        else:
            diagnoses.append(
                bad(f"limit of {limit_name}", f"{cgroups_version} do not enforce it here", _remedy(info, info_key))
            )
    return tuple(diagnoses)


def _remedy(info: Mapping[str, Any], info_key: str) -> str:
    """Return the remedy for a limit that is not enforced: a rootless engine has only delegated controllers."""
    if _is_rootless(info):
        return DELEGATE
    return "boot with cgroup_enable=memory swapaccount=1" if info_key in {"MemoryLimit", "SwapLimit"} else "see Docker"


def _is_rootless(info: Mapping[str, Any]) -> bool:
    return any(
        str(security_option).startswith("name=rootless") for security_option in info.get("SecurityOptions") or []
    )


def _diagnose_seccomp(info: Mapping[str, Any]) -> Diagnosis:
    security_options = [str(security_option) for security_option in info.get("SecurityOptions") or []]
    seccomp_options = [
        security_option for security_option in security_options if security_option.startswith("name=seccomp")
    ]
    if not seccomp_options or "unconfined" in seccomp_options[0]:
        return bad("system calls", "the engine has no filter (seccomp)", "run it with its default profile")
    profile_names = ", ".join(
        security_option.split(",")[0].removeprefix("name=")
        for security_option in security_options
        if security_option not in seccomp_options
    )
    return good("system calls", "filtered by the default profile" + (f"; {profile_names}" if profile_names else ""))


def _user_namespace(info: Mapping[str, Any]) -> Diagnosis:
    if any(str(security_option).startswith("name=userns") for security_option in info.get("SecurityOptions") or []):
        return good("user namespace", "container users map to unprivileged users")
    if _is_rootless(info):
        return good("user namespace", "the engine is not root")
    remedy = 'put "userns-remap": "default" into /etc/docker/daemon.json'
    return weak("user namespace", "none: a container's user 65534 is also the machine's", remedy)


def _workspaces() -> Diagnosis:
    if best_kind() is WorkspaceKind.FILE:
        return good("workspaces", "one file system per workspace")
    return weak(
        "workspaces", "in memory only: no root, losetup, mkfs.ext4 or /dev/loop-control", "bid only for small ones"
    )


def _diagnose_swap() -> Diagnosis:
    try:
        has_swap = len(Path("/proc/swaps").read_text().splitlines()) > 1
    except OSError:
        has_swap = False
    # A tmpfs volume may be swapped out, and swap space survives the container.
    if has_swap and not has_noswap():
        return weak("secrets", "before Linux 6.4 they may be swapped to disk", "encrypt it, or `swapoff -a`")
    return good("secrets", "only in memory")


def _diagnose_disk(info: Mapping[str, Any]) -> Diagnosis:
    storage_root = str(info.get("DockerRootDir") or "/")
    try:
        free_bytes = shutil.disk_usage(storage_root).free
    except OSError:
        return weak("disk for images", f"{storage_root} cannot be read", "check it with `df`")
    disk_text = f"{free_bytes // GIB} GiB free under {storage_root}"
    if free_bytes < DISK_LEAST_BYTES:
        return weak("disk for images", disk_text, f"free {DISK_LEAST_BYTES // GIB} GiB: `docker image prune`")
    return good("disk for images", disk_text)


async def _diagnose_toolkit() -> Diagnosis:
    remedy = f"install nvidia-container-toolkit {'.'.join(map(str, TOOLKIT_LEAST))} or newer"
    programs = [program for program in ("nvidia-ctk", "nvidia-container-toolkit") if is_there(program)]
    if not programs:
        return weak("GPUs", "NVIDIA's container toolkit is not installed", remedy)
    try:
        version_text = await run_program(programs[0], "--version")
    except ContainerError as error:
        return weak("GPUs", error.why, remedy)
    return judge_toolkit(version_text, remedy)


def judge_gpus(info: Mapping[str, Any], toolkit_text: str, *, has_hook: bool) -> Diagnosis:
    """Judge whether the engine itself can give a container a GPU, given a sufficient NVIDIA toolkit."""
    device_ids = [
        str(engine_device.get("ID"))
        for engine_device in info.get("DiscoveredDevices") or []
        if isinstance(engine_device, Mapping)
    ]
    is_known_by_way = {
        "its runtime nvidia": "nvidia" in (info.get("Runtimes") or {}),
        "CDI": any(device_id.startswith(CDI_DEVICES) for device_id in device_ids),
        f"the program {HOOK}": has_hook,
    }
    known_ways = [gpu_way for gpu_way, is_known in is_known_by_way.items() if is_known]
    if known_ways:
        return good("GPUs", f"{toolkit_text}; the engine knows it by {known_ways[0]}")
    problem_text = (
        f"{toolkit_text}, but the engine has neither the runtime nvidia nor a CDI device {CDI_DEVICES}..: "
        "it gives no GPU"
    )
    return weak("GPUs", problem_text, "nvidia-ctk runtime configure --runtime=docker; systemctl restart docker")


def judge_toolkit(version_text: str, remedy: str = "") -> Diagnosis:
    """Judge NVIDIA's toolkit by the output of its version command."""
    version_match = re.search(r"(\d+)\.(\d+)\.(\d+)(-\S+)?", version_text)
    if version_match is None:
        return weak("GPUs", "the version of NVIDIA's container toolkit is unknown", remedy)
    version_parts = tuple(int(version_part) for version_part in version_match.groups()[:3])
    toolkit_text = f"NVIDIA's container toolkit {version_match[0]}"
    # A pre-release of the least version precedes the fix.
    if version_parts < TOOLKIT_LEAST or (version_parts == TOOLKIT_LEAST and version_match[4]):
        return weak("GPUs", f"{toolkit_text} lets an image run code outside its container (CVE-2025-23266)", remedy)
    return good("GPUs", toolkit_text)
