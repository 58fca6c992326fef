"""Operations inside a running container, as an interface. `Inside` implements it, and a substitute in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from gpu_tasks.provider.execution.containers.inside import Shell
from gpu_tasks.provider.execution.containers.outputs import OutputArchive, OutputLimits
from gpu_tasks.provider.execution.containers.run import RunningContainer


class EntersContainers(Protocol):
    """The access to running containers. Every method raises ContainerError on failure."""

    async def open_program(self, container: RunningContainer, command: Sequence[str], *, is_terminal: bool) -> Shell:
        """Start a program beside the container's own."""
        ...

    async def end_program(self, shell: Shell) -> int:
        """End a program and return its exit code."""
        ...

    async def resize(self, shell: Shell, rows: int, columns: int) -> None:
        """Resize its terminal."""
        ...

    async def process_of(self, container: RunningContainer) -> int:
        """Return the machine's process id of the container's first process."""
        ...

    async def copy_in(self, container: RunningContainer, folder: str, files: Mapping[str, bytes | Path]) -> None:
        """Copy files into one of the container's own folders."""
        ...

    async def copy_out(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO
    ) -> OutputArchive:
        """Write the archive of one of the container's own paths."""
        ...
