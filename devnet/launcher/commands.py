"""The bodies of `ogpu-devnet`'s commands.

Invariant: without --detach, every process that `up` started ends with it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from rich.live import Live

from cli.messages import is_json_asked
from cli.output import counted
from cli.tables import console_for
from devnet.launcher import layout, processes, status
from devnet.launcher import lifecycle as network
from devnet.launcher.folder import DevnetError, chosen_folder, named_command
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process
from devnet.launcher.status import MemberProcesses, StatusTable
from genesis.presets import ENDOWMENT, customer_names
from wallet.amounts import format_amount

REFRESH_SECONDS = 1.0
FOLLOW_SECONDS = 0.2
WIDTH_WITHOUT_TERMINAL = 120


def complete_node(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the devnet's nodes and providers, for the shell's completion."""
    folder = context.parent.params.get("folder") if context.parent else None
    try:
        net = layout.load(chosen_folder(folder))
    except DevnetError:
        return []
    labels = [process.label for process in network.all_processes(net)]
    return [CompletionItem(label) for label in sorted(labels) if label.lower().startswith(begun.lower())]


def up(  # one for each option
    folder: Path,
    validators: int | None,
    seats: int | None,
    fast: bool,
    sample: int | None,
    providers: bool,
    any_ports: bool,
    detach: bool,
) -> None:
    """Start a new devnet, or that of the folder."""
    is_new = not (folder / layout.DESCRIPTION).exists()
    net = (
        layout.create(
            folder,
            validators or 4,
            providers=providers,
            any_ports=any_ports,
            seats=seats,
            is_fast=fast,
            sample=sample,
            sells_all=providers,
        )
        if is_new
        else layout.load(folder)
    )
    _check_as_started(net, validators, sample)
    missing = sum(processes.running(network.node_process(net, member)) is None for member in net.members)
    click.echo(
        f"starting {counted(missing, 'node')} in {net.folder}" if missing else f"all nodes in {net.folder} run already"
    )
    click.echo(_customers(net))
    network.up(net, detach=detach)
    if detach:
        _show(net)
        command = named_command(folder)
        click.echo(f"running; `{command} status` shows it, `{command} down` ends it")
        return
    try:
        with network.ending_on_signals():
            if not _watch(net, "Ctrl-C ends it", is_over=lambda: not network.runs(net)):
                click.echo("every process has ended: another command took the devnet down")
                return
    finally:
        network.down(net)


def _check_as_started(net: Devnet, validators: int | None, sample: int | None) -> None:
    """Raise `DevnetError` if the devnet is unfinished, or not the one that the options describe."""
    if not net.chain_spec.exists():
        raise DevnetError(
            f"the devnet in {net.folder} is unfinished, because its first start was interrupted. Run "
            f"`{named_command(net.folder)} down --purge`, and start it again",
            code="devnet_unfinished",
        )
    count = sum(member.is_validator for member in net.members)
    if validators not in {None, count}:
        raise DevnetError(
            f"the devnet in {net.folder} has {counted(count, 'validator')}, and their number is fixed. Leave "
            f"out -n, remove the devnet with `{named_command(net.folder)} down --purge`, or name another --folder",
            code="other_devnet",
        )
    if sample not in {None, net.sample}:
        said = "every validator" if net.sample is None else f"{net.sample} units of stake"
        raise DevnetError(
            f"the devnet in {net.folder} polls {said}. Leave out --sample, or run "
            f"`{named_command(net.folder)} down --purge` first",
            code="other_devnet",
        )


def show_status(folder: Path, watch: bool) -> None:
    """Print the state of each node."""
    net = layout.load(folder)
    if is_json_asked():
        standing = asyncio.run(status.ask_all(net))
        click.echo(json.dumps(status.as_json(standing, _processes(net)), indent=2))
    elif watch:
        _watch(net, "Ctrl-C stops watching")
    else:
        _show(net)


def logs(folder: Path, node: str, follow: bool, lines: int) -> None:
    """Print the end of a process's log."""
    process = _process(folder, node)
    click.echo(network.tail(process.log, lines))
    if follow:
        for line in _following(process.log):
            click.echo(line, nl=False)


def kill(folder: Path, node: str) -> None:
    """Kill a process with signal 9."""
    process = _process(folder, node)
    pid = processes.kill(process)
    back = f"{named_command(folder)} restart {process.label}"
    click.echo(f"killed {process.label}, process {pid}; `{back}` brings it back")


def restart(folder: Path, node: str) -> None:
    """Stop a process if it runs, and start it again."""
    net = layout.load(folder)
    process = network.process_named(net, node)
    processes.stop(process)
    pid = processes.start(process, detach=True)
    network.wait_for(net, process)
    click.echo(f"started {process.label}, process {pid}, and it answers; its log is {process.log}")


def down(folder: Path, purge: bool) -> None:
    """Stop every process of the devnet."""
    net = layout.load(folder)
    forced = network.down(net)
    click.echo("ended" + (f"; {', '.join(forced)} had to be killed" if forced else ""))
    if purge:
        layout.remove(net)
        click.echo(f"removed {net.folder}")


def _customers(net: Devnet) -> str:
    """Name the accounts that can buy without racing for their own units."""
    names = customer_names(tuple(member.name for member in net.members if member.is_validator))
    keys = ", ".join(f"//{name}" for name in names)
    example = f"`ogpu unit post ... --key //{names[-1]}`"
    return f"accounts for customers, with {format_amount(ENDOWMENT)} oGPU each: {keys} ({example})"


def _process(folder: Path, name: str) -> Process:
    return network.process_named(layout.load(folder), name)


def _processes(net: Devnet) -> dict[str, MemberProcesses]:
    offering = {each.name for each in network.offering(net)}
    return {
        member.name: MemberProcesses(
            processes.restarts(network.node_process(net, member)),
            _provider_state(net, member) if member.name in offering else None,
        )
        for member in net.members
    }


def _provider_state(net: Devnet, member: NodeLayout) -> str:
    return "runs" if processes.running(network.provider_process(net, member)) is not None else "down"


def _show(net: Devnet) -> None:
    standing = asyncio.run(status.ask_all(net))
    console_for(WIDTH_WITHOUT_TERMINAL).print(StatusTable(standing, _processes(net), str(net.folder)))


def _watch(net: Devnet, hint: str, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Show the table again and again. Return True after Ctrl-C, False when the devnet has ended."""

    def table() -> StatusTable:
        standing = asyncio.run(status.ask_all(net))
        return StatusTable(standing, _processes(net), f"{net.folder}: {hint}")

    try:
        with Live(table(), auto_refresh=False) as live:
            while not is_over():
                time.sleep(REFRESH_SECONDS)
                live.update(table(), refresh=True)
    except KeyboardInterrupt:
        return True
    return False


def _following(path: Path) -> Iterator[str]:
    """Yield the lines that are added to a file, until Ctrl-C."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            log.seek(0, 2)
            while True:
                line = log.readline()
                if line:
                    yield line
                else:
                    time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        pass
