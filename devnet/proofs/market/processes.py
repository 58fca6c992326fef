"""The processes of a network and their children: find them, sum their CPU time, stop and continue them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain

from devnet.launcher import lifecycle as network
from devnet.launcher import processes
from devnet.launcher.layout import Devnet, NodeLayout

TICK = os.sysconf("SC_CLK_TCK")


def roots_of(devnet: Devnet) -> set[int]:
    """Return the running processes of the network itself."""
    return {
        process_id
        for process in network.all_processes(devnet)
        if (process_id := processes.running(process)) is not None
    }


def provider_of(devnet: Devnet, member: NodeLayout) -> int:
    """Return the process of a member's provider, which must run."""
    provider = processes.running(network.provider_process(devnet, member))
    assert provider is not None, "the provider runs"
    return provider


def cpu_seconds(devnet: Devnet) -> float:
    """Return the CPU seconds of every process of the network and its children, including dead ones."""
    roots = roots_of(devnet)
    parents, spent = _table()
    return sum(ticks for process_id, ticks in spent.items() if is_of(process_id, roots, parents)) / TICK


@contextlib.contextmanager
def standing_still(roots: Collection[int]) -> Iterator[None]:
    """Stop these processes and their children during the block. A chain continues afterwards, with empty slots."""
    parents, _ = _table()
    children = [process_id for process_id in parents if process_id not in roots and is_of(process_id, roots, parents)]
    stopped = [*roots, *children]  # a supervisor before its children: it would replace silent ones
    with going_on_after() as narrator:
        # The children continue before their supervisor, for the same reason.
        narrator(stopped[::-1])
        send(stopped, signal.SIGSTOP)
        yield


@contextlib.contextmanager
def going_on_after() -> Iterator[Callable[[Iterable[int]], None]]:
    """Yield a function that takes pids. When the block ends, the last given processes continue, in their order.

    They continue even if this process is killed with SIGKILL, because a shell waits for its end.
    """
    command = ["sh", "-c", "while read -r pids; do last=$pids; done; kill -CONT $last"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as shell:
        assert shell.stdin is not None, "a pipe, as asked for"
        pipe = shell.stdin

        def tell(pids: Iterable[int]) -> None:
            pipe.write(" ".join(map(str, pids)) + "\n")
            pipe.flush()

        yield tell


def send(pids: Iterable[int], what: signal.Signals) -> None:
    """Send a signal to the processes that still run, in order."""
    for process_id in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, what)


def started_by(root: int) -> list[int]:
    """Return the descendants of a process."""
    parents, _ = _table()
    return [process_id for process_id in parents if process_id != root and is_of(process_id, {root}, parents)]


def is_of(process_id: int, roots: Iterable[int], parents: dict[int, int]) -> bool:
    """Return whether a process is one of the roots or a descendant of one."""
    while process_id and process_id not in roots:
        process_id = parents.get(process_id, 0)
    return process_id in roots


def _table() -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent of every process, and the ticks of it and its dead children."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for process_id, fields in processes.every_process():
        # The parent, and utime, stime, cutime and cstime (proc(5), counted from the state as 0).
        parents[process_id], spent[process_id] = int(fields[1]), sum(map(int, fields[11:15]))
    return parents, spent


PERIOD_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""The interval between looks for computing processes: a look at all processes takes some milliseconds."""

Groups = Callable[[], list[list[int]]]
"""A function that returns the computing processes of each device."""


@contextlib.contextmanager
def in_turns(groups: Groups, part: float) -> Iterator[None]:
    """Let each device's processes run for a part of every period, one device after the other. In the end all continue.

    The parts of all devices sum to at most one.
    """
    is_over = threading.Event()
    thread = threading.Thread(target=_take_turns, args=(groups, part, is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _take_turns(groups: Groups, part: float, is_over: threading.Event) -> None:
    found, looked_at = list[list[int]](), 0.0
    with going_on_after() as narrator:
        while not is_over.is_set():
            start_time = time.monotonic()
            if not found or start_time - looked_at >= LOOK_SECONDS:
                found, looked_at = groups(), start_time
                # Before the first stop, so that the shell can continue these processes in any case.
                narrator(chain.from_iterable(found))
                for computing in found:
                    send(computing, signal.SIGSTOP)
            for computing in found:
                send(computing, signal.SIGCONT)
                time.sleep(part * PERIOD_SECONDS)
                send(computing, signal.SIGSTOP)
            time.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - start_time)))
