"""Customers' access to the containers of the daemon's programs."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NoReturn

from gpu_tasks.provider.execution.containers.inside import Shell
from gpu_tasks.provider.execution.containers.outputs import OutputLimits
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.run import RunningContainer
from gpu_tasks.provider.journal.task_records import TaskKey
from gpu_tasks.provider.programs.container_access import EntersContainers
from gpu_tasks.provider.programs.requests import ProgramError
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tunnel.access import AccessError, ContainerAccess, Talk, TunnelTarget
from gpu_tasks.provider.tunnel.copies import target_of
from gpu_tasks.provider.tunnel.streams import CopySpool, serve_stream
from gpu_tasks.tunnel.frames import COPY_BYTES_MAX, DATA_BYTES_MAX, OUT

FILES_OUT_MAX = 10_000
PROGRAMS_OF_ROOM_MAX = 8
"""Programs that a customer runs at once beside the container's own."""
CONNECTING_MAX = 8
"""Connections to a container's ports being made at once, each in a thread."""


# Connections to a port of a container are made from within the container's network, so the container needs no published
# port and no network of the machine.
# Linux, network_namespaces(7): a socket belongs to the network namespace of the thread that created it. So a separate
# thread enters the container's network, connects and ends. The event loop then uses the socket.
CONNECT_SECONDS = 5.0
_NEW_NETWORK = 0x4000_0000
"""CLONE_NEWNET of sched.h."""


WAITS = "its program waits for secrets; send them with `ogpu task secrets`"


class WaitingRoom:
    """The `ContainerAccess` of a program that waits for its secrets."""

    def __init__(self, programs: ContainerSupervisor, task_key: TaskKey) -> None:
        """`task_key` names the program."""
        self._programs = programs
        self._task_key = task_key

    async def _refuse_until_secrets(self, *_: object, **__: object) -> NoReturn:
        raise AccessError(WAITS, code="waits_for_secrets")

    run = reach = copy_in = copy_out = _refuse_until_secrets

    def take_secrets(self, secrets: Mapping[str, bytes]) -> None:
        """See `ContainerAccess`."""
        try:
            self._programs.give_secrets(self._task_key, secrets)
        except ProgramError as error:
            raise AccessError(str(error), code=error.code) from None


