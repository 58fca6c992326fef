"""The two files of a run, results and errors: added to unit by unit, on the disk before the record says so.

Always: no file of somebody else is written to; what a crash left behind the end that the record knows is cut off.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gpu_tasks.client.batches.record import FileEnds
from wallet.errors import WalletError
from wallet.private_file import OWNER_ONLY, sync_folder


class ResultFilesError(WalletError):
    """A file of the run cannot be written; the text says why and what to do."""


@dataclass(slots=True)
class ResultFiles:
    """Both files, open; use as a context manager."""

    output: Path
    errors: Path
    _descriptors: tuple[int, int]

    @classmethod
    def create(cls, output: Path, errors: Path) -> Self:
        """For a run that begins: new files, or empty ones, as a crash before its first entry leaves them."""
        return cls._opened(output, errors, None)

    @classmethod
    def take_up(cls, output: Path, errors: Path, ends: FileEnds) -> Self:
        """For a run that goes on: cut off where its record says that they are whole."""
        return cls._opened(output, errors, ends)

    @classmethod
    def _opened(cls, output: Path, errors: Path, ends: FileEnds | None) -> Self:
        first = _open(output, None if ends is None else ends.output)
        try:
            second = _open(errors, None if ends is None else ends.errors)
        except ResultFilesError:
            os.close(first)
            raise
        return cls(output, errors, (first, second))

    def __enter__(self) -> Self:
        """Already open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What was written stays."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def results(self) -> Iterator[bytes]:
        """The lines of results so far."""
        return _read_lines(self._descriptors[0])

    def add(self, results: Sequence[bytes], errors: Sequence[bytes]) -> FileEnds:
        """Write lines to both; where they end, once that is on the disk. ResultFilesError: the record keeps the old."""
        output, second = self._descriptors
        return FileEnds(_add(output, self.output, results), _add(second, self.errors, errors))


def _read_lines(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        stream.seek(0)
        yield from stream


def _open(path: Path, end: int | None) -> int:
    """Its descriptor, at `end`; None: there must be nothing in it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, OWNER_ONLY)
    except OSError as error:
        raise ResultFilesError(f"{path} cannot be written: {error.strerror}; name another file") from None
    try:
        _prepare(descriptor, path, end)
        sync_folder(path.parent)
    except (OSError, ResultFilesError) as error:
        os.close(descriptor)
        if isinstance(error, ResultFilesError):
            raise
        raise ResultFilesError(f"{path} cannot be written: {error.strerror}; name another file") from None
    return descriptor


def _prepare(descriptor: int, path: Path, end: int | None) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ResultFilesError(f"{path} is no plain file: name another file")
    if end is None and found.st_size:
        raise ResultFilesError(f"{path} is there already, and is no file of this run: name a new file")
    if end is not None and found.st_size < end:
        raise ResultFilesError(
            f"{path} has {found.st_size:,} bytes where this run wrote {end:,}: put it back, or fetch what the units "
            "gave with `ogpu result`"
        )
    os.ftruncate(descriptor, end or 0)
    os.fsync(descriptor)


def _add(descriptor: int, path: Path, lines: Sequence[bytes]) -> int:
    data = memoryview(b"".join(lines))
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
        return os.lseek(descriptor, 0, os.SEEK_END)
    except OSError as error:
        raise ResultFilesError(
            f"{path} cannot be written ({error.strerror}): make room, then run the same command again"
        ) from None
