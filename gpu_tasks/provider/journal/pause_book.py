"""Causes of devices' pauses, in a file of the base path. The chain records only the pause.

Invariants:

* After a crash the file is complete, either before or after the last change.
* The daemon notes its own pause before it sends the call.
* A daemon and a command never overwrite each other's notes.
* Without a note about the cause, only the operator resumes a device.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, TypeAdapter

from gpu_tasks.provider.journal.journal import JournalError
from wallet import private_file

PAUSES_FILE = "pauses.json"
FILE_BYTES_MAX = 1024 * 1024
NotedNumber = Annotated[int, Field(strict=True, ge=0, lt=1 << 128)]
LOG = logging.getLogger("ogpu.provider")


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


_NOTES = TypeAdapter(dict[bytes, NotedDevice], config=ConfigDict(ser_json_bytes="hex", val_json_bytes="hex"))


class PauseBook:
    """Notes by device. Each is on the disk when `note` returns."""

    def __init__(self, base_path: Path) -> None:
        """`base_path` is the base path. Nothing is read or written yet."""
        self._base_path = base_path
        self._notes_path = base_path / PAUSES_FILE

    def read(self) -> dict[bytes, NotedDevice]:
        """Return all notes; none if the file is missing or damaged."""
        try:
            with self._notes_path.open("rb") as file:
                notes_json = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise JournalError(
                f"{self._notes_path} cannot be read: {error.strerror}", code="pauses_unreadable"
            ) from error
        # A longer file is not this program's, and counts as damaged.
        if len(notes_json) <= FILE_BYTES_MAX:
            with suppress(ValueError):
                return _NOTES.validate_json(notes_json)
        LOG.warning("%s is damaged: a paused device stays paused until you resume it", self._notes_path)
        return {}

    def note(self, device: bytes, **changes: Any) -> NotedDevice:
        """Change fields of a device's note, and return the whole note. Raise JournalError if it cannot be written."""
        with self._locked_notes():
            notes = self.read()
            earlier = notes.get(device)
            changed = replace(earlier or NotedDevice(), **changes)
            # The daemon notes every device every few blocks, mostly without a change.
            if changed != earlier:
                self._write_notes(notes | {device: changed})
            return changed

    def note_registered(self, device_id: bytes, bond_grains: int) -> None:
        """Note a device before the chain knows it, in place of any older note. It raises the errors of `note`.

        The chain may draw the device from its first block on, possibly before a daemon looks.
        """
        self.note(device_id, **asdict(NotedDevice(bond=bond_grains)))

    def forget_others(self, own_device_ids: Collection[bytes]) -> None:
        """Drop the notes of devices that are no longer registered."""
        with self._locked_notes():
            notes = self.read()
            kept_notes = {device_id: noted for device_id, noted in notes.items() if device_id in own_device_ids}
            if len(kept_notes) < len(notes):
                self._write_notes(kept_notes)

    def _write_notes(self, notes: dict[bytes, NotedDevice]) -> None:
        try:
            # Replaced as a whole, so that a crash leaves the old notes or the new ones.
            private_file.replace(self._notes_path, _NOTES.dump_json(notes, indent=1))
        except OSError as error:
            raise JournalError(
                f"{self._notes_path} cannot be written: {error.strerror}", code="pauses_unwritable"
            ) from error

    @contextmanager
    def _locked_notes(self) -> Iterator[None]:
        """Keep other writers out. The lock is on the folder, because the file is replaced."""
        private_file.make_folder(self._base_path)
        descriptor = os.open(self._base_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