async def open_port(process_id: int, port_number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to 127.0.0.1 in the network of a process. Raise ContainerError with the reason."""
    try:
        connection = await _connected_elsewhere(process_id, port_number)
    except PermissionError:
        failure_reason = "this daemon may not enter the containers' networks"
        raise ContainerError(
            "reach a port", failure_reason, "run it as root, or with CAP_SYS_ADMIN", code="networks_closed"
        ) from None
    except OSError as error:
        error_name = errno.errorcode.get(error.errno or 0, "")
        failure_reason = (
            f"nothing listens on port {port_number}"
            if error.errno == errno.ECONNREFUSED
            else f"{error.strerror} {error_name}"
        )
        raise ContainerError(
            "reach a port", failure_reason, "start the service, on 127.0.0.1 or all addresses", code="port_silent"
        ) from None
    connection.setblocking(False)
    return await asyncio.open_connection(sock=connection)


async def _connected_elsewhere(process_id: int, port_number: int) -> socket.socket:
    """Connect in a new thread, or raise OSError.

    The daemon's shared threads are not used: services that never answer would block them all.
    """
    loop = asyncio.get_running_loop()
    connected: asyncio.Future[socket.socket] = loop.create_future()

    def tell(connection: socket.socket | OSError) -> None:
        if isinstance(connection, OSError):
            if not connected.done():
                connected.set_exception(connection)
        elif connected.done():  # the caller was cancelled
            connection.close()
        else:
            connected.set_result(connection)

    def connect() -> None:
        connection: socket.socket | OSError
        try:
            enter_network(process_id)
            connection = socket.create_connection(("127.0.0.1", port_number), CONNECT_SECONDS)
        except OSError as error:
            connection = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, connection)

    threading.Thread(target=connect, name="container port", daemon=True).start()  # it cannot return to its own network
    return await connected


def enter_network(process_id: int) -> None:
    """Move the calling thread into the network of a process that has its own. Raise OSError on failure."""
    namespace = Path("/proc") / str(process_id) / "ns" / "net"
    # Every container has a network of its own. The machine's network would give a customer its local services.
    if namespace.readlink() == Path("/proc/self/ns/net").readlink():
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    c_library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if c_library.setns(descriptor, _NEW_NETWORK) != 0:
            error_number = ctypes.get_errno()
            raise OSError(error_number, os.strerror(error_number))
    finally:
        os.close(descriptor)


class RunningPrograms:
    """The `TunnelTargets` of a daemon's programs, by their tasks' ids."""

    def __init__(
        self, programs: ContainerSupervisor, container_entry: EntersContainers | None, spool: CopySpool
    ) -> None:
        """Without `container_entry`, running programs cannot be entered."""
        self._programs = programs
        self.spool = spool
        self._container_entry = container_entry
        self._access_by_name: dict[str, ProgramAccess] = {}

    def find(self, target_id: bytes) -> TunnelTarget | None:
        """See `TunnelTargets`."""
        waiting_key = self._programs.waiting(target_id)
        if waiting_key is not None:
            return self._target(self._programs.reply_key(waiting_key), WaitingRoom(self._programs, waiting_key))
        program = self._programs.of_task(target_id)
        if program is None or self._container_entry is None:
            return None
        container = program.container
        access = self._access_by_name.get(container.name)
        # The same object serves all tunnels of a container, so that its limits count across them.
        if access is None:
            self._access_by_name = {
                container_name: known_access
                for container_name, known_access in self._access_by_name.items()
                if not known_access.is_over
            }
            access = self._access_by_name[container.name] = ProgramAccess(
                self._container_entry, container, program.ports
            )
        return self._target(program.reply_key, access)

    def _target(self, customer_key: bytes, access: ContainerAccess) -> TunnelTarget:
        return TunnelTarget(customer_key, partial(serve_stream, access, self.spool))


class ProgramAccess:
    """The `ContainerAccess` of a running program."""

    def __init__(
        self, container_entry: EntersContainers, container: RunningContainer, declared_ports: Sequence[int]
    ) -> None:
        """`declared_ports` are the ports that the task names."""
        self._container_entry = container_entry
        self._container = container
        self._declared_ports = tuple(declared_ports)
        self._programs = 0
        self._copying = asyncio.Lock()
        self._connecting = asyncio.Semaphore(CONNECTING_MAX)

    @property
    def is_over(self) -> bool:
        """True if the container's program has ended."""
        return self._container.end.done()

    async def run(self, command: Sequence[str], *, is_terminal: bool, rows: int, columns: int) -> Talk:
        """See `ContainerAccess`."""
        self._require_running()
        if self._programs >= PROGRAMS_OF_ROOM_MAX:
            raise AccessError(
                f"{PROGRAMS_OF_ROOM_MAX} programs run beside the container's own already; end one",
                code="too_many_programs",
            )
        # Counted before the first await, or parallel requests would pass the limit together.
        self._programs += 1
        try:
            shell = await self._container_entry.open_program(self._container, command, is_terminal=is_terminal)
            if is_terminal:
                with contextlib.suppress(ContainerError):
                    await self._container_entry.resize(shell, rows, columns)
        except ContainerError as error:
            self._programs -= 1
            raise AccessError(str(error), code=error.code) from None
        except BaseException:
            self._programs -= 1
            raise
        return _ProgramTalk(self._container_entry, shell, self._ended, is_terminal=is_terminal)

    async def reach(self, port: int) -> Talk:
        """See `ContainerAccess`."""
        self._require_running()
        if port not in self._declared_ports:
            declared_ports = ", ".join(map(str, self._declared_ports)) or "none"
            raise AccessError(
                f"the task does not name port {port} ({declared_ports}); list it in `spec.run.ports`",
                code="port_not_named",
            )
        try:
            async with self._connecting:
                reader, writer = await open_port(await self._container_entry.process_of(self._container), port)
        except ContainerError as error:
            raise AccessError(str(error), code=error.code) from None
        return _PortTalk(reader, writer)

    async def copy_in(self, path: str, folder: Path) -> None:
        """See `ContainerAccess`."""
        first_folder, *deeper_folders = target_of(path)
        try:
            async with self._copying:
                top_entries = await asyncio.to_thread(_moved_below, folder, deeper_folders)
                await self._container_entry.copy_in(self._container, first_folder, top_entries)
        except ContainerError as error:
            raise AccessError(str(error), code=error.code) from None

    async def copy_out(self, path: str, sink: BinaryIO) -> None:
        """See `ContainerAccess`."""
        output_limits = OutputLimits(FILES_OUT_MAX, COPY_BYTES_MAX)
        try:
            async with self._copying:
                await self._container_entry.copy_out(self._container, "/".join(target_of(path)), output_limits, sink)
        except ContainerError as error:
            raise AccessError(str(error), code=error.code) from None

    def take_secrets(self, secrets: Mapping[str, bytes]) -> None:
        """See `ContainerAccess`."""
        raise AccessError("its program has begun with the secrets that it received", code="secrets_received")

    def _require_running(self) -> None:
        if self.is_over:
            raise AccessError("its program has ended; fetch files until its time is up", code="program_ended")

    def _ended(self) -> None:
        self._programs -= 1


def _moved_below(copied_folder: Path, deeper_folders: Sequence[str]) -> dict[str, bytes | Path]:
    """Move the content of a folder below further folders, and return the top entries."""
    if not deeper_folders:
        return {child.name: child for child in sorted(copied_folder.iterdir())}
    top_folder = copied_folder / ".deeper"
    target_folder = top_folder.joinpath(*deeper_folders)
    children = sorted(copied_folder.iterdir())
    target_folder.mkdir(parents=True)
    for child in children:
        child.rename(target_folder / child.name)
    return {deeper_folders[0]: top_folder / deeper_folders[0]}


class _ProgramTalk:
    """The `Talk` with a program."""

    def __init__(
        self, container_entry: EntersContainers, shell: Shell, report_end: Callable[[], None], *, is_terminal: bool
    ) -> None:
        self._container_entry = container_entry
        self._shell_session = shell
        self._ended = report_end
        self._frames = None if is_terminal else shell.stream.frames()

    async def read(self) -> tuple[int, bytes] | None:
        if self._frames is None:
            output_bytes = await self._shell_session.stream.read(DATA_BYTES_MAX)
            return (OUT, output_bytes) if output_bytes else None
        async for stream_number, output_bytes in self._frames:
            # Docker's stream header numbers standard output 1 and standard error 2.
            return stream_number - 1 if stream_number in (1, 2) else OUT, output_bytes
        return None

    async def write(self, data: bytes) -> None:
        await self._shell_session.stream.write(data)

    def end_input(self) -> None:
        self._shell_session.stream.end_input()

    async def resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(ContainerError):
            await self._container_entry.resize(self._shell_session, rows, columns)

    async def end(self) -> int:
        try:
            return await self._container_entry.end_program(self._shell_session)
        except ContainerError:
            return 255
        finally:
            self._ended()


class _PortTalk:
    """The `Talk` with a port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[int, bytes] | None:
        received_bytes = await self._reader.read(DATA_BYTES_MAX)
        return (OUT, received_bytes) if received_bytes else None

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end_input(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def resize(self, rows: int, columns: int) -> None:
        """Do nothing: a port has no terminal."""

    async def end(self) -> int:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        return 0
