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
from cli.tables import console_for
from devnet.launcher import layout, processes, status
from devnet.launcher import lifecycle as network
from devnet.launcher.folder import DevnetError, chosen_folder, named_command
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process
from devnet.launcher.status import MemberProcesses, StatusTable
from genesis.presets import ENDOWMENT, customer_names
from wallet.amounts import counted, format_amount

REFRESH_SECONDS = 1.0
FOLLOW_SECONDS = 0.2
WIDTH_WITHOUT_TERMINAL = 120
OTHER_NAMES_SHOWN = 8


def complete_node(context: click.Context, _: click.Parameter, begun_label: str) -> list[CompletionItem]:
    """Return the devnet's nodes and providers, for the shell's completion."""
    folder = context.parent.params.get("folder") if context.parent else None
    try:
        devnet = layout.load(chosen_folder(folder))
    except DevnetError:
        return []
    process_labels = [process.label for process in network.all_processes(devnet)]
    return [CompletionItem(label) for label in sorted(process_labels) if label.lower().startswith(begun_label.lower())]


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
    devnet = (
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
    _check_as_started(devnet, validators, sample)
    stopped_count = sum(processes.running(network.node_process(devnet, member)) is None for member in devnet.members)
    click.echo(
        f"starting {counted(stopped_count, 'node')} in {devnet.folder}"
        if stopped_count
        else f"all nodes in {devnet.folder} run already"
    )
    click.echo(_customers(devnet))
    network.up(devnet, detach=detach)
    if detach:
        _show(devnet)
        command = named_command(folder)
        click.echo(f"running; `{command} status` shows it, `{command} down` ends it")
        return
    try:
        with network.ending_on_signals():
            if not _watch(devnet, "Ctrl-C ends it", is_over=lambda: not network.runs(devnet)):
                click.echo("every process has ended: another command took the devnet down")
                return
    finally:
        network.down(devnet)


def _check_as_started(devnet: Devnet, validators: int | None, sample: int | None) -> None:
    """Raise `DevnetError` if the devnet is unfinished, or not the one that the options describe."""
    if not devnet.chain_spec.exists():
        raise DevnetError(
            f"the devnet in {devnet.folder} is unfinished, because its first start was interrupted. Run "
            f"`{named_command(devnet.folder)} down --purge`, and start it again",
            code="devnet_unfinished",
        )
    validator_count = sum(member.is_validator for member in devnet.members)
    if validators not in {None, validator_count}:
        raise DevnetError(
            f"the devnet in {devnet.folder} has {counted(validator_count, 'validator')}, and their number is fixed. "
            f"Leave out -n, remove the devnet with `{named_command(devnet.folder)} down --purge`, or name another "
            "--folder",
            code="other_devnet",
        )
    if sample not in {None, devnet.sample}:
        polled = "every validator" if devnet.sample is None else f"{devnet.sample} units of stake"
        raise DevnetError(
            f"the devnet in {devnet.folder} polls {polled}. Leave out --sample, or run "
            f"`{named_command(devnet.folder)} down --purge` first",
            code="other_devnet",
        )


def show_status(folder: Path, watch: bool) -> None:
    """Print the state of each node."""
    devnet = layout.load(folder)
    if is_json_asked():
        standing = asyncio.run(status.ask_all(devnet))
        click.echo(json.dumps(status.as_json(standing, _processes(devnet)), indent=2))
    elif watch:
        _watch(devnet, "Ctrl-C stops watching")
    else:
        _show(devnet)


def logs(folder: Path, node: str, follow: bool, lines: int) -> None:
    """Print the end of a process's log."""
    process = _process(folder, node)
    click.echo(network.tail(process.log, lines))
    if follow:
        for log_line in _following(process.log):
            click.echo(log_line, nl=False)


def kill(folder: Path, node: str) -> None:
    """Kill a process with signal 9."""
    process = _process(folder, node)
    pid = processes.kill(process)
    restart_command = f"{named_command(folder)} restart {process.label}"
    click.echo(f"killed {process.label}, process {pid}; `{restart_command}` brings it back")


def restart(folder: Path, node: str) -> None:
    """Stop a process if it runs, and start it again."""
    devnet = layout.load(folder)
    process = network.process_named(devnet, node)
    processes.stop(process)
    pid = processes.start(process, detach=True)
    network.wait_for(devnet, process)
    click.echo(f"started {process.label}, process {pid}, and it answers; its log is {process.log}")


def down(folder: Path, purge: bool) -> None:
    """Stop every process of the devnet."""
    devnet = layout.load(folder)
    killed_labels = network.down(devnet)
    click.echo("ended" + (f"; {', '.join(killed_labels)} had to be killed" if killed_labels else ""))
    if purge:
        other_names = layout.remove(devnet)
        click.echo(_removed(devnet, other_names))


def _removed(devnet: Devnet, other_names: list[str]) -> str:
    if not other_names:
        return f"removed {devnet.folder}"
    shown = ", ".join(other_names[:OTHER_NAMES_SHOWN])
    more = f" and {len(other_names) - OTHER_NAMES_SHOWN} more" if len(other_names) > OTHER_NAMES_SHOWN else ""
    return (
        f"removed the devnet's files. {devnet.folder} keeps others: {shown}{more}. Move them away before you start a "
        "new devnet in it"
    )


def _customers(devnet: Devnet) -> str:
    """Name the accounts that can buy without racing for their own units."""
    names = customer_names(tuple(member.name for member in devnet.members if member.is_validator))
    keys = ", ".join(f"//{name}" for name in names)
    example = f"`ogpu unit post ... --key //{names[-1]}`"
    return f"accounts for customers, with {format_amount(ENDOWMENT)} oGPU each: {keys} ({example})"


def _process(folder: Path, name: str) -> Process:
    return network.process_named(layout.load(folder), name)


def _processes(devnet: Devnet) -> dict[str, MemberProcesses]:
    offering = {member.name for member in network.offering(devnet)}
    return {
        member.name: MemberProcesses(
            processes.restarts(network.node_process(devnet, member)),
            _provider_state(devnet, member) if member.name in offering else None,
        )
        for member in devnet.members
    }


def _provider_state(devnet: Devnet, member: NodeLayout) -> str:
    return "runs" if processes.running(network.provider_process(devnet, member)) is not None else "down"


def _show(devnet: Devnet) -> None:
    standing = asyncio.run(status.ask_all(devnet))
    console_for(WIDTH_WITHOUT_TERMINAL).print(StatusTable(standing, _processes(devnet), str(devnet.folder)))


def _watch(devnet: Devnet, hint: str, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Show the table again and again. Return True after Ctrl-C, False when the devnet has ended."""

    def table() -> StatusTable:
        standing = asyncio.run(status.ask_all(devnet))
        return StatusTable(standing, _processes(devnet), f"{devnet.folder}: {hint}")

    try:
        with Live(table(), auto_refresh=False) as live_table:
            while not is_over():
                time.sleep(REFRESH_SECONDS)
                live_table.update(table(), refresh=True)
    except KeyboardInterrupt:
        return True
    return False


def _following(log: Path) -> Iterator[str]:
    """Yield the lines that are added to a file, until Ctrl-C."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            file.seek(0, 2)
            while True:
                line = file.readline()
                if line:
                    yield line
                else:
                    time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        pass
