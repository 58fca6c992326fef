"""Creation requests to the engine as values of its API, and a check of the result. Pure.

From the image and the customer only four things enter: image, command, environment, and numbers within bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_tasks.provider.execution.containers.holder import PROGRAM
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import MIB, ContainerSpec

USER_ID = 65534
"""The user id "nobody", which owns nothing on a machine."""
USER = f"{USER_ID}:{USER_ID}"
HOLDER_MEMORY_BYTES = 32 * MIB
HOLDER_PROCESSES = 32
HOLDER_NANO_CPUS = 1_000_000_000
"""The holder needs none of these, but the engine's own start program runs under the same limits."""
OOM_SCORE = 800
"""If the machine runs out of memory, the kernel kills containers first."""
CPU_SLACK_SECONDS = 60
TMP_FILE_COST_BYTES = 4_096
TMP_FILES_MIN = 1_024
"""The lowest limit of files in /tmp. The number is limited because empty files use kernel memory."""
NO_NETWORK = "none"


def task_config(
    spec: ContainerSpec,
    image_id: str,
    volumes: Mapping[str, str],
    labels: Mapping[str, str],
    network: str,
    name_servers: Sequence[str],
) -> dict[str, Any]:
    """Return the configuration of the customer's container.

    `volumes` are names by folder. The folders "in" and "secrets" are read-only.
    """
    limits = spec.limits
    cpu_seconds = -(-limits.wall_seconds * limits.cpu_thousandths // 1_000) + CPU_SLACK_SECONDS
    size, files = limits.tmp_bytes, max(TMP_FILES_MIN, limits.tmp_bytes // TMP_FILE_COST_BYTES)
    temporary = f"rw,nosuid,nodev,exec,mode=1777,uid={USER_ID},gid={USER_ID},size={size},nr_inodes={files}"
    host = {
        **_closed(),
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # no additional swap
        "NanoCpus": limits.cpu_thousandths * 1_000_000,
        "PidsLimit": limits.processes + 1,  # plus our init process
        "ShmSize": limits.tmp_bytes,
        "Tmpfs": {"/tmp": temporary},  # noqa: S108 the container's own
        "Mounts": [_mount(name, folder, folder in {"in", "secrets"}) for folder, name in sorted(volumes.items())],
        "NetworkMode": network,
        "Dns": list(name_servers) if network != NO_NETWORK else [],
        "ReadonlyRootfs": True,
        "Init": True,
        "Ulimits": [
            _ulimit("nofile", limits.open_files),
            _ulimit("core", 0),
            # This clock alone limits a process that outlives its daemon. No honest program reaches it.
            _ulimit("cpu", cpu_seconds),
        ],
    }
    if spec.gpus:
        host["DeviceRequests"] = [
            {"Driver": "nvidia", "DeviceIDs": list(spec.gpus), "Capabilities": [["gpu", "compute", "utility"]]}
        ]
    environment = {"HOME": "/workspace", **spec.environment}
    return {
        **_plain(image_id, labels, host),
        "Cmd": list(spec.command) or None,
        "Env": [f"{name}={value}" for name, value in environment.items()],
    }


def holder_config(image_id: str, volumes: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of the holder of the volumes (see `holder`)."""
    host = {
        **_closed(),
        "Memory": HOLDER_MEMORY_BYTES,
        "MemorySwap": HOLDER_MEMORY_BYTES,
        "NanoCpus": HOLDER_NANO_CPUS,
        "PidsLimit": HOLDER_PROCESSES,
        "Mounts": [_mount(name, folder, is_read_only=False) for folder, name in sorted(volumes.items())],
        "NetworkMode": NO_NETWORK,
    }
    return {**_plain(image_id, labels, host), "Entrypoint": [PROGRAM]}


def check_made(asked: Mapping[str, Any], warnings: Sequence[str] | None, found: Mapping[str, Any]) -> None:
    """Raise ContainerError unless the engine made the container as requested.

    Some engines drop a limit and only warn.
    """
    if warnings:
        raise ContainerError(
            "limit a container",
            "; ".join(map(str, warnings))[:300],
            "see `ogpu-provider doctor`",
            code="limit_discarded",
        )
    wanted, got = asked["HostConfig"], found.get("HostConfig") or {}
    for name in (
        "Memory",
        "MemorySwap",
        "NanoCpus",
        "PidsLimit",
        "NetworkMode",
        "CapDrop",
        "IpcMode",
        "SecurityOpt",
        "ReadonlyRootfs",
    ):
        if got.get(name, False) != wanted.get(name, False):
            raise ContainerError(
                "limit a container",
                f"the engine set {name} to {got.get(name)!r}",
                "see `ogpu-provider doctor`",
                code="limit_changed",
            )
    if _gpus_of(got) != _gpus_of(wanted):
        raise ContainerError(
            "give a container a GPU", f"the engine gave {_gpus_of(got)}", "report this", code="other_gpu"
        )
    # These settings would let a container reach the machine. None of them was requested.
    open_doors = [
        name
        for name in ("Privileged", "PublishAllPorts", "Binds", "CapAdd", "Devices", "VolumesFrom", "PortBindings")
        if got.get(name)
    ]
    open_doors += [name for name in ("PidMode", "UTSMode", "UsernsMode") if got.get(name) == "host"]
    if open_doors or (found.get("Config") or {}).get("User") != USER:
        raise ContainerError(
            "limit a container",
            f"the engine set {', '.join(open_doors) or 'a user'}",
            "report this",
            code="machine_reachable",
        )
    # An image can declare volumes of its own, which no limit would hold.
    volumes = {mount["Source"] for mount in wanted["Mounts"]}
    if any(mount.get("Type") != "tmpfs" and mount.get("Name") not in volumes for mount in found.get("Mounts") or []):
        raise ContainerError(
            "limit a container", "the engine mounted an unrequested folder", "report this", code="folder_mounted"
        )


def _gpus_of(host: Mapping[str, Any]) -> list[tuple[list[str], int]]:
    """Return the requested devices, and the counts of unnamed ones."""
    requests = host.get("DeviceRequests") or []
    return [(list(each.get("DeviceIDs") or []), int(each.get("Count") or 0)) for each in requests]


def _closed() -> dict[str, Any]:
    """Return the settings that all our containers share."""
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],  # seccomp: the engine's default profile
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "OomScoreAdj": OOM_SCORE,
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "PublishAllPorts": False,
    }


def _plain(image_id: str, labels: Mapping[str, str], host: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Image": image_id,
        "User": USER,
        "Hostname": "container",
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": dict(host),
    }


def _mount(name: str, folder: str, is_read_only: bool) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": name,
        "Target": f"/{folder}",
        "ReadOnly": is_read_only,
        "VolumeOptions": {"NoCopy": True},
    }


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}
