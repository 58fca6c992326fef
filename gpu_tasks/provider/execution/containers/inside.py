"""Operations inside a running container: further programs, and files in and out of its own folders."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import docker

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor
from gpu_tasks.provider.execution.containers.layout import copied_in, input_files
from gpu_tasks.provider.execution.containers.outputs import OutputArchive, OutputLimits, write_outputs
from gpu_tasks.provider.execution.containers.parts import ContainerParts
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.run import RunningContainer
from gpu_tasks.provider.execution.containers.streams import EngineStream, open_stream

OWN_FOLDERS = ("out", "workspace")
COPY_CHUNK_BYTES = 1 << 20
KILLED_EXIT, UNKNOWN_EXIT = 137, 255


@dataclass(frozen=True, slots=True)
class ProgramSaid:
    """The end and the output of a program in a container."""

    exit_code: int
    out: bytes
    err: bytes
    is_cut: bool
    """True if output was dropped because of the size limit."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A program with a stream, and the engine's id for it."""

    stream: EngineStream
    exec_id: str


class Inside:
    """Programs and files of one engine's running containers."""

    def __init__(self, door: DockerDoor, parts: ContainerParts) -> None:
        """`parts` copies files in."""
        self._door = door
        self._parts = parts

    async def run(
        self, container: RunningContainer, command: Sequence[str], seconds: float, bytes_max: int
    ) -> ProgramSaid:
        """Run a program to its end.

        After `seconds`, raise ContainerError and leave it running until the container ends.
        """
        made = await self._door.call(
            "run a program", lambda client: client.exec_create(container.name, list(command), stdin=False, tty=False)
        )
        stream = await open_stream(self._door.socket_path, f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        said, is_cut = {1: b"", 2: b""}, False
        try:
            async with asyncio.timeout(seconds):
                async for number, data in stream.frames():
                    # Further output is read and dropped, or the program would block on a full pipe.
                    room = bytes_max - len(said[1]) - len(said[2])
                    said[1 if number == 1 else 2] += data[:room]
                    is_cut = is_cut or len(data) > room
        except TimeoutError:
            raise ContainerError(
                "run a program", f"unfinished after {seconds:.0f} s", "stop the container", code="program_too_slow"
            ) from None
        finally:
            stream.close()
        found = await self._door.call("inspect a program", lambda client: client.exec_inspect(made["Id"]))
        code = found.get("ExitCode")
        return ProgramSaid(-1 if code is None else int(code), said[1], said[2], is_cut)

    async def open_program(self, container: RunningContainer, command: Sequence[str], *, is_terminal: bool) -> Shell:
        """Start a program with an input, on a terminal or with two outputs. The caller must call `end_program`."""
        made = await self._door.call(
            "run a program",
            lambda client: client.exec_create(container.name, list(command), stdin=True, tty=is_terminal),
        )
        exec_id, body = str(made["Id"]), {"Detach": False, "Tty": is_terminal}
        return Shell(await open_stream(self._door.socket_path, f"/exec/{exec_id}/start", body), exec_id)

    async def end_program(self, shell: Shell) -> int:
        """Close the stream, kill the program if it runs, and return its exit code; 255 if unknown."""
        shell.stream.close()
        found = await self._door.call("inspect a program", lambda client: client.exec_inspect(shell.exec_id))
        process = int(found.get("Pid") or 0)
        # The engine's API cannot end such a program, so the signal goes to its process on this machine.
        if found.get("Running") and process > 1:
            with contextlib.suppress(OSError):  # without permission, it lives until its container ends
                os.kill(process, signal.SIGKILL)
            return KILLED_EXIT
        code = found.get("ExitCode")
        return UNKNOWN_EXIT if code is None else int(code)

    async def process_of(self, container: RunningContainer) -> int:
        """Return the machine's process id of the container's first process. Raise ContainerError if it has ended."""
        found = await self._door.call("inspect a container", lambda client: client.inspect_container(container.name))
        process = int((found.get("State") or {}).get("Pid") or 0)
        if process <= 1:
            raise ContainerError("reach a port", "the program has ended", "", code="program_ended")
        return process

    async def resize(self, shell: Shell, rows: int, columns: int) -> None:
        """Set the size of a terminal."""
        await self._door.call("resize", lambda client: client.exec_resize(shell.exec_id, height=rows, width=columns))

    async def copy_in(self, container: RunningContainer, folder: str, files: Mapping[str, bytes | Path]) -> None:
        """Copy files and folders into /workspace or /out, within the folder's limit."""
        limits = container.spec.limits
        most = {"out": limits.output_bytes, "workspace": limits.workspace_bytes}
        if folder not in most:
            raise ContainerRefusedError(
                "copy into a container", f"{folder!r} is neither out nor workspace", "use these", code="path_outside"
            )
        found = await asyncio.to_thread(input_files, files, most[folder])
        await self._parts.lay(container.spec.container_id, copied_in(folder, found))

    async def copy_out(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO
    ) -> OutputArchive:
        """Write the archive of a folder or file in /out or /workspace, under its own last name.

        The container may run or have ended.
        """
        return await self._archive(container, path, limits, sink, is_named=True)

    async def outputs(self, container: RunningContainer, limits: OutputLimits, sink: BinaryIO) -> OutputArchive:
        """Write the archive of the content of /out."""
        return await self._archive(container, "out", limits, sink, is_named=False)

    async def _archive(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO, *, is_named: bool
    ) -> OutputArchive:
        parts = path.strip("/").split("/")
        # The archive comes from the holder, which also mounts /in and /secrets.
        if parts[0] not in OWN_FOLDERS or any(part in {"", ".", ".."} for part in parts) or "\0" in path:
            raise ContainerRefusedError(
                "copy out of a container", f"{path[:80]!r} is not in /out or /workspace", "", code="path_outside"
            )

        def copy(client: docker.APIClient) -> OutputArchive:
            pieces, _ = client.get_archive(container.holder, f"/{'/'.join(parts)}", COPY_CHUNK_BYTES)
            return _closing(pieces, parts[-1], limits, sink, is_named=is_named)

        return await self._door.wait("copy out of a container", copy)


def _closing(
    pieces: Iterator[bytes], folder: str, limits: OutputLimits, sink: BinaryIO, *, is_named: bool
) -> OutputArchive:
    """Write the outputs, and always close the engine's stream."""
    try:
        return write_outputs(pieces, folder, limits, sink, is_named=is_named)
    finally:
        getattr(pieces, "close", lambda: None)()
