"""What can be done in one container, by whoever ordered it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol


class AccessError(Exception):
    """It cannot be done; the text says why, and what to do."""


class Talk(Protocol):
    """Bytes with a program, or with a port."""

    async def read(self) -> tuple[int, bytes] | None:
        """The next bytes and their channel; None at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """To it; ConnectionError once it is gone."""
        ...

    def end_input(self) -> None:
        """Nothing more comes."""
        ...

    async def resize(self, rows: int, columns: int) -> None:
        """Of a terminal."""
        ...

    async def end(self) -> int:
        """Hang up, end what is left of it, and say how it ended: a program's exit code, 0 of a port."""
        ...


class ContainerAccess(Protocol):
    """A container that runs, or waits to."""

    async def run(self, command: Sequence[str], *, is_terminal: bool, rows: int, columns: int) -> Talk:
        """Begin a program in it; AccessError."""
        ...

    async def reach(self, port: int) -> Talk:
        """A connection to a port that its task names; AccessError."""
        ...

    async def copy_in(self, path: str, folder: Path) -> None:
        """Put all that lies in a folder of this machine under a path of the container; AccessError."""
        ...

    async def copy_out(self, path: str, sink: BinaryIO) -> None:
        """Write the archive of a path; AccessError."""
        ...

    def take_secrets(self, secrets: Mapping[str, bytes]) -> None:
        """Have its program begin with them; AccessError."""
        ...


@dataclass(frozen=True, slots=True)
class OpenContainer:
    """A room, and the key that whoever enters has to show."""

    room: ContainerAccess
    customer_key: bytes
    """X25519: what the outputs are sealed to."""


class OpenContainers(Protocol):
    """The containers of a daemon."""

    def find(self, task: bytes) -> OpenContainer | None:
        """That of a task, while it runs here or waits for secrets."""
        ...
