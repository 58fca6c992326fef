"""The targets of tunnels, and the operations of a customer on its own container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from gpu_tasks.tunnel.tunnel import ServeStream
from wallet.errors import CodedError


class AccessError(CodedError):
    """The operation failed. The text states the reason and the remedy."""


class Talk(Protocol):
    """A two-way byte connection to a program or a port."""

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next bytes and their channel, or None at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes to it. Raise ConnectionError if it has closed."""
        ...

    def end_input(self) -> None:
        """Announce that no more input comes."""
        ...

    async def resize(self, rows: int, columns: int) -> None:
        """Resize the terminal, if it has one."""
        ...

    async def end(self) -> int:
        """Close the connection and end its program. Return the program's exit code, or 0 for a port."""
        ...


class ContainerAccess(Protocol):
    """A container that runs, or waits for secrets."""

    async def run(self, command: Sequence[str], *, is_terminal: bool, rows: int, columns: int) -> Talk:
        """Start a program in the container. Raise AccessError on failure."""
        ...

    async def reach(self, port: int) -> Talk:
        """Connect to a port that the task names. Raise AccessError on failure."""
        ...

    async def copy_in(self, path: str, folder: Path) -> None:
        """Copy the content of a local folder to a path of the container. Raise AccessError on failure."""
        ...

    async def copy_out(self, path: str, sink: BinaryIO) -> None:
        """Write the archive of a path to `sink`. Raise AccessError on failure."""
        ...

    def take_secrets(self, secrets: Mapping[str, bytes]) -> None:
        """Give the waiting program its secrets, so that it can start. Raise AccessError on failure."""
        ...


@dataclass(frozen=True, slots=True)
class TunnelTarget:
    """A container or session that its customer may enter."""

    customer_key: bytes
    """The X25519 key that the customer must prove."""
    serve_stream: ServeStream


class TunnelTargets(Protocol):
    """Targets of one kind at a provider: its containers, or its sessions."""

    def find(self, target_id: bytes) -> TunnelTarget | None:
        """Return the target with an id, if it can be entered now."""
        ...
