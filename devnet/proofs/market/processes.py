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

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def root_processes_of(devnet: Devnet) -> set[int]:
    """Return the running processes of the network itself."""
    return {pid for process in network.all_processes(devnet) if (pid := processes.running(process)) is not None}


def provider_process_of(devnet: Devnet, member: NodeLayout) -> int:
    """Return the process of a member's provider, which must run."""
    process = processes.running(network.provider_process(devnet, member))
    assert process is not None, "the provider runs"
    return process


def cpu_seconds(devnet: Devnet) -> float:
    """Return the CPU seconds of every process of the network and its children, including dead ones."""
    root_processes = root_processes_of(devnet)
    parents, ticks_by_process = _process_table()
    return (
        sum(
            process_ticks
            for pid, process_ticks in ticks_by_process.items()
            if is_descendant(pid, root_processes, parents)
        )
        / TICKS_PER_SECOND
    )


@contextlib.contextmanager
def standing_still(root_processes: Collection[int]) -> Iterator[None]:
    """Stop these processes and their children during the block. A chain continues afterwards, with empty slots."""
    parents, _ = _process_table()
    child_processes = [
        pid for pid in parents if pid not in root_processes and is_descendant(pid, root_processes, parents)
    ]
    stopped_processes = [
        *root_processes,
        *child_processes,
    ]  # a supervisor before its children: it would replace silent ones
    with going_on_after() as pids:
        # The children continue before their supervisor, for the same reason.
        pids(stopped_processes[::-1])
        send_signal(stopped_processes, signal.SIGSTOP)
        yield


@contextlib.contextmanager
def going_on_after() -> Iterator[Callable[[Iterable[int]], None]]:
    """Yield a function that takes pids. When the block ends, the last given processes continue, in their order.

    They continue even if this process is killed with SIGKILL, because a shell waits for its end.
    """
    command = ["sh", "-c", "while read -r pids; do last=$pids; done; kill -CONT $last"]
    # In a session of its own, so that a signal to this program's group leaves the shell alive.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as waiting_shell:
        assert waiting_shell.stdin is not None, "a pipe, as asked for"
        shell_input = waiting_shell.stdin

        def tell(pids: Iterable[int]) -> None:
            shell_input.write(" ".join(map(str, pids)) + "\n")
            shell_input.flush()

        yield tell


def send_signal(pids: Iterable[int], signal_sent: signal.Signals) -> None:
    """Send a signal to the processes that still run, in order."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_sent)


def descendants_of(root_process: int) -> list[int]:
    """Return the descendants of a process."""
    parents, _ = _process_table()
    return [pid for pid in parents if pid != root_process and is_descendant(pid, {root_process}, parents)]


def is_descendant(pid: int, root_processes: Iterable[int], parents: dict[int, int]) -> bool:
    """Return whether a process is one of the roots or a descendant of one."""
    while pid and pid not in root_processes:
        pid = parents.get(pid, 0)
    return pid in root_processes


def _process_table() -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent of every process, and the ticks of it and its dead children."""
    parents: dict[int, int] = {}
    ticks_by_process: dict[int, int] = {}
    for pid, stat_fields in processes.every_process():
        # The parent, and utime, stime, cutime and cstime (proc(5), counted from the state as 0).
        parents[pid], ticks_by_process[pid] = int(stat_fields[1]), sum(map(int, stat_fields[11:15]))
    return parents, ticks_by_process


PERIOD_SECONDS = 0.1
# The interval between looks for computing processes: a look at all processes takes some milliseconds.
GROUPS_SECONDS = 1.0

FindGroups = Callable[[], list[list[int]]]
"""A function that returns the computing processes of each device."""


@contextlib.contextmanager
def in_turns(find_groups: FindGroups, core_share: float) -> Iterator[None]:
    """Let each device's processes run for a part of every period, one device after the other. In the end all continue.

    The parts of all devices sum to at most one.
    """
    is_over = threading.Event()
    turn_thread = threading.Thread(target=_take_turns, args=(find_groups, core_share, is_over))
    turn_thread.start()
    try:
        yield
    finally:
        is_over.set()
        turn_thread.join()


def _take_turns(find_groups: FindGroups, core_share: float, is_over: threading.Event) -> None:
    device_groups, looked_at = list[list[int]](), 0.0
    with going_on_after() as pids:
        while not is_over.is_set():
            started = time.monotonic()
            if not device_groups or started - looked_at >= GROUPS_SECONDS:
                device_groups, looked_at = find_groups(), started
                # Before the first stop, so that the shell can continue these processes in any case.
                pids(chain.from_iterable(device_groups))
                for group_processes in device_groups:
                    send_signal(group_processes, signal.SIGSTOP)
            for group_processes in device_groups:
                send_signal(group_processes, signal.SIGCONT)
                time.sleep(core_share * PERIOD_SECONDS)
                send_signal(group_processes, signal.SIGSTOP)
            time.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - started)))
