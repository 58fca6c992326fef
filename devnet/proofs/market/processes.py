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


def roots_of(net: Devnet) -> set[int]:
    """Return the running processes of the network itself."""
    return {pid for process in network.all_processes(net) if (pid := processes.running(process)) is not None}


def provider_of(net: Devnet, member: NodeLayout) -> int:
    """Return the process of a member's provider, which must run."""
    provider = processes.running(network.provider_process(net, member))
    assert provider is not None, "the provider runs"
    return provider


def cpu_seconds(net: Devnet) -> float:
    """Return the CPU seconds of every process of the network and its children, including dead ones."""
    roots = roots_of(net)
    parents, spent = _table()
    return sum(ticks for pid, ticks in spent.items() if is_of(pid, roots, parents)) / TICK


@contextlib.contextmanager
def standing_still(roots: Collection[int]) -> Iterator[None]:
    """Stop these processes and their children during the block. A chain continues afterwards, with empty slots."""
    parents, _ = _table()
    children = [pid for pid in parents if pid not in roots and is_of(pid, roots, parents)]
    stopped = [*roots, *children]  # a supervisor before its children: it would replace silent ones
    with going_on_after() as tell:
        # The children continue before their supervisor, for the same reason.
        tell(stopped[::-1])
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
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def started_by(root: int) -> list[int]:
    """Return the descendants of a process."""
    parents, _ = _table()
    return [pid for pid in parents if pid != root and is_of(pid, {root}, parents)]


def is_of(pid: int, roots: Iterable[int], parents: dict[int, int]) -> bool:
    """Return whether a process is one of the roots or a descendant of one."""
    while pid and pid not in roots:
        pid = parents.get(pid, 0)
    return pid in roots


def _table() -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent of every process, and the ticks of it and its dead children."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for pid, fields in processes.every_process():
        # The parent, and utime, stime, cutime and cstime (proc(5), counted from the state as 0).
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
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
    with going_on_after() as tell:
        while not is_over.is_set():
            began = time.monotonic()
            if not found or began - looked_at >= LOOK_SECONDS:
                found, looked_at = groups(), began
                # Before the first stop, so that the shell can continue these processes in any case.
                tell(chain.from_iterable(found))
                for computing in found:
                    send(computing, signal.SIGSTOP)
            for computing in found:
                send(computing, signal.SIGCONT)
                time.sleep(part * PERIOD_SECONDS)
                send(computing, signal.SIGSTOP)
            time.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - began)))
