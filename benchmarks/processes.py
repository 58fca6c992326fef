"""CPU time and memory of other processes, from Linux's /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

from devnet.launcher.processes import every_process, stat_fields

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12  # fields of `stat` after the program's name (proc(5))


@dataclass(frozen=True, slots=True)
class Usage:
    """One process: its command, CPU seconds since its start, and memory in MiB."""

    command: str
    cpu_seconds: float
    rss_mib: float


def children(parent: int | None = None) -> list[int]:
    """Return the running child processes of a process (default: this one)."""
    parent = os.getpid() if parent is None else parent
    return sorted(pid for pid, fields in every_process() if int(fields[_PARENT]) == parent)


def usage(pid: int) -> Usage:
    """Return the usage of a process. Raise OSError if it does not exist."""
    return Usage(command_of(pid), cpu_seconds_of(pid), _mib(pid, "VmRSS"))


def command_of(pid: int) -> str:
    """Return the command line of a process. Raise OSError if it does not exist."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def peak_mib(pid: int) -> float:
    """Return the peak resident memory of a process, in MiB. Raise OSError if it does not exist."""
    return _mib(pid, "VmHWM")


def cpu_seconds_of(pid: int) -> float:
    """Return the user and system time in steps of 0.01 s, or 0 for an ended process."""
    fields = stat_fields(pid)
    return 0.0 if fields is None else (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS


def _mib(pid: int, name: str) -> float:
    """Return a size in MiB from /proc/PID/status, which has KiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))
    return round(kib / 1024, 1)
