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
    volume_by_folder: Mapping[str, str],
    labels: Mapping[str, str],
    network_name: str,
    name_servers: Sequence[str],
) -> dict[str, Any]:
    """Return the configuration of the customer's container.

    `volume_by_folder` are names by folder. The folders "in" and "secrets" are read-only.
    """
    limits = spec.limits
    cpu_seconds = -(-limits.wall_seconds * limits.cpu_thousandths // 1_000) + CPU_SLACK_SECONDS
    tmp_bytes, tmp_files = limits.tmp_bytes, max(TMP_FILES_MIN, limits.tmp_bytes // TMP_FILE_COST_BYTES)
    temporary = f"rw,nosuid,nodev,exec,mode=1777,uid={USER_ID},gid={USER_ID},size={tmp_bytes},nr_inodes={tmp_files}"
    config = {
        **_closed_host(),
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # no additional swap
        "NanoCpus": limits.cpu_thousandths * 1_000_000,
        "PidsLimit": limits.processes + 1,  # plus our init process
        "ShmSize": limits.tmp_bytes,
        "Tmpfs": {"/tmp": temporary},  # noqa: S108 the container's own
        "Mounts": [
            _mount_config(name, mounted_folder, mounted_folder in {"in", "secrets"})
            for mounted_folder, name in sorted(volume_by_folder.items())
        ],
        "NetworkMode": network_name,
        "Dns": list(name_servers) if network_name != NO_NETWORK else [],
        "ReadonlyRootfs": True,
        "Init": True,
        "Ulimits": [
            _ulimit_config("nofile", limits.open_files),
            _ulimit_config("core", 0),
            # This clock alone limits a process that outlives its daemon. No honest program reaches it.
            _ulimit_config("cpu", cpu_seconds),
        ],
    }
    if spec.gpus:
        config["DeviceRequests"] = [
            {"Driver": "nvidia", "DeviceIDs": list(spec.gpus), "Capabilities": [["gpu", "compute", "utility"]]}
        ]
    environment = {"HOME": "/workspace", **spec.environment}
    return {
        **_plain_settings(image_id, labels, config),
        "Cmd": list(spec.command) or None,
        "Env": [f"{name}={value}" for name, value in environment.items()],
    }


def holder_config(image_id: str, volume_by_folder: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of the holder of the volumes (see `holder`)."""
    config = {
        **_closed_host(),
        "Memory": HOLDER_MEMORY_BYTES,
        "MemorySwap": HOLDER_MEMORY_BYTES,
        "NanoCpus": HOLDER_NANO_CPUS,
        "PidsLimit": HOLDER_PROCESSES,
        "Mounts": [
            _mount_config(volume, mounted_folder, is_read_only=False)
            for mounted_folder, volume in sorted(volume_by_folder.items())
        ],
        "NetworkMode": NO_NETWORK,
    }
    return {**_plain_settings(image_id, labels, config), "Entrypoint": [PROGRAM]}


LIMIT_SETTINGS = (
    "Memory", "MemorySwap", "NanoCpus", "PidsLimit", "NetworkMode", "CapDrop", "IpcMode", "SecurityOpt",
    "ReadonlyRootfs",
)  # fmt: skip
"""Settings of the engine that limit a container. Each was requested."""
OPEN_DOORS = ("Privileged", "PublishAllPorts", "Binds", "CapAdd", "Devices", "VolumesFrom", "PortBindings")
"""Settings that would let a container reach the machine. None was requested."""
NAMESPACE_MODES = ("PidMode", "UTSMode", "UsernsMode")
"""Settings that let a container reach the machine if their value is `host`."""


def check_made(asked_config: Mapping[str, Any], warnings: Sequence[str] | None, inspected: Mapping[str, Any]) -> None:
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
    wanted_host, actual_host = asked_config["HostConfig"], inspected.get("HostConfig") or {}
    for setting in LIMIT_SETTINGS:
        # An engine silently drops limits whose control group the machine lacks.
        if actual_host.get(setting, False) != wanted_host.get(setting, False):
            raise ContainerError(
                "limit a container",
                f"the engine set {setting} to {actual_host.get(setting)!r}",
                "see `ogpu-provider doctor`",
                code="limit_changed",
            )
    # Another GPU of the machine may be the one that another customer pays for.
    if _gpus_of(actual_host) != _gpus_of(wanted_host):
        raise ContainerError(
            "give a container a GPU", f"the engine gave {_gpus_of(actual_host)}", "report this", code="other_gpu"
        )
    open_doors = [setting for setting in OPEN_DOORS if actual_host.get(setting)]
    open_doors += [setting for setting in NAMESPACE_MODES if actual_host.get(setting) == "host"]
    if open_doors or (inspected.get("Config") or {}).get("User") != USER:
        raise ContainerError(
            "limit a container",
            f"the engine set {', '.join(open_doors) or 'a user'}",
            "report this",
            code="machine_reachable",
        )
    # An image can declare volumes of its own, which no limit would hold.
    volume_names = {mount_point["Source"] for mount_point in wanted_host["Mounts"]}
    if any(
        mount_point.get("Type") != "tmpfs" and mount_point.get("Name") not in volume_names
        for mount_point in inspected.get("Mounts") or []
    ):
        raise ContainerError(
            "limit a container", "the engine mounted an unrequested folder", "report this", code="folder_mounted"
        )


def _gpus_of(config: Mapping[str, Any]) -> list[tuple[list[str], int]]:
    """Return the requested devices, and the counts of unnamed ones."""
    requests = config.get("DeviceRequests") or []
    return [
        (list(device_request.get("DeviceIDs") or []), int(device_request.get("Count") or 0))
        for device_request in requests
    ]


def _closed_host() -> dict[str, Any]:
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


def _plain_settings(image_id: str, labels: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Image": image_id,
        "User": USER,
        "Hostname": "container",
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": dict(config),
    }


def _mount_config(volume: str, mounted_folder: str, is_read_only: bool) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": volume,
        "Target": f"/{mounted_folder}",
        "ReadOnly": is_read_only,
        "VolumeOptions": {"NoCopy": True},
    }


def _ulimit_config(limit_name: str, value: int) -> dict[str, Any]:
    return {"Name": limit_name, "Soft": value, "Hard": value}
