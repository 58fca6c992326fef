"""The free memory of a device: of its GPU, or of the machine and the control group that the daemon runs in."""

from __future__ import annotations

from pathlib import Path

from gpu_tasks.provider.execution.gpu import Hardware, free_gpu_bytes

KIB = 1_024
FILE_BYTES_MAX = 64 * KIB


def free_bytes(hardware: Hardware, system_root: Path = Path("/")) -> int:
    """Return the bytes that a worker on this hardware can take, or 0 if the system does not report them."""
    if hardware.index is not None:
        return free_gpu_bytes(hardware.index)
    # A container sees the whole machine's memory, and is killed for more than its own.
    found = (_of_machine(system_root), _of_group(system_root / "sys/fs/cgroup"))
    return min((free for free in found if free is not None), default=0)


def _of_machine(system_root: Path) -> int | None:
    free_kib = _fields(system_root / "proc/meminfo").get("MemAvailable:")
    return None if free_kib is None else free_kib * KIB


def _of_group(group: Path) -> int | None:
    """Return the rest of a control group's limit (version 2). The kernel drops the group's cached files first."""
    limit, used = _read(group / "memory.max"), _fields(group / "memory.stat").get("anon")
    return max(1, int(limit) - used) if limit.isdecimal() and used is not None else None


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file by the first word of their line."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}


def _read(path: Path) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as system_file:
            return system_file.read(FILE_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError:
        return ""
