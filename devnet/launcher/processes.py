"""Real processes of a devnet: start, watch, kill, restart, with pid files and logs.

Invariants:

* A pid file names the pid and the start time of its process. So a reused pid is never signalled.
* Each process leads its own session, and ending it ends its children.
* A process that is not detached dies with the program that started it, even after SIGKILL.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import devnet
from devnet.launcher.folder import DevnetError
from durable.folders import FOLDER_OWNER_ONLY
from wallet.private_file import own_opener

STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
CONNECT_SECONDS = 1.0
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)

NODE = "node.cli"
PROVIDER = "gpu_tasks.provider.cli"
BROKER = "devnet.launcher.broker"


@dataclass(frozen=True, slots=True)
class Process:
    """One program of a devnet. `folder` is its working directory, with its log and its pid file."""

    label: str  # its name for users: Alice, Alice/provider
    module: str
    arguments: tuple[str, ...]
    folder: Path
    kind: str = "node"  # the name of its log

    @property
    def log(self) -> Path:
        """The file of its output, over all its restarts."""
        return self.folder / f"{self.kind}.log"

    @property
    def pid_file(self) -> Path:
        """The file with its current pid."""
        return self.log.with_suffix(".pid")


def start(process: Process, *, detach: bool = False) -> int:
    """Start a process and return its pid. Raise DevnetError if it runs already."""
    pid = running(process)
    if pid is not None:
        raise DevnetError(f"{process.label} runs already, as process {pid}: stop it first with `ogpu-devnet down`")
    _clear(process)
    process.folder.mkdir(mode=FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
    with open(process.log, "ab", opener=own_opener) as log_file:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", process.module, *process.arguments],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            env=source_path(),
            preexec_fn=None if detach else dying_with(os.getpid()),  # noqa: PLW1509  # no thread exists yet
        )
    _CHILDREN[child.pid] = child
    start_count = _record(process).get("starts", 0) + 1
    record = {"pid": child.pid, "began": _began(child.pid), "starts": start_count}
    process.pid_file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return child.pid


def running(process: Process) -> int | None:
    """Return its pid, or None if it does not run."""
    record = _record(process)
    pid = record.get("pid")
    if pid is None:
        return None
    if pid in _CHILDREN:
        _CHILDREN[pid].poll()  # reap it if it has ended
    return pid if record.get("began") is not None and _began(pid) == record["began"] else None


def restarts(process: Process) -> int:
    """Return the number of its restarts."""
    return max(0, int(_record(process).get("starts", 0)) - 1)


def kill(process: Process) -> int:
    """Kill a process with SIGKILL, as a power cut would, and return its pid. Raise DevnetError if it does not run."""
    pid = running(process)
    if pid is None:
        raise DevnetError(f"{process.label} does not run: start it with `ogpu-devnet restart {process.label}`")
    os.kill(pid, signal.SIGKILL)
    until(lambda: running(process) is None, STOP_SECONDS)
    return pid


def stop(*processes: Process, seconds: float = STOP_SECONDS) -> list[str]:
    """Stop processes with SIGTERM, and with SIGKILL after `seconds`. Return the labels of the killed ones."""
    alive = [process for process in processes if running(process) is not None]
    for process in alive:
        _signal_group(process, signal.SIGTERM)
    until(lambda: all(running(process) is None for process in alive), seconds)
    killed_labels = [process.label for process in alive if running(process) is not None]
    for process in processes:
        _clear(process)
    return killed_labels


def listens(port: int) -> bool:
    """Return whether a process accepts connections on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(CONNECT_SECONDS)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _clear(process: Process) -> None:
    """Kill the rest of its session: surviving children would keep its ports."""
    _signal_group(process, signal.SIGKILL)
    until(lambda: not _group_exists(process), STOP_SECONDS)
    child = _CHILDREN.pop(_record(process).get("pid", 0), None)
    if child is not None:
        child.wait()


def _signal_group(process: Process, signal_number: int) -> None:
    if _group_exists(process):
        os.killpg(_record(process)["pid"], signal_number)


def _group_exists(process: Process) -> bool:
    """Return whether any process of its session still runs. A later process with the same pid does not count."""
    record = _record(process)
    pid = record.get("pid")
    began_at = record.get("began")
    if pid is None or began_at is None:
        return False
    running(process)
    if _began(pid) not in {began_at, None}:
        return False
    # Field 3 is the session's id (proc(5), counted from the state as 0). It equals the pid of the session's leader.
    return any(int(words[3]) == pid and words[0] not in "ZX" for _, words in every_process())


def _record(process: Process) -> dict[str, int]:
    try:
        record: dict[str, int] = json.loads(process.pid_file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return record


def _began(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, or None if it has ended."""
    words = stat_fields(pid)
    # Field 19 is the start time. A zombie counts as ended.
    return None if words is None or words[0] in "ZX" else int(words[19])


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the program's name, which may contain spaces and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def every_process() -> Iterator[tuple[int, list[str]]]:
    """Yield the pid of each process of the machine, and its fields of /proc/PID/stat."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (words := stat_fields(int(entry.name))) is not None:
            yield int(entry.name), words


def until(is_met: Callable[[], bool], seconds: float, pause_seconds: float = POLL_SECONDS) -> bool:
    """Return whether a condition holds within some seconds, tested every `pause_seconds`."""
    deadline = time.monotonic() + seconds
    while not is_met():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_seconds)
    return True


def dying_with(parent: int, signal_number: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a function for a child to call first: it requests a signal at its parent's death, by any cause."""
    library = ctypes.CDLL(None, use_errno=True)

    def ask() -> None:
        library.prctl(_PARENT_DEATH_SIGNAL, signal_number)
        # The parent may have died before prctl, and then no signal ever comes.
        if os.getppid() != parent:
            os._exit(1)

    return ask


def source_path() -> dict[str, str]:
    """Return an environment in which Python finds these packages from any folder, installed or not."""
    source_folder = str(Path(devnet.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (source_folder, os.environ.get("PYTHONPATH"))))}


_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
