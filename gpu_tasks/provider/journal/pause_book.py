"""Causes of devices' pauses, in a file of the base path: the chain records only the pause.

Always: the file is the one before a change or the one after it, whenever the machine stops; the daemon notes its own
pause before it sends the call; a daemon and a command never lose each other's notes. Where no note says why a device is
paused, only the operator resumes it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpu_tasks.provider.journal.journal import JournalError
from wallet import private_file

PAUSES_FILE = "pauses.json"
FILE_BYTES_MAX = 1024 * 1024
NUMBER_MAX = 1 << 128
LOG = logging.getLogger("ogpu.provider")


class PauseCause(StrEnum):
    """The cause of a pause."""

    MISSED = "missed"
    """The chain, for a race that the device missed."""
    REFUTED = "refuted"
    """The chain, for a result that a court found wrong."""
    UNSERVED = "unserved"
    """The daemon: the device is not on this machine, or offers work that the daemon does not have."""
    DRAINED = "drained"
    """The daemon: the operator drains it."""
    OPERATOR = "operator"
    UNKNOWN = "unknown"
    """Unknown: the device was paused before this base path knew it."""


OWN_CAUSES = (PauseCause.UNSERVED, PauseCause.DRAINED)
"""The daemon paused the device itself, and resumes it once the reason is gone."""


@dataclass(frozen=True, slots=True)
class NotedDevice:
    """A device as the daemon last saw it."""

    bond: int = 0
    """In grains."""
    is_paused: bool = False
    cause: PauseCause | None = None
    """None while it works, or if no daemon has looked since the pause."""
    why: str = ""
    misses: int = 0
    """Missed races in a row."""
    resumes_at: int | None = None
    """The block from which the daemon resumes it after a miss."""
    losses: int = 0
    """The number of times that its bond fell."""


class PauseBook:
    """Notes by device. Each is on the disk when `note` returns."""

    def __init__(self, base: Path) -> None:
        """`base` is the base path; nothing is read or written yet."""
        self._base = base
        self._path = base / PAUSES_FILE

    def read(self) -> dict[bytes, NotedDevice]:
        """Return all notes; none where the file is missing or damaged."""
        try:
            with self._path.open("rb") as file:
                raw = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise JournalError(f"{self._path} cannot be read: {error.strerror}") from error
        found = _notes(raw) if len(raw) <= FILE_BYTES_MAX else None
        if found is None:
            LOG.warning("%s is damaged: a device that is paused now stays paused until you resume it", self._path)
        return found or {}

    def note(self, device: bytes, **changes: Any) -> NotedDevice:
        """Change fields of a device's note. Return the whole note; JournalError if it cannot be written."""
        with self._held():
            notes = self.read()
            before = notes.get(device)
            after = replace(before or NotedDevice(), **changes)
            if after != before:
                self._write(notes | {device: after})
            return after

    def note_registered(self, device: bytes, bond: int) -> None:
        """Note a device that the chain does not know yet, in place of any older note; JournalError as `note`.

        The chain draws the device from its own block on, maybe before a daemon looks.
        """
        self.note(device, **asdict(NotedDevice(bond=bond)))

    def forget_others(self, own: Collection[bytes]) -> None:
        """Drop the notes of devices that are registered no more."""
        with self._held():
            notes = self.read()
            kept = {device: note for device, note in notes.items() if device in own}
            if len(kept) < len(notes):
                self._write(kept)

    def _write(self, notes: dict[bytes, NotedDevice]) -> None:
        text = json.dumps({device.hex(): asdict(note) for device, note in notes.items()}, indent=1)
        try:
            private_file.replace(self._path, text.encode())
        except OSError as error:
            raise JournalError(f"{self._path} cannot be written: {error.strerror}") from error

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other writers out. The lock is the folder's, since the file is replaced."""
        private_file.make_folder(self._base)
        folder = os.open(self._base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _notes(raw: bytes) -> dict[bytes, NotedDevice] | None:
    """Return the notes in a file; None if it is damaged."""
    try:
        given = json.loads(raw)
        return {bytes.fromhex(name): _noted(fields) for name, fields in given.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _noted(fields: dict[str, Any]) -> NotedDevice:
    """Return a note; ValueError or TypeError for another form."""
    cause = fields.get("cause")
    note = NotedDevice(**{**fields, "cause": None if cause is None else PauseCause(cause)})
    numbers = [note.bond, note.misses, note.losses, *([] if note.resumes_at is None else [note.resumes_at])]
    if not all(type(number) is int and 0 <= number < NUMBER_MAX for number in numbers):
        raise ValueError("a note has an invalid number")
    if not isinstance(fields.get("is_paused", False), bool) or not isinstance(fields.get("why", ""), str):
        raise TypeError("a note has a field of another type")
    return note
