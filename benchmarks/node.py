"""A real `ogpu-node` as a process of a benchmark, and the roles of its child processes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import children, command_of
from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.lifecycle import tail
from devnet.launcher.processes import Process
from genesis.spec import ChainSpec, to_json

ROLES = {"node.rpc": "rpc", "verify_worker": "verify"}
READY_SECONDS = 120.0
LOOK_SECONDS = 0.025
"""The interval between looks for a ready or final node.

It is small beside the measured seconds, and cheap for the node.
"""


def write_spec(spec: ChainSpec, folder: Path) -> Path:
    """Write the specification as a file for `--chain`, and return its path."""
    path = folder / "spec.json"
    path.write_text(to_json(spec), encoding="utf-8")
    return path


@contextmanager
def node(label: str, spec: Path, folder: Path, *words: str) -> Iterator[Process]:
    """Run a node with its files and log in a folder, without metrics. Stop it at the end of the `with`."""
    words = ("--chain", str(spec), "--base-path", str(folder), "--listen-host", "127.0.0.1", "--port", "0", *words)
    process = Process(label, processes.NODE, (*words, "--no-prometheus"), folder)
    processes.start(process)
    try:
        yield process
    finally:
        processes.stop(process)


def pids_by_role(process: Process) -> dict[str, int]:
    """Return the node's processes: `node`, `rpc`, and `verify`, with `verify2` and so on for further ones."""
    pid = processes.running(process)
    if pid is None:
        raise DevnetError(f"{process.label} ended; its log ends:\n{tail(process.log)}")
    found = {"node": pid}
    for child in children(pid):
        command = command_of(child)
        role = next((role for word, role in ROLES.items() if word in command), "other")
        alike = sum(name.startswith(role) for name in found)
        found[f"{role}{alike + 1}" if alike else role] = child
    return found


def wait_for_line(process: Process, part: str, seconds: float = READY_SECONDS) -> str:
    """Return the first line of the log that contains `part`, as soon as it appears.

    Raise DevnetError if the node ends, or after `seconds` seconds.
    """
    end = time.monotonic() + seconds
    with process.log.open(encoding="utf-8") as log:
        rest = ""
        while True:
            *lines, rest = (rest + log.read()).split("\n")
            for line in lines:
                if part in line:
                    return line
            if processes.running(process) is None or time.monotonic() > end:
                raise DevnetError(f"{process.label} never said {part!r}; its log ends:\n{tail(process.log)}")
            time.sleep(LOOK_SECONDS)


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for the condition. Raise TimeoutError after `seconds` seconds."""
    if not processes.until(condition, seconds, LOOK_SECONDS):
        raise TimeoutError(f"not ready after {seconds:.0f} s")


async def every_look() -> AsyncIterator[None]:
    """Yield at once, then every `LOOK_SECONDS` seconds."""
    while True:
        yield
        await asyncio.sleep(LOOK_SECONDS)
