"""A devnet as a whole: list its processes, start them, wait until they work, and stop them.

Invariant: `up` returns only when every node answers and the chain makes final blocks. After an earlier failure it stops
the processes that it started, and the error shows the last lines of the failed process's log.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, Guest, NodeLayout
from devnet.launcher.processes import Process
from devnet.launcher.status import MemberStatus, answers, ask_all
from wallet.suggestions import suggestion

READY_SECONDS = 60.0
READY_FINAL_BLOCKS = 1
ASK_SECONDS = 0.25
LOG_LINES = 15
BROKER_LABEL = "broker"


def node_process(devnet: Devnet, member: NodeLayout) -> Process:
    """Return the process of a member's node."""
    return Process(member.name, processes.NODE, tuple(devnet.node_command(member)), devnet.home(member))


def provider_process(devnet: Devnet, member: NodeLayout | Guest) -> Process:
    """Return the process of a guest, or of the provider beside a member's node."""
    home = devnet.home(member) / "provider"
    options = () if devnet.broker_url is None else ("--mqtt", devnet.broker_url)
    arguments = (
        "--url",
        member.rpc_url,
        "--provider-key",
        f"//{member.name}//provider",
        "--base-path",
        str(home),
        "run",
        *options,
    )
    if isinstance(member, Guest):
        return Process(f"{member.name}/provider", member.program, (*member.options, *arguments), home, "provider")
    return Process(f"{member.name}/provider", processes.PROVIDER, arguments, home, "provider")


def brokers(devnet: Devnet) -> tuple[Process, ...]:
    """Return the process of the MQTT broker, or none if the devnet has no broker."""
    if devnet.broker_port is None:
        return ()
    home = devnet.broker_home
    return (Process(BROKER_LABEL, processes.BROKER, (str(devnet.broker_port), str(home)), home, "broker"),)


def providers(devnet: Devnet) -> tuple[Process, ...]:
    """Return the processes of all providers."""
    return tuple(provider_process(devnet, provider) for provider in offering(devnet))


def offering(devnet: Devnet) -> tuple[NodeLayout | Guest, ...]:
    """Return the members and guests with a provider."""
    return (*(devnet.members if devnet.has_providers else ()), *devnet.guests)


def all_processes(devnet: Devnet) -> tuple[Process, ...]:
    """Return every process of the devnet, running or not. Those that others depend on come last."""
    return providers(devnet) + brokers(devnet) + tuple(node_process(devnet, member) for member in devnet.members)


def runs(devnet: Devnet) -> bool:
    """Return whether any process of the devnet runs."""
    return any(processes.running(process) is not None for process in all_processes(devnet))


def _unknown_process(label: str, labels: list[str]) -> str:
    similar = suggestion(label, labels)
    meant = f"Did you mean {similar}? " if similar else ""
    is_provider = label.lower().endswith("/provider") and not any("/" in known for known in labels)
    advice = ". Only a devnet of `up --providers` has providers" if is_provider else ""
    return f"this devnet has no {label!r}. {meant}There are: {', '.join(labels)}{advice}"


def process_named(devnet: Devnet, label: str) -> Process:
    """Return a node by its name, or its provider (`Bob/provider`). Raise DevnetError if the name is unknown."""
    processes_by_label = {process.label.lower(): process for process in all_processes(devnet)}
    if label.lower() not in processes_by_label:
        labels = [process.label for process in processes_by_label.values()]
        raise DevnetError(_unknown_process(label, labels), code="unknown_node")
    return processes_by_label[label.lower()]


def wait_for(devnet: Devnet, process: Process) -> None:
    """Wait until a node answers or a provider serves. Raise DevnetError as `wait_for_node` does."""
    member = {provider_process(devnet, member).label: member for member in offering(devnet)}.get(process.label)
    if process.label == BROKER_LABEL:
        wait_for_broker(devnet)
    elif member is not None:
        wait_for_provider(devnet, member)
    else:
        wait_for_node(devnet, devnet.member(process.label))


