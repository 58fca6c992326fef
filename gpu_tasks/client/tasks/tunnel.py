"""The customer's end of a tunnel into a task's container: the connection, a program on this terminal, and files.

Invariants:

* The provider is the one in the final chain, and it proves that before anything is sent.
* Archives from a provider are unpacked as a stranger's: plain files and folders with plain names, within limits, and
  none over an existing file.
* The terminal is restored. The program's exit code becomes this program's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
import tarfile
import tempfile
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import aiohttp

from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import TUNNEL_PATH
from gpu_tasks.data.endpoint import EndpointError, public_socket, reachable_endpoint
from gpu_tasks.data.name_lookup import NameResolver
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.tunnel.frames import (
    COPY_BYTES_MAX,
    ERR,
    HANDED,
    SECRETS_BYTES_MAX,
    CopyIn,
    CopyOut,
    HandedSecret,
    RunProgram,
    TakeSecrets,
)
from gpu_tasks.tunnel.handshake import READY, RECORD_BYTES_MAX, SealedLine, TunnelKeyError, TunnelName
from gpu_tasks.tunnel.tunnel import Tunnel, TunnelError, TunnelStream
from runtime.cryptography import ss58
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair

CONNECT_SECONDS = 10.0
PING_SECONDS = 30.0
REFUSAL_BYTES_MAX = 300
END_SECONDS = 2.0


@contextlib.asynccontextmanager
async def open_tunnel(
    genesis: bytes, target_id: bytes, stash: bytes, key: SealKey, provider: Provider, *, is_private: bool
) -> AsyncIterator[Tunnel]:
    """Open a tunnel to a task or session at its provider. Raise TunnelError, with the reason, if that fails.

    With `is_private`, addresses of private networks are allowed, as on development chains.
    """
    endpoint = reachable_endpoint(
        provider.endpoint.decode("ascii", errors="replace"), is_private_allowed=is_private
    ).url
    path = TUNNEL_PATH.format(task=target_id.hex())
    connector = aiohttp.TCPConnector(socket_factory=None if is_private else public_socket, resolver=NameResolver())
    # A shell or a forwarded port may stay open for as long as the task runs.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        try:
            # Sealed records do not compress. Pings keep routers from dropping a shell that is idle.
            socket = await asyncio.wait_for(
                session.ws_connect(
                    f"{endpoint}{path}", max_msg_size=RECORD_BYTES_MAX, heartbeat=PING_SECONDS, compress=0
                ),
                CONNECT_SECONDS,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise TunnelError(
                f"the provider refuses the connection: {_refusal_text(error)}", code="not_admitted"
            ) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TunnelError(
                f"the provider does not answer at {endpoint}: {harmless(str(error) or 'no answer')}",
                code="provider_unreachable",
            ) from None
        async with socket:
            line = SealedLine(TunnelName(genesis, target_id, stash), key, provider.seal_key, is_customer=True)
            await _agree_on_keys(socket, line)
            tunnel = Tunnel(_Socket(socket), line)
            running = asyncio.create_task(tunnel.run())
            try:
                yield tunnel
            finally:
                await socket.close()
                await asyncio.wait({running}, timeout=END_SECONDS)
                running.cancel()


@contextlib.asynccontextmanager
async def entered(
    client: ChainClient, keypair: Keypair, task_id: bytes, task: Task, final_hash: bytes
) -> AsyncIterator[Tunnel]:
    """Open a tunnel to a task's provider by the final block.

    Raise TunnelError if that fails, or for a bad address.
    """
    stash = runner_of(task)
    provider = (await market_reads.providers(client, final_hash)).get(stash)
    if provider is None:
        raise TunnelError(f"{ss58.encode(stash)} runs the task, and is no longer a provider", code="no_provider")
    is_private = market_reads.is_development(client)
    try:
        async with open_tunnel(
            client.genesis_hash, task_id, stash, SealKey.of(keypair), provider, is_private=is_private
        ) as tunnel:
            yield tunnel
    except EndpointError as error:
        raise TunnelError(str(error), code="no_endpoint") from None


def runner_of(task: Task) -> bytes:
    """Return the provider that runs a task's program, or keeps its files. Raise TunnelError if there is none."""
    if is_replicated(task.order):
        raise TunnelError(
            "replicas compute this task, and their results are compared, so their containers cannot be entered",
            code="replicated",
        )
    if task.state not in (TaskState.RUNNING, TaskState.ENDED) or not task.slots:
        raise TunnelError(
            f"the task is {task.state.name.lower()}. Only a running task has a container to enter", code="not_running"
        )
    return task.slots[0].provider


