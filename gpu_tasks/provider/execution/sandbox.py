"""The walls around a worker process: bubblewrap, where this machine has it and its kernel lets it work.

Always, inside: no network; of the disk, only what Python and this package are read from, and nothing can be written but
memory under /tmp; no process of anybody else is seen, no capability is held, and no further namespace can be made; who
ends the outermost process ends all. Limits on CPU, memory and files are the worker's own (`limits`). A GPU's device
nodes are handed in where the worker is to use it, and with them whatever the driver lets a program do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gpu_tasks

PROGRAM = "bwrap"
TRIAL_SECONDS = 30.0
NOBODY = "65534"
CODE = Path(gpu_tasks.__file__).parent.parent
"""Where this package's rooms lie side by side."""
ROOMS = ("gpu_tasks", "runtime", "wallet")
"""Those that a worker imports from: beside them in a checkout may lie whatever its owner keeps there."""
SYSTEM = (Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib32"), Path("/lib64"))
"""Folders of programs and libraries; links into /usr on most systems."""
GPU_NODES = ("nvidia*", "nvidia-caps/*", "kfd", "dri/*")
"""Below /dev: what CUDA and ROCm open."""
ALONE = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY)
NO_MORE_NAMESPACES = ("--unshare-user", "--disable-userns")
"""Known to bubblewrap since 0.8: a way into parts of the kernel that a worker has no use for is shut."""
HINT = "apt-get install bubblewrap; where it is there, the kernel may forbid namespaces to ordinary users"


class NoSandboxError(Exception):
    """This machine has no walls to offer; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What stands before a worker's command. `readable` is seen inside beside what every worker needs."""

    program: str
    switches: tuple[str, ...] = ALONE
    readable: tuple[Path, ...] = ()

    def around(self, command: Sequence[str], *, with_gpu: bool = False) -> list[str]:
        """The command within its walls; `with_gpu` hands in this machine's GPUs."""
        parts = [self.program, *self.switches, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"]  # noqa: S108 - the worker's own
        for path in _read_by_python():
            parts += _seen(path)
        for path in self.readable:
            parts += _seen(path)
        if with_gpu:
            parts += _gpu_parts()
        return [*parts, "--remount-ro", "/", "--", *command]


def find_sandbox(readable: Iterable[Path] = ()) -> Sandbox:
    """The sandbox of this machine, tried with this very Python; NoSandboxError if there is none."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise NoSandboxError(f"{PROGRAM} is not installed: workers run under their limits alone ({HINT})")
    strict = Sandbox(program, (*ALONE, *NO_MORE_NAMESPACES), tuple(readable))
    plain = Sandbox(program, ALONE, tuple(readable))
    if not _complaint(strict):
        return strict
    if problem := _complaint(plain):
        raise NoSandboxError(f"{PROGRAM} does not work here: {problem} ({HINT})")
    return plain


def _complaint(sandbox: Sandbox) -> str:
    """Why Python does not start within these walls; empty if it does."""
    command = sandbox.around([sys.executable, "-I", "-c", "import nacl, numpy"])
    try:
        done = subprocess.run(  # noqa: S603 - our own Python
            command, capture_output=True, check=False, timeout=TRIAL_SECONDS, env={}, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"it ended with {done.returncode}"


def _read_by_python() -> Iterator[Path]:
    """Files and folders that an interpreter of this environment opens, and this package's code."""
    yield from SYSTEM
    yield Path("/usr")
    yield Path("/etc/ld.so.cache")
    for home in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not Path(home).is_relative_to("/usr"):
            yield Path(home)
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder.startswith("/"):
            yield Path(folder)
    for room in ROOMS:
        yield CODE / room


def _seen(path: Path) -> list[str]:
    """How a path is shown inside, as it is outside; nothing for one that is not there."""
    if path.is_symlink() and path in SYSTEM:
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def _gpu_parts() -> list[str]:
    """Device nodes, and the tree in which drivers look for what they are."""
    nodes = [node for pattern in GPU_NODES for node in sorted(Path("/dev").glob(pattern)) if not node.is_dir()]
    shown = [part for node in nodes for part in ("--dev-bind", str(node), str(node))]
    return [*shown, "--ro-bind", "/sys", "/sys"]
