"""Causes of devices' pauses, in the journal of the base path. The chain records only the pause.

Invariants:

* The daemon notes its own pause before it sends the call.
* A daemon and a command never overwrite each other's notes.
* Without a note about the cause, only the operator resumes a device.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictBool, TypeAdapter

from durable.database import Database
from gpu_tasks.provider.journal.schema import damaged, read_journal

NotedNumber = Annotated[int, Field(strict=True, ge=0, lt=1 << 128)]


class PauseCause(StrEnum):
    """The cause of a pause."""

    MISSED = "missed"
    """By the chain, for a missed race."""
    REFUTED = "refuted"
    """By the chain, for a refuted result."""
    UNSERVED = "unserved"
    """By the daemon: the device is not on this machine, or offers work that the daemon does not have."""
    DRAINED = "drained"
    """By the daemon: the operator drains it."""
    OPERATOR = "operator"
    UNKNOWN = "unknown"
    """Unknown: the device was paused before this base path had a note about it."""


OWN_CAUSES = (PauseCause.UNSERVED, PauseCause.DRAINED)
"""The causes for which the daemon pauses a device itself, and resumes it when they end."""


@dataclass(frozen=True, slots=True)
class NotedDevice:
    """The last state of a device that the daemon saw."""

    bond: NotedNumber = 0
    """In grains."""
    is_paused: StrictBool = False
    cause: PauseCause | None = None
    """None for a working device, or if no daemon has checked since the pause."""
    why: str = ""
    misses: NotedNumber = 0
    """Consecutive missed races."""
    resumes_at: NotedNumber | None = None
    """The block from which the daemon resumes it after a miss."""
    losses: NotedNumber = 0
    """The number of times that its bond fell."""


_NOTE = TypeAdapter(NotedDevice)


class PauseBook:
    """Notes by device. Each is on the disk when `note` returns."""

    def __init__(self, database: Database) -> None:
        """`database` is a journal's. Nothing is read or written yet."""
        self._database = database

    def read(self) -> dict[bytes, NotedDevice]:
        """Return all notes. Raise JournalError if one is damaged."""
        rows = self._database.rows("SELECT device, note FROM pauses ORDER BY rowid")
        try:
            return {device: _NOTE.validate_json(note_json) for device, note_json in rows}
        except ValueError as error:
            raise damaged(self._database, "a note about a device") from error

    def note(self, device: bytes, **changes: Any) -> NotedDevice:
        """Change fields of a device's note, and return the whole note. Raise JournalError if it cannot be written."""
        # One transaction, so that no other process notes anything between the read and the write.
        with self._database.transaction():
            earlier = self.read().get(device)
            changed = replace(earlier or NotedDevice(), **changes)
            # The daemon notes every device every few blocks, mostly without a change.
            if changed != earlier:
                self._database.execute(
                    "INSERT INTO pauses (device, note) VALUES (?, ?) "
                    "ON CONFLICT (device) DO UPDATE SET note = excluded.note",
                    device,
                    _NOTE.dump_json(changed).decode(),
                )
            return changed

    def note_registered(self, device_id: bytes, bond_grains: int) -> None:
        """Note a device before the chain knows it, in place of any older note. It raises the errors of `note`.

        The chain may draw the device from its first block on, possibly before a daemon looks.
        """
        self.note(device_id, **asdict(NotedDevice(bond=bond_grains)))

    def forget_others(self, own_device_ids: Collection[bytes]) -> None:
        """Drop the notes of devices that are no longer registered."""
        with self._database.transaction() as connection:
            gone = [(device_id,) for device_id in self.read() if device_id not in own_device_ids]
            connection.executemany("DELETE FROM pauses WHERE device = ?", gone)


def pause_notes(base_path: Path) -> dict[bytes, NotedDevice]:
    """Return the notes of a base path; none without a journal. It raises the errors of `PauseBook.read`."""
    return dict(read_journal(base_path, lambda database: PauseBook(database).read().items()))
