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
        self, container: RunningContainer, command: Sequence[str], time_limit: float, bytes_max: int
    ) -> ProgramSaid:
        """Run a program to its end.

        After `time_limit`, raise ContainerError and leave it running until the container ends.
        """
        created_exec = await self._door.call(
            "run a program", lambda client: client.exec_create(container.name, list(command), stdin=False, tty=False)
        )
        program_stream = await open_stream(
            self._door.socket_path, f"/exec/{created_exec['Id']}/start", {"Detach": False, "Tty": False}
        )
        output_by_stream, is_cut = {1: b"", 2: b""}, False
        try:
            async with asyncio.timeout(time_limit):
                async for stream_number, output_data in program_stream.frames():
                    # Further output is read and dropped, or the program would block on a full pipe.
                    bytes_left = bytes_max - len(output_by_stream[1]) - len(output_by_stream[2])
                    output_by_stream[1 if stream_number == 1 else 2] += output_data[:bytes_left]
                    is_cut = is_cut or len(output_data) > bytes_left
        except TimeoutError:
            raise ContainerError(
                "run a program", f"unfinished after {time_limit:.0f} s", "stop the container", code="program_too_slow"
            ) from None
        finally:
            program_stream.close()
        inspected = await self._door.call("inspect a program", lambda client: client.exec_inspect(created_exec["Id"]))
        exit_code = inspected.get("ExitCode")
        return ProgramSaid(
            -1 if exit_code is None else int(exit_code), output_by_stream[1], output_by_stream[2], is_cut
        )

    async def open_program(self, container: RunningContainer, command: Sequence[str], *, is_terminal: bool) -> Shell:
        """Start a program with an input, on a terminal or with two outputs. The caller must call `end_program`."""
        created_exec = await self._door.call(
            "run a program",
            lambda client: client.exec_create(container.name, list(command), stdin=True, tty=is_terminal),
        )
        exec_id, start_body = str(created_exec["Id"]), {"Detach": False, "Tty": is_terminal}
        return Shell(await open_stream(self._door.socket_path, f"/exec/{exec_id}/start", start_body), exec_id)

    async def end_program(self, shell: Shell) -> int:
        """Close the stream, kill the program if it runs, and return its exit code; 255 if unknown."""
        shell.stream.close()
        inspected = await self._door.call("inspect a program", lambda client: client.exec_inspect(shell.exec_id))
        process_id = int(inspected.get("Pid") or 0)
        # The engine's API cannot end such a program, so the signal goes to its process on this machine.
        if inspected.get("Running") and process_id > 1:
            with contextlib.suppress(OSError):  # without permission, it lives until its container ends
                os.kill(process_id, signal.SIGKILL)
            return KILLED_EXIT
        exit_code = inspected.get("ExitCode")
        return UNKNOWN_EXIT if exit_code is None else int(exit_code)

    async def process_of(self, container: RunningContainer) -> int:
        """Return the machine's process id of the container's first process. Raise ContainerError if it has ended."""
        inspected = await self._door.call(
            "inspect a container", lambda client: client.inspect_container(container.name)
        )
        process_id = int((inspected.get("State") or {}).get("Pid") or 0)
        if process_id <= 1:
            raise ContainerError("reach a port", "the program has ended", "", code="program_ended")
        return process_id

    async def resize(self, shell: Shell, rows: int, columns: int) -> None:
        """Set the size of a terminal."""
        await self._door.call("resize", lambda client: client.exec_resize(shell.exec_id, height=rows, width=columns))

    async def copy_in(self, container: RunningContainer, folder: str, files: Mapping[str, bytes | Path]) -> None:
        """Copy files and folders into /workspace or /out, within the folder's limit."""
        limits = container.spec.limits
        bytes_by_folder = {"out": limits.output_bytes, "workspace": limits.workspace_bytes}
        if folder not in bytes_by_folder:
            raise ContainerRefusedError(
                "copy into a container", f"{folder!r} is neither out nor workspace", "use these", code="path_outside"
            )
        placed_files = await asyncio.to_thread(input_files, files, bytes_by_folder[folder])
        await self._parts.lay(container.spec.container_id, copied_in(folder, placed_files))

    async def copy_out(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO
    ) -> OutputArchive:
        """Write the archive of a folder or file in /out or /workspace, under its own last name.

        The container may run or have ended.
        """
        return await self._copy_archive(container, path, limits, sink, is_named=True)

    async def outputs(self, container: RunningContainer, limits: OutputLimits, sink: BinaryIO) -> OutputArchive:
        """Write the archive of the content of /out."""
        return await self._copy_archive(container, "out", limits, sink, is_named=False)

    async def _copy_archive(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO, *, is_named: bool
    ) -> OutputArchive:
        path_parts = path.strip("/").split("/")
        # The archive comes from the holder, which also mounts /in and /secrets.
        if (
            path_parts[0] not in OWN_FOLDERS
            or any(path_part in {"", ".", ".."} for path_part in path_parts)
            or "\0" in path
        ):
            raise ContainerRefusedError(
                "copy out of a container", f"{path[:80]!r} is not in /out or /workspace", "", code="path_outside"
            )

        def copy(client: docker.APIClient) -> OutputArchive:
            pieces, _ = client.get_archive(container.holder, f"/{'/'.join(path_parts)}", COPY_CHUNK_BYTES)
            return _closing_pieces(pieces, path_parts[-1], limits, sink, is_named=is_named)

        return await self._door.wait("copy out of a container", copy)


def _closing_pieces(
    pieces: Iterator[bytes], folder_name: str, limits: OutputLimits, sink: BinaryIO, *, is_named: bool
) -> OutputArchive:
    """Write the outputs, and always close the engine's stream."""
    try:
        return write_outputs(pieces, folder_name, limits, sink, is_named=is_named)
    finally:
        getattr(pieces, "close", lambda: None)()
