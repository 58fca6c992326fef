"""The sandbox of a worker process: bubblewrap, if it is installed and the kernel allows it.

Invariants inside the sandbox:

* There is no network.
* Only the files of Python and this package are readable. Only memory under /tmp is writable.
* No other process is visible, and no capability is held.
* Where bubblewrap can prevent it, no further namespace can be created.
* The end of the outermost process ends all.

Limits on CPU, memory and files are the worker's own (`limits`). GPU device nodes are visible only to a worker that uses
a GPU, together with everything that the driver allows.
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
from wallet.errors import CodedError

PROGRAM = "bwrap"
TRIAL_SECONDS = 30.0
NOBODY = "65534"
CODE = Path(gpu_tasks.__file__).parent.parent
"""The folder that contains this package's top-level packages."""
ROOMS = ("gpu_tasks", "runtime", "wallet")
"""The packages that a worker imports. A checkout may contain private files beside them."""
SYSTEM = (Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib32"), Path("/lib64"))
"""Folders of programs and libraries. They link into /usr on most systems."""
GPU_NODES = ("nvidia*", "nvidia-caps/*", "kfd", "dri/*")
"""Device nodes below /dev that CUDA and ROCm open."""
# A worker that hostile input takes over must reach neither the node's RPC nor a cloud's metadata service, and no worker
# outlives a killed daemon.
ALONE = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY)
NO_MORE_NAMESPACES = ("--unshare-user", "--disable-userns")
"""Supported since bubblewrap 0.8. It closes a part of the kernel that a worker does not need."""
HINT = "apt-get install bubblewrap; if it is installed, the kernel may forbid namespaces to ordinary users"


class NoSandboxError(CodedError):
    """No sandbox works on this machine. The text states the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox for a worker's command.

    `readable` paths are visible inside, beside the files that every worker needs.
    """

    program: str
    switches: tuple[str, ...] = ALONE
    readable: tuple[Path, ...] = ()

    def around(self, command: Sequence[str], *, with_gpu: bool = False) -> list[str]:
        """Return the sandboxed command. `with_gpu` makes this machine's GPUs visible."""
        command_parts = [self.program, *self.switches, "--proc", "/proc", "--dev", "/dev"]
        command_parts += ["--tmpfs", "/tmp", "--chdir", "/"]  # noqa: S108 - the worker's own
        for path in _read_by_python():
            command_parts += _seen(path)
        for path in self.readable:
            command_parts += _seen(path)
        if with_gpu:
            command_parts += _gpu_parts()
        return [*command_parts, "--remount-ro", "/", "--", *command]


def find_sandbox(readable: Iterable[Path] = ()) -> Sandbox:
    """Return the sandbox of this machine, tested with this Python.

    Raise NoSandboxError if none works.
    """
    sandbox_program = shutil.which(PROGRAM)
    if sandbox_program is None:
        raise NoSandboxError(
            f"{PROGRAM} is not installed, so only limits protect from workers ({HINT})", code="sandbox_missing"
        )
    # The strict form fails with an older bubblewrap, so the plain one is tried too.
    strict_sandbox = Sandbox(sandbox_program, (*ALONE, *NO_MORE_NAMESPACES), tuple(readable))
    plain_sandbox = Sandbox(sandbox_program, ALONE, tuple(readable))
    if not _complaint(strict_sandbox):
        return strict_sandbox
    if complaint := _complaint(plain_sandbox):
        raise NoSandboxError(f"{PROGRAM} does not work here: {complaint} ({HINT})", code="sandbox_unusable")
    return plain_sandbox


def _complaint(sandbox: Sandbox) -> str:
    """Return the reason that Python does not start in this sandbox; empty if it does."""
    # The same interpreter and a compiled package of the environment, so that the test covers their libraries.
    trial_command = sandbox.around([sys.executable, "-I", "-c", "import nacl, numpy"])
    try:
        completed = subprocess.run(  # noqa: S603 - our own Python
            trial_command, capture_output=True, check=False, timeout=TRIAL_SECONDS, env={}, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not completed.returncode:
        return ""
    return completed.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {completed.returncode}"


def _read_by_python() -> Iterator[Path]:
    """Yield the files and folders that this environment's interpreter opens, and this package's code."""
    yield from SYSTEM
    yield Path("/usr")
    yield Path("/etc/ld.so.cache")
    for python_home in dict.fromkeys((sys.base_prefix, sys.prefix)):
        # /usr is visible already.
        if not Path(python_home).is_relative_to("/usr"):
            yield Path(python_home)
    for library_folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if library_folder.startswith("/"):
            yield Path(library_folder)
    for room_folder in ROOMS:
        yield CODE / room_folder


def _seen(path: Path) -> list[str]:
    """Return the arguments that show a path inside as it is outside; none for a missing path."""
    if path.is_symlink() and path in SYSTEM:
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def _gpu_parts() -> list[str]:
    """Return the arguments for the device nodes, and for the tree in which drivers look up the hardware."""
    device_nodes = [
        device_node
        for node_pattern in GPU_NODES
        for device_node in sorted(Path("/dev").glob(node_pattern))
        if not device_node.is_dir()
    ]
    bind_arguments = [
        bind_argument
        for device_node in device_nodes
        for bind_argument in ("--dev-bind", str(device_node), str(device_node))
    ]
    return [*bind_arguments, "--ro-bind", "/sys", "/sys"]
