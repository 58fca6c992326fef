"""The room of a program that waits for its customer's secrets: they are taken, and there is nothing else to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

from gpu_tasks.provider.journal.task_records import TaskKey
from gpu_tasks.provider.programs.house import ProgramHouse
from gpu_tasks.provider.programs.refusals import ProgramError
from gpu_tasks.provider.tunnel.access import AccessError

WAITS = "its program waits for secrets: `ogpu secrets` hands them over"


class WaitingRoom:
    """Implements `ContainerAccess`."""

    def __init__(self, programs: ProgramHouse, key: TaskKey) -> None:
        """`key` names the program."""
        self._programs = programs
        self._key = key

    async def run(self, command: Sequence[str], *, is_terminal: bool, rows: int, columns: int) -> NoReturn:
        """See `ContainerAccess`."""
        raise AccessError(WAITS)

    async def reach(self, port: int) -> NoReturn:
        """See `ContainerAccess`."""
        raise AccessError(WAITS)

    async def copy_in(self, path: str, folder: Path) -> None:
        """See `ContainerAccess`."""
        raise AccessError(WAITS)

    async def copy_out(self, path: str, sink: BinaryIO) -> None:
        """See `ContainerAccess`."""
        raise AccessError(WAITS)

    def take_secrets(self, secrets: Mapping[str, bytes]) -> None:
        """See `ContainerAccess`."""
        try:
            self._programs.give_secrets(self._key, secrets)
        except ProgramError as error:
            raise AccessError(str(error)) from None
