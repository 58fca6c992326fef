"""Commands that enter a task's container: exec, cp, port-forward, secrets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import click

from cli.session import WalletSession, note
from gpu_tasks.client.commands.id_prefixes import LAST, TaskError, known_task, named_task, require_customer
from gpu_tasks.client.commands.task_runs import secrets_of
from gpu_tasks.client.tasks.results import RunBlobError, fetch_input
from gpu_tasks.client.tasks.tunnel import SHELL, copy_in, copy_out, entered, hand_secrets, run_program
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.container_request import REQUEST
from gpu_tasks.tunnel.frames import ReachPort
from gpu_tasks.tunnel.tunnel import Tunnel, TunnelError, TunnelStream
from runtime.encoding.codec import DecodeError
from wallet.client import ChainClient
from wallet.errors import code_of
from wallet.keypair import Keypair

PORTS_FORWARDED_MAX = 16


def execute(session: WalletSession, task: str, command: tuple[str, ...], key_text: str, no_tty: bool) -> None:
    """Carry out `ogpu task exec`."""
    codes: list[int] = []
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not no_tty

    async def work(tunnel: Tunnel) -> None:
        codes.append(await run_program(tunnel, command or SHELL, is_terminal=is_terminal))

    _enter_container(session, task, key_text, work)
    sys.exit(codes[0])


def cp(session: WalletSession, source: str, target: str, key_text: str) -> None:
    """Carry out `ogpu task cp`."""
    remote_side, local_path = _remote_and_local(source, target)
    task, path = remote_side

    async def work(tunnel: Tunnel) -> None:
        if _is_remote(source):
            names = await copy_out(tunnel, path, local_path)
            session.output.facts({"copied": len(names), "to": str(local_path), "files": ", ".join(names[:10])})
        else:
            size = await copy_in(tunnel, local_path, path)
            session.output.facts({"copied": str(local_path), "to": f"{task}:/{path}", "bytes": size})

    if not _is_remote(source) and not local_path.exists():
        raise click.UsageError(f"{local_path} does not exist")
    _enter_container(session, task, key_text, work)


def port_forward(session: WalletSession, task: str, ports: tuple[str, ...], key_text: str) -> None:
    """Carry out `ogpu task port-forward`."""
    pairs = [_port_pair(text) for text in ports[:PORTS_FORWARDED_MAX]]

    async def work(tunnel: Tunnel) -> None:
        async with contextlib.AsyncExitStack() as exits:
            for local, remote in pairs:
                server = await forward(tunnel, local, remote, note)
                exits.callback(server.close)
                port = server.sockets[0].getsockname()[1]
                click.echo(_forwarded(port, remote, as_json=session.output.as_json))
            await tunnel.ended.wait()
            raise TunnelError(
                "the provider closed the connection. `ogpu task show` says whether the task has ended",
                code="tunnel_closed",
            )

    async def check(client: ChainClient, keypair: Keypair, chain_task: Task, final_hash: bytes) -> None:
        await _require_declared(client, keypair, chain_task, final_hash, [remote for _, remote in pairs])

    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the way to end it.
        _enter_container(session, task, key_text, work, check)


def secrets(session: WalletSession, task: str, names: tuple[str, ...], key_text: str) -> None:
    """Carry out `ogpu task secrets`."""
    values = secrets_of(names)

    async def work(tunnel: Tunnel) -> None:
        await hand_secrets(tunnel, values)
        session.output.facts({"task": task, "handed_over": ", ".join(sorted(values))})

    _enter_container(session, task, key_text, work)


def _forwarded(port: int, remote: int, *, as_json: bool) -> str:
    """Return one line, because scripts wait for it."""
    row = {"local": f"{HOST}:{port}", "remote": remote}
    return (
        json.dumps(row) if as_json else (f"{row['local']} forwards to port {remote} of the container. Ctrl-C ends it")
    )


async def _require_declared(
    client: ChainClient, keypair: Keypair, task: Task, final_hash: bytes, ports: Sequence[int]
) -> None:
    """Raise TaskError for an undeclared port. Without the task's input the provider refuses it later."""
    providers = await market_reads.providers(client, final_hash)
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        try:
            declared = REQUEST.decode(await fetch_input(blob_client, keypair, task, providers)).ports
        except (RunBlobError, DecodeError) as error:
            note(f"the declared ports are unknown: {error}")
            return
    others = [port for port in ports if port not in declared]
    if others:
        named = ", ".join(map(str, declared)) or "none: only a lease has ports"
        raise TaskError(
            f"the task file does not declare port {', '.join(map(str, others))} in spec.run.ports. It declares {named}",
            code="port_undeclared",
        )


