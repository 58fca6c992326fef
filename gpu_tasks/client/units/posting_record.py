"""What is about to be posted, written down before it is sent, so that a retry never posts twice.

One file for each set of prompts, or each task, that an account posts on a chain. It stays behind the purchase: the
same command never buys a task again, and says that it posts units once more. It holds no prompt, only the means to find
the units. Always: a part's extrinsic is on the disk before any node sees it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runtime.cryptography.hashing import blake2_256
from wallet.errors import WalletError
from wallet.private_file import lock_file, replace

DEFAULT_FOLDER = Path("~/.ogpu/postings")
RECORD_BYTES_MAX = 64 * 1024 * 1024
SUBMITTED, ENDED = "submitted", "ended"


class RecordError(WalletError):
    """The record of a posting cannot be used; the text says what to do."""


class RecordBusyError(RecordError):
    """Another process holds the record."""


@dataclass(slots=True)
class PostedPart:
    """Some of the prompts, as one extrinsic. Bytes are in hexadecimal."""

    places: list[int]
    """Which of the prompts."""
    extrinsic: str
    nonce: int
    signed_at: int
    expires_at: int
    """After this final block the extrinsic can be in none any more."""
    first_number: int
    """The account's number for the first of the units, if nothing else of the account comes before it."""
    input_roots: list[str]
    units: list[str]
    """The units' ids; until they are in a final block as `first_number` gives them."""
    block: int | None = None
    """Where they are, once that is final."""
    told: str = ""
    """The last state that a command has shown its customer, `SUBMITTED` or `ENDED`."""


@dataclass(slots=True)
class LockedRecord:
    """A file that is one process's alone until it leaves the context."""

    path: Path
    _lock: int = field(default=-1, kw_only=True)

    def lock(self, busy: str) -> None:
        """Lock the file; RecordBusyError with `busy` where another process holds it, RecordError where none can be."""
        try:
            self._lock = lock_file(self.path.with_suffix(".lock"))
        except BlockingIOError:
            raise RecordBusyError(busy) from None
        except OSError as error:
            folder = self.path.parent
            raise RecordError(f"{folder} cannot be used, and nothing is posted without a record: {error}") from None

    def __enter__(self) -> Self:
        """Already locked."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let another process have the file."""
        self.close()

    def close(self) -> None:
        """Give the file up; its content stays."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


@dataclass(slots=True)
class PostingRecord(LockedRecord):
    """The record of one posting."""

    parts: list[PostedPart] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, *identity: bytes) -> Self:
        """The record of one posting, as an earlier try left it; RecordError if another process is at it."""
        record = cls(folder.expanduser() / f"{record_name(*identity)}.json")
        record.lock("another `ogpu post` or `ogpu submit` is posting the same: wait for it")
        try:
            record.parts = _parts(record.path)
        except (OSError, ValueError, TypeError) as error:
            record.close()
            raise _unreadable(record.path, error) from None
        return record

    @staticmethod
    def peek(folder: Path, *identity: bytes) -> set[int]:
        """The prompts that earlier tries sent, or were about to send; nothing is made or kept. RecordError."""
        return {place for part in PostingRecord.look(folder, *identity) for place in part.places}

    @staticmethod
    def look(folder: Path, *identity: bytes) -> list[PostedPart]:
        """Return the parts that earlier tries sent, or were about to send; write nothing. RecordError."""
        path = folder.expanduser() / f"{record_name(*identity)}.json"
        try:
            return _parts(path)
        except (OSError, ValueError, TypeError) as error:
            raise _unreadable(path, error) from None

    @property
    def recorded(self) -> set[int]:
        """The prompts that stand in some part."""
        return {place for part in self.parts for place in part.places}

    def save(self) -> None:
        """Write all of it down; it is on the disk when this returns. RecordError if it cannot be."""
        data = json.dumps([asdict(part) for part in self.parts]).encode()
        try:
            replace(self.path, data)
        except OSError as error:
            raise RecordError(f"{self.path} cannot be written, so nothing more is posted: {error}") from None

    def note_told(self, told: str) -> None:
        """Note that all is in final blocks, and was shown to its customer. RecordError."""
        for part in self.parts:
            part.told, part.extrinsic = told, ""  # which is looked for no more
        self.save()

    def forget(self) -> None:
        """Forget earlier tries: all of it is posted anew."""
        self.parts.clear()
        self.path.unlink(missing_ok=True)


def is_told_of(parts: Sequence[PostedPart]) -> bool:
    """Tell whether a command posted all of it and showed that: the same command posts it once more."""
    return bool(parts) and all(part.told for part in parts)


def record_name(*identity: bytes) -> str:
    """Return the name of what these parts tell apart: of its record's files."""
    return blake2_256(b"".join(len(part).to_bytes(8, "little") + part for part in identity)).hex()


def _unreadable(path: Path, error: Exception) -> RecordError:
    return RecordError(f"{path} cannot be read ({error}): see with `ogpu watch` what was posted, then remove it")


def _parts(path: Path) -> list[PostedPart]:
    return [PostedPart(**part) for part in _read(path)]


def _read(path: Path) -> Sequence[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open("rb") as stream:
        found = json.loads(stream.read(RECORD_BYTES_MAX))
    if not isinstance(found, list):
        raise TypeError("no list of parts")
    return found
