"""What is done in a container that runs, as an engine lets it be done: `Inside`, or what stands in for it in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from gpu_tasks.provider.execution.containers.inside import Shell
from gpu_tasks.provider.execution.containers.outputs import OutputArchive, OutputLimits
from gpu_tasks.provider.execution.containers.run import RunningContainer


class EntersContainers(Protocol):
    """Every method raises ContainerError."""

    async def open_program(self, container: RunningContainer, command: Sequence[str], *, is_terminal: bool) -> Shell:
        """Begin a program beside the container's own."""
        ...

    async def end_program(self, shell: Shell) -> int:
        """End it; its exit code."""
        ...

    async def resize(self, shell: Shell, rows: int, columns: int) -> None:
        """Of its terminal."""
        ...

    async def process_of(self, container: RunningContainer) -> int:
        """The container's first process."""
        ...

    async def copy_in(self, container: RunningContainer, folder: str, files: Mapping[str, bytes | Path]) -> None:
        """Put files into one of its own folders."""
        ...

    async def copy_out(
        self, container: RunningContainer, path: str, limits: OutputLimits, sink: BinaryIO
    ) -> OutputArchive:
        """Write the archive of one of its own paths."""
        ...