async def _no_check(*_: object) -> None:
    """Check nothing."""


def _enter_container(
    session: WalletSession, task: str, key_text: str, work: Callable[[Tunnel], Awaitable[None]],
    check: Callable[[ChainClient, Keypair, Task, bytes], Awaitable[None]] = _no_check,
) -> None:  # fmt: skip
    """Open a task's tunnel and work in it. Errors become messages. `check` runs first."""

    async def body(client: ChainClient) -> None:
        task_id, keypair = await named_task(session, client, task, key_text), session.key(key_text)
        final_hash = await client.finalized()
        chain_task = await known_task(client, task_id, final_hash)
        require_customer(chain_task, keypair.account, "gets in")
        await check(client, keypair, chain_task, final_hash)
        try:
            async with entered(client, keypair, task_id, chain_task, final_hash) as tunnel:
                with session.doing(None):
                    await work(tunnel)
        except (TunnelError, OSError) as error:
            raise TaskError(str(error), code=code_of(error)) from None

    with contextlib.suppress(asyncio.CancelledError):
        session.run(body)


def _remote_and_local(source: str, target: str) -> tuple[tuple[str, str], Path]:
    """Return the task with the path there, and the path here."""
    remote = [text for text in (source, target) if _is_remote(text)]
    if len(remote) != 1:
        raise click.UsageError("one of SOURCE and TARGET is TASK:/PATH, such as 0x8a61:/out; the other is a local path")
    task, _, path = remote[0].partition(":")
    return (task, path.lstrip("/")), Path(target if source == remote[0] else source)


def _is_remote(text: str) -> bool:
    """Tell whether a path is one in a task's container."""
    task, colon, _ = text.partition(":")
    # The form of scp and `docker cp`. A local name with a colon stays local.
    return bool(colon) and (task == LAST or task.startswith("0x"))


def _port_pair(text: str) -> tuple[int, int]:
    local, colon, remote = text.partition(":")
    # The forms of `kubectl port-forward`: 8888:80, or 8888 for both sides.
    numbers = (local, remote if colon else local)
    if not all(part.isdecimal() and len(part) <= 5 and int(part) <= 65_535 for part in numbers):
        raise click.UsageError(f"{text!r} is not a pair of ports. Write it like 8888:8888")
    return int(numbers[0]), int(numbers[1])


# Only this machine: others in the network would reach the container with the customer's rights.
HOST = "127.0.0.1"
_PIECE_BYTES = 32 * 1024


async def forward(tunnel: Tunnel, local: int, remote: int, note: Callable[[str], None]) -> asyncio.Server:
    """Listen on a port of this machine only; `note` receives failed connections. Raise OSError for a port in use."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _carry_connection(await tunnel.open(ReachPort(remote)), reader, writer)
        except TunnelError as error:
            note(str(error))
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    return await asyncio.start_server(connected, HOST, local)


async def _carry_connection(stream: TunnelStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def send_input() -> None:
        with contextlib.suppress(TunnelError, ConnectionError):
            while input_bytes := await reader.read(_PIECE_BYTES):
                await stream.write(input_bytes)
            await stream.end_input()

    sending = asyncio.create_task(send_input())
    try:
        with contextlib.suppress(ConnectionError):
            while (received := await stream.read()) is not None:
                writer.write(received[1])
                await writer.drain()
    finally:
        sending.cancel()
        await stream.finish()
    stream_end = await stream.end
    if stream_end.problem:
        raise TunnelError(stream_end.problem, code="refused_by_provider")