def up(devnet: Devnet, *, detach: bool = False, seconds: float = READY_SECONDS) -> list[MemberStatus]:
    """Start the processes that do not run, wait until the chain works, and return the status of the nodes."""
    started: list[Process] = []
    try:
        _start([node_process(devnet, member) for member in devnet.members], started, detach=detach)
        standing = asyncio.run(ready(devnet, seconds))
        # Providers look for themselves on the chain at their start, so the chain must already work.
        _start([*brokers(devnet), *providers(devnet)], started, detach=detach)
        wait_for_broker(devnet)
        for provider in offering(devnet):
            wait_for_provider(devnet, provider)
    # Ctrl-C and SIGTERM must not leave processes behind either.
    except BaseException:
        processes.stop(*reversed(started))
        raise
    return standing


def _start(wanted: list[Process], started: list[Process], *, detach: bool) -> None:
    for process in wanted:
        if processes.running(process) is None:
            processes.start(process, detach=detach)
            started.append(process)


def wait_for_node(devnet: Devnet, member: NodeLayout, seconds: float = READY_SECONDS) -> None:
    """Wait until a started node answers its clients. Raise DevnetError if it ends or takes too long."""
    wait_until(node_process(devnet, member), lambda: answers(member.ports.rpc), seconds)


def wait_for_provider(devnet: Devnet, member: NodeLayout | Guest, seconds: float = READY_SECONDS) -> None:
    """Wait until a provider serves blobs: it has then loaded its workload and found itself on the chain."""
    port = member.ports.blobs if isinstance(member, NodeLayout) else member.blob_port
    wait_until(provider_process(devnet, member), lambda: processes.listens(port), seconds)


def wait_for_broker(devnet: Devnet, seconds: float = READY_SECONDS) -> None:
    """Wait until the broker, if there is one, accepts connections."""
    for process in brokers(devnet):
        wait_until(process, lambda: devnet.broker_port is not None and processes.listens(devnet.broker_port), seconds)


def wait_until(process: Process, is_ready: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
    """Wait until a process is ready. Raise DevnetError if it ends or takes too long."""
    if not processes.until(lambda: is_ready() or processes.running(process) is None, seconds, ASK_SECONDS):
        raise DevnetError(f"{process.label} is not ready after {seconds:.0f} s; its log ends:\n{tail(process.log)}")
    if processes.running(process) is None:
        raise DevnetError(f"{process.label} ended; {process.log} ends:\n{tail(process.log)}")


def down(devnet: Devnet) -> list[str]:
    """Stop every process. Return the labels of those that had to be killed."""
    return processes.stop(*all_processes(devnet))


async def ready(
    devnet: Devnet, seconds: float = READY_SECONDS, *, final: int = READY_FINAL_BLOCKS
) -> list[MemberStatus]:
    """Wait until every node answers and has seen this final height.

    Raise DevnetError if one has ended, or if no late node gains a final block for `seconds`. The limit is not on the
    whole wait, because the time to catch up grows with the chain.
    """
    deadline, best = time.monotonic() + seconds, -len(devnet.members)
    while True:
        standing = await ask_all(devnet)
        late = [status for status in standing if not status.is_up or not status.is_rpc_up or status.final < final]
        if not late:
            return standing
        for member in devnet.members:
            process = node_process(devnet, member)
            if processes.running(process) is None:
                raise DevnetError(f"the node {member.name} ended; {process.log} ends:\n{tail(process.log)}")
        total = sum(min(status.final, final) for status in standing)
        if total > best:
            deadline, best = time.monotonic() + seconds, total
        if time.monotonic() > deadline:
            log = node_process(devnet, devnet.member(late[0].name)).log
            reason = f"{late[0].name} has not seen final block {final}, and came no nearer for {seconds:.0f} s"
            raise DevnetError(f"{reason}; {log} ends:\n{tail(log)}")
        await asyncio.sleep(ASK_SECONDS)


def tail(path: Path, lines: int = LOG_LINES) -> str:
    """Return the last lines of a log."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log_file:
            return "".join(deque(log_file, lines)).rstrip()
    except FileNotFoundError:
        return "(no log yet)"


@contextmanager
def running(devnet: Devnet) -> Iterator[Devnet]:
    """Yield a devnet that runs during the block, and stop it however the block ends."""
    with ending_on_signals():
        try:
            up(devnet)
            yield devnet
        finally:
            down(devnet)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM into an exit, as Ctrl-C, so that `finally` blocks stop the devnet."""

    def leave(signal_number: int, _: FrameType | None) -> None:
        sys.exit(128 + signal_number)

    previous_handler = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