async def _agree_on_keys(socket: aiohttp.ClientWebSocketResponse, line: SealedLine) -> None:
    try:
        await socket.send_bytes(line.hello())
        answer = await asyncio.wait_for(socket.receive(), CONNECT_SECONDS)
        if answer.type is not aiohttp.WSMsgType.BINARY:
            raise TunnelError(
                "the provider refuses the connection. Is --key the key of its customer?", code="not_admitted"
            )
        line.hear(answer.data)
        await socket.send_bytes(line.seal(READY))
    except TunnelKeyError as error:
        raise TunnelError(f"the machine that answers is not the provider: {error}", code="other_machine") from None
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        raise TunnelError("the provider hung up while keys were agreed on", code="tunnel_closed") from None


def _refusal_text(error: aiohttp.WSServerHandshakeError) -> str:
    reasons = {
        404: "no program or session with this id runs there now",
        503: "as many tunnels are open as may be; try again",
    }
    # The provider chooses these words.
    return reasons.get(error.status, harmless(f"{error.status} {error.message}")[:REFUSAL_BYTES_MAX])


class _Socket:
    """A WebSocket as the tunnel's connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, record: bytes) -> None:
        try:
            await self._socket.send_bytes(record)
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else None


# Secrets go to the task's provider by the final chain, once it has proved its key. No disk here holds them.
async def hand_secrets(tunnel: Tunnel, secrets: Mapping[str, bytes]) -> None:
    """Hand over all secrets of a task. Raise TunnelError if they are refused."""
    if sum(map(len, secrets.values())) > SECRETS_BYTES_MAX:
        raise TunnelError(
            f"secrets have at most {SECRETS_BYTES_MAX:,} bytes. Seal data as inputs", code="secrets_too_large"
        )
    stream = await tunnel.open(TakeSecrets())
    await stream.write(HANDED.encode(tuple(HandedSecret(name, secrets[name]) for name in sorted(secrets))))
    await stream.end_input()
    stream_end = await stream.end
    if stream_end.problem:
        raise TunnelError(stream_end.problem, code="refused_by_provider")


FILES_MAX = 10_000
_ARCHIVE_PIECE = 1 << 20
KEPT_IN_MEMORY = 1 << 20
PAX_BYTES_MAX = 4_096
"""The most bytes of a pax header, which a long name needs."""
PLAIN_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)


async def copy_in(tunnel: Tunnel, source: Path, container_path: str) -> int:
    """Copy a file or folder into a folder of the container, and return the bytes sent.

    Raise TunnelError or OSError.
    """
    with tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY) as spool:
        await asyncio.to_thread(_pack_source, source, spool)
        size = spool.tell()
        spool.seek(0)
        stream = await tunnel.open(CopyIn(container_path))
        while piece := await asyncio.to_thread(spool.read, _ARCHIVE_PIECE):
            await stream.write(piece)
        await stream.end_input()
        stream_end = await stream.end
    if stream_end.problem:
        raise TunnelError(stream_end.problem, code="refused_by_provider")
    return size


async def copy_out(tunnel: Tunnel, container_path: str, target: Path) -> list[str]:
    """Copy a file or folder of the container into a folder, and return its names. Raise TunnelError or OSError."""
    with tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY) as spool:
        stream = await tunnel.open(CopyOut(container_path))
        size = 0
        while (received := await stream.read()) is not None:
            size += len(received[1])
            # The provider decides the length of the stream, so the disk is protected here.
            if size > COPY_BYTES_MAX:
                raise TunnelError("the provider sends more than a copy may have", code="copy_too_large")
            await asyncio.to_thread(spool.write, received[1])
        stream_end = await stream.end
        if stream_end.problem:
            raise TunnelError(stream_end.problem, code="refused_by_provider")
        spool.seek(0)
        return await asyncio.to_thread(_unpack_into, spool, target)


def _pack_source(source: Path, spool: IO[bytes]) -> None:
    """Write an archive of a file, or of a folder under its name. Links are left out."""
    with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(source, source.resolve().name, filter=_plain_entry)


def _plain_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (entry.isfile() or entry.isdir()):
        return None
    # A new entry has no names of this machine's users, no times and no set-id bits.
    plain = tarfile.TarInfo(entry.name)
    plain.size, plain.mode, plain.type = entry.size, entry.mode & 0o755, entry.type
    return plain


def _unpack_into(spool: IO[bytes], target: Path) -> list[str]:
    target.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    made_paths: set[Path] = set()
    try:
        for entry, name in _archive_entries(spool):
            target_path = _safe_path(target, name)
            # Folders count too: a long path makes one at each level.
            made_paths.update(
                (
                    target_path,
                    *(
                        parent_folder
                        for parent_folder in target_path.parents
                        if parent_folder != target and target in parent_folder.parents
                    ),
                )
            )
            if len(made_paths) > FILES_MAX:
                raise TunnelError(f"the archive has more than {FILES_MAX} files and folders", code="too_many_files")
            if entry.isdir():
                target_path.mkdir(parents=True, exist_ok=True)
                continue
            target_path.parent.mkdir(parents=True, exist_ok=True)
            # Mode x overwrites nothing, also no link put there meanwhile. The archive's modes are not taken over.
            with target_path.open("xb") as target_file:
                _write_content(spool, entry.size, target_file)
            names.append(name)
    except tarfile.TarError as error:
        raise TunnelError(f"the provider does not send an archive: {error}", code="not_an_archive") from None
    except FileExistsError as error:
        raise TunnelError(f"{error.filename} exists. Name another folder", code="file_exists") from None
    return names


def _archive_entries(spool: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, str]]:
    """Yield the entries with their names: plain headers, and pax records of long names.

    Raise TarError or TunnelError.

    The caller reads the content of an entry before the next one. The bytes come from a provider, so no general archive
    reader touches them: a few hundred bytes can describe a sparse file of a terabyte, and a header can take hours or
    exhaust the stack.
    """
    path = ""
    while any(header := spool.read(tarfile.BLOCKSIZE)):
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        if entry.type == tarfile.XHDTYPE and not path and 0 <= entry.size <= PAX_BYTES_MAX:
            path = _long_name(spool.read(-(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)[: entry.size])
            continue
        is_plain = entry.type in PLAIN_FILES and entry.size >= 0
        if not is_plain and not (entry.type == tarfile.DIRTYPE and entry.size == 0):
            raise TunnelError(f"the provider sends {entry.name[:80]!r}, which is not a plain file", code="not_a_file")
        yield entry, path.removesuffix("/") if path and entry.isdir() else path or entry.name
        path = ""


def _long_name(records: bytes) -> str:
    """Return the name that a pax header gives to the next entry, or an empty text."""
    _, _, rest = records.partition(b" path=")
    return rest.partition(b"\n")[0].decode(errors="replace")


def _write_content(spool: IO[bytes], size: int, target_file: IO[bytes]) -> None:
    """Write the content of an entry, and skip its padding. Raise TunnelError if it breaks off."""
    bytes_left = size
    while bytes_left:
        piece = spool.read(min(bytes_left, _ARCHIVE_PIECE))
        if not piece:
            raise TunnelError("the archive breaks off within a file", code="not_an_archive")
        target_file.write(piece)
        bytes_left -= len(piece)
    spool.read(-size % tarfile.BLOCKSIZE)


def _safe_path(target: Path, name: str) -> Path:
    parts = name.split("/")
    if any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
        raise TunnelError(f"the provider names a file {name[:80]!r}, which leads elsewhere", code="unsafe_path")
    target_path = target.joinpath(*parts)
    for parent_folder in target_path.parents:
        if parent_folder == target:
            break
        # A link in the target folder could lead the file elsewhere.
        if parent_folder.is_symlink():
            raise TunnelError(f"{parent_folder} is a link", code="unsafe_path")
    return target_path


SHELL = ("/bin/sh",)
_TERMINAL_PIECE = 32 * 1024


async def run_program(tunnel: Tunnel, command: Sequence[str], *, is_terminal: bool) -> int:
    """Run a program to its end and return its exit code. Raise TunnelError if that fails."""
    columns, rows = shutil.get_terminal_size()
    stream = await tunnel.open(RunProgram(tuple(command), is_terminal, rows, columns))
    with _raw_terminal() if is_terminal else contextlib.nullcontext():
        if is_terminal:
            _follow_size(stream)
        sending = asyncio.create_task(_send_input(stream))
        try:
            while (received := await stream.read()) is not None:
                channel, output_bytes = received
                output_stream = sys.stderr.buffer if channel == ERR else sys.stdout.buffer
                # Control sequences pass, as in ssh: a program on a terminal needs them, and the customer chose the
                # program.
                output_stream.write(output_bytes)
                output_stream.flush()
        finally:
            sending.cancel()
    stream_end = await stream.end
    if stream_end.problem:
        raise TunnelError(stream_end.problem, code="refused_by_provider")
    return stream_end.code


async def _send_input(stream: TunnelStream) -> None:
    # epoll(7) takes no plain files, so a thread reads those.
    if _tells_of_more(sys.stdin.fileno()):
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_TERMINAL_PIECE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while input_bytes := await reader.read(_TERMINAL_PIECE):
            await stream.write(input_bytes)
    else:
        while input_bytes := await asyncio.to_thread(sys.stdin.buffer.read, _TERMINAL_PIECE):
            await stream.write(input_bytes)
    await stream.end_input()


def _tells_of_more(descriptor: int) -> bool:
    """Return True if the kernel signals new input: for a terminal, pipe or socket, but not for a file or /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return os.isatty(descriptor) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _follow_size(stream: TunnelStream) -> None:
    loop = asyncio.get_running_loop()

    def changed() -> None:
        columns, rows = shutil.get_terminal_size()
        resize_task = loop.create_task(stream.resize(rows, columns))
        resize_task.add_done_callback(lambda _: None)

    loop.add_signal_handler(signal.SIGWINCH, changed)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Send every key to the program."""
    descriptor = sys.stdin.fileno()
    saved_modes = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, saved_modes)
        # asyncio made the terminal non-blocking, also for the shell that shares it.
        os.set_blocking(descriptor, True)
