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


def node_process(net: Devnet, member: NodeLayout) -> Process:
    """Return the process of a member's node."""
    return Process(member.name, processes.NODE, tuple(net.node_command(member)), net.home(member))


def provider_process(net: Devnet, who: NodeLayout | Guest) -> Process:
    """Return the process of a guest, or of the provider beside a member's node."""
    home = net.home(who) / "provider"
    told = () if net.broker_url is None else ("--mqtt", net.broker_url)
    words = ("--url", who.rpc_url, "--provider-key", f"//{who.name}//provider", "--base-path", str(home), "run", *told)
    if isinstance(who, Guest):
        return Process(f"{who.name}/provider", who.program, (*who.options, *words), home, "provider")
    return Process(f"{who.name}/provider", processes.PROVIDER, words, home, "provider")


def brokers(net: Devnet) -> tuple[Process, ...]:
    """Return the process of the MQTT broker, or none if the devnet has no broker."""
    if net.broker_port is None:
        return ()
    home = net.folder / "broker"
    return (Process(BROKER_LABEL, processes.BROKER, (str(net.broker_port), str(home)), home, "broker"),)


def providers(net: Devnet) -> tuple[Process, ...]:
    """Return the processes of all providers."""
    return tuple(provider_process(net, provider) for provider in offering(net))


def offering(net: Devnet) -> tuple[NodeLayout | Guest, ...]:
    """Return the members and guests with a provider."""
    return (*(net.members if net.has_providers else ()), *net.guests)


def all_processes(net: Devnet) -> tuple[Process, ...]:
    """Return every process of the devnet, running or not. Those that others depend on come last."""
    return providers(net) + brokers(net) + tuple(node_process(net, member) for member in net.members)


def runs(net: Devnet) -> bool:
    """Return whether any process of the devnet runs."""
    return any(processes.running(process) is not None for process in all_processes(net))


def _unknown_process(label: str, labels: list[str]) -> str:
    similar = suggestion(label, labels)
    meant = f"Did you mean {similar}? " if similar else ""
    is_provider = label.lower().endswith("/provider") and not any("/" in known for known in labels)
    advice = ". Only a devnet of `up --providers` has providers" if is_provider else ""
    return f"this devnet has no {label!r}. {meant}There are: {', '.join(labels)}{advice}"


def process_named(net: Devnet, label: str) -> Process:
    """Return a node by its name, or its provider (`Bob/provider`). Raise DevnetError if the name is unknown."""
    known = {process.label.lower(): process for process in all_processes(net)}
    found = known.get(label.lower())
    if found is None:
        raise DevnetError(_unknown_process(label, [each.label for each in known.values()]), code="unknown_node")
    return found


def wait_for(net: Devnet, process: Process) -> None:
    """Wait until a node answers or a provider serves. Raise DevnetError as `wait_for_node` does."""
    who = {provider_process(net, who).label: who for who in offering(net)}.get(process.label)
    if process.label == BROKER_LABEL:
        wait_for_broker(net)
    elif who is not None:
        wait_for_provider(net, who)
    else:
        wait_for_node(net, net.member(process.label))


def up(net: Devnet, *, detach: bool = False, seconds: float = READY_SECONDS) -> list[MemberStatus]:
    """Start the processes that do not run, wait until the chain works, and return the status of the nodes."""
    started: list[Process] = []
    try:
        _start([node_process(net, member) for member in net.members], started, detach=detach)
        standing = asyncio.run(ready(net, seconds))
        # Providers look for themselves on the chain at their start, so the chain must already work.
        _start([*brokers(net), *providers(net)], started, detach=detach)
        wait_for_broker(net)
        for provider in offering(net):
            wait_for_provider(net, provider)
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


def wait_for_node(net: Devnet, member: NodeLayout, seconds: float = READY_SECONDS) -> None:
    """Wait until a started node answers its clients. Raise DevnetError if it ends or takes too long."""
    wait_until(node_process(net, member), lambda: answers(member.ports.rpc), seconds)


def wait_for_provider(net: Devnet, who: NodeLayout | Guest, seconds: float = READY_SECONDS) -> None:
    """Wait until a provider serves blobs: it has then loaded its workload and found itself on the chain."""
    port = who.ports.blobs if isinstance(who, NodeLayout) else who.blob_port
    wait_until(provider_process(net, who), lambda: processes.listens(port), seconds)


def wait_for_broker(net: Devnet, seconds: float = READY_SECONDS) -> None:
    """Wait until the broker, if there is one, accepts connections."""
    for process in brokers(net):
        wait_until(process, lambda: net.broker_port is not None and processes.listens(net.broker_port), seconds)


def wait_until(process: Process, is_ready: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
    """Wait until a process is ready. Raise DevnetError if it ends or takes too long."""
    if not processes.until(lambda: is_ready() or processes.running(process) is None, seconds, ASK_SECONDS):
        raise DevnetError(f"{process.label} is not ready after {seconds:.0f} s; its log ends:\n{tail(process.log)}")
    if processes.running(process) is None:
        raise DevnetError(f"{process.label} ended; {process.log} ends:\n{tail(process.log)}")


def down(net: Devnet) -> list[str]:
    """Stop every process. Return the labels of those that had to be killed."""
    return processes.stop(*all_processes(net))


async def ready(net: Devnet, seconds: float = READY_SECONDS, *, final: int = READY_FINAL_BLOCKS) -> list[MemberStatus]:
    """Wait until every node answers and has seen this final height.

    Raise DevnetError if one has ended, or if no late node gains a final block for `seconds`. The limit is not on the
    whole wait, because the time to catch up grows with the chain.
    """
    end, nearest = time.monotonic() + seconds, -len(net.members)
    while True:
        standing = await ask_all(net)
        late = [status for status in standing if not status.is_up or not status.is_rpc_up or status.final < final]
        if not late:
            return standing
        for member in net.members:
            process = node_process(net, member)
            if processes.running(process) is None:
                raise DevnetError(f"the node {member.name} ended; {process.log} ends:\n{tail(process.log)}")
        reached = sum(min(status.final, final) for status in standing)
        if reached > nearest:
            end, nearest = time.monotonic() + seconds, reached
        if time.monotonic() > end:
            log = node_process(net, net.member(late[0].name)).log
            said = f"{late[0].name} has not seen final block {final}, and came no nearer for {seconds:.0f} s"
            raise DevnetError(f"{said}; {log} ends:\n{tail(log)}")
        await asyncio.sleep(ASK_SECONDS)


def tail(path: Path, lines: int = LOG_LINES) -> str:
    """Return the last lines of a log."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            return "".join(deque(log, lines)).rstrip()
    except FileNotFoundError:
        return "(no log yet)"


@contextmanager
def running(net: Devnet) -> Iterator[Devnet]:
    """Yield a devnet that runs during the block, and stop it however the block ends."""
    with ending_on_signals():
        try:
            up(net)
            yield net
        finally:
            down(net)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM into an exit, as Ctrl-C, so that `finally` blocks stop the devnet."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
