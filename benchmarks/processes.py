"""CPU time and memory of other processes, as Linux counts them under /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_AFTER_NAME = 2  # the fields of `stat` are numbered from 1, and the name is the second
_PARENT = 4
_USER = 14
_SYSTEM = 15


@dataclass(frozen=True, slots=True)
class Usage:
    """One process: what it runs, CPU seconds since its start, memory in MiB."""

    command: str
    cpu_seconds: float
    rss_mib: float


def children(parent: int | None = None) -> list[int]:
    """The processes that a process (default: this one) started and that run still."""
    parent = os.getpid() if parent is None else parent
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return sorted(pid for pid in pids if _stat(pid, _PARENT) == parent)


def usage(pid: int) -> Usage:
    """What a process has used; OSError if there is none."""
    return Usage(command_of(pid), cpu_seconds_of(pid), _mib(pid, "VmRSS"))


def command_of(pid: int) -> str:
    """What a process runs; OSError if there is none."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had resident, in MiB; OSError if there is none."""
    return _mib(pid, "VmHWM")


def cpu_seconds_of(pid: int) -> float:
    """User and system time, in steps of a hundredth of a second."""
    return (_stat(pid, _USER) + _stat(pid, _SYSTEM)) / _TICKS


def _mib(pid: int, name: str) -> float:
    """A size in /proc/PID/status, which Linux gives in KiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))
    return round(kib / 1024, 1)


def _stat(pid: int, field: int) -> int:
    """A field of `stat`, by its number in proc(5); 0 for a process that has gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[field - _AFTER_NAME - 1])
