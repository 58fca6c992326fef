"""CPU time and memory of other processes, as Linux counts them under /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

from devnet.launcher.processes import every_process, stat_fields

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12  # places in `stat` after the program's name


@dataclass(frozen=True, slots=True)
class Usage:
    """One process: what it runs, CPU seconds since its start, memory in MiB."""

    command: str
    cpu_seconds: float
    rss_mib: float


def children(parent: int | None = None) -> list[int]:
    """The processes that a process (default: this one) started and that run still."""
    parent = os.getpid() if parent is None else parent
    return sorted(pid for pid, fields in every_process() if int(fields[_PARENT]) == parent)


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
    """User and system time, in steps of a hundredth of a second; 0 for a process that has gone."""
    fields = stat_fields(pid)
    return 0.0 if fields is None else (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS


def _mib(pid: int, name: str) -> float:
    """A size in /proc/PID/status, which Linux gives in KiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))
    return round(kib / 1024, 1)
