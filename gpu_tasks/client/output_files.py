"""Output files: a new file that only its owner can read, or an overwritten one if the user asks for it.

Invariant: no bytes go through a link, a device or a pipe, and an overwritten file stays whole until all new bytes are
on the disk. Texts of others (an id, a workload) become part of a name only as hexadecimal digits, so no name leads out
of the named folder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from wallet.errors import WalletError
from wallet.private_file import give_new_name

RESULT_MODE = 0o600
NOT_WRITABLE = "this user may not write there, or its file system is read-only"


class OutputFileError(WalletError):
    """The file cannot be written as requested."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a user named, or a folder for a file with the id's name."""

    named: Path
    is_forced: bool = False
    """True if an existing file may be overwritten."""

    def place(self, file_name: str) -> Path:
        """Return the path, and refuse an unusable one before anything is fetched. Raise OutputFileError.

        `file_name` is the plain file name in a named folder.
        """
        if file_name in {"", ".", ".."} or "/" in file_name or "\0" in file_name:
            raise OutputFileError(f"{file_name!r} is not a plain file name", code="invalid_file_name")
        output_path = self.named / file_name if self.named.is_dir() else self.named
        if not output_path.parent.is_dir():
            raise OutputFileError(
                f"{output_path} cannot be written: there is no folder {output_path.parent}. Name another file",
                code="folder_missing",
            )
        self._require_writable(output_path)
        if not may_create_in(output_path.parent):
            raise OutputFileError(
                f"{output_path} cannot be written: {NOT_WRITABLE}. Name another file", code="file_unwritable"
            )
        return output_path

    def write(self, file_name: str, content: bytes) -> Path:
        """Write all of `content`, or nothing, and return the path. Raise OutputFileError."""
        return self.fill(file_name, lambda output_stream: output_stream.write(content))

    def fill(self, file_name: str, write: Callable[[BinaryIO], object]) -> Path:
        """Create the file, let `write` write it, and return the path. If `write` raises, nothing is left.

        Raise OutputFileError, also for an OSError of `write`.
        """
        output_path = self.place(file_name)
        try:
            _write_whole(output_path, write, is_forced=self.is_forced)
        except FileExistsError:
            raise _file_exists_error(output_path) from None
        except OSError as error:
            raise OutputFileError(
                f"{output_path} cannot be written: {error.strerror or error}. Name another file", code="file_unwritable"
            ) from None
        return output_path

    def _require_writable(self, output_path: Path) -> None:
        """Raise OutputFileError for an existing file that must stay."""
        try:
            file_status = output_path.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise OutputFileError(
                f"{output_path} cannot be written: {error.strerror or error}. Name another file", code="file_unwritable"
            ) from None
        if not self.is_forced:
            raise _file_exists_error(output_path)
        if not stat.S_ISREG(file_status.st_mode):
            raise OutputFileError(
                f"{output_path} is not a regular file, and is not overwritten. Name another file", code="not_a_file"
            )


def may_create_in(folder: Path) -> bool:
    """Return True if this user may create files in a folder, and its file system is writable."""
    return os.access(folder, os.W_OK | os.X_OK)


def output_file(path: Path | None, *, is_forced: bool) -> OutputFile | None:
    """Return the file of `--out`; None without one. Raise UsageError for `--force` alone."""
    if path is None and is_forced:
        raise click.UsageError("--force overwrites the file of --out. Give --out")
    return None if path is None else OutputFile(path, is_forced)


def _file_exists_error(output_path: Path) -> OutputFileError:
    return OutputFileError(f"{output_path} exists. Name a new file, or overwrite it with --force", code="file_exists")


def _write_whole(output_path: Path, write: Callable[[BinaryIO], object], *, is_forced: bool) -> None:
    """Write a draft and give it its name, so that a killed program leaves no part of a result under the name."""
    draft_path = output_path.with_name(f".{secrets.token_hex(8)}.draft")
    # O_EXCL and a random name: nobody can have placed a link there beforehand.
    descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, RESULT_MODE)
    try:
        with os.fdopen(descriptor, "wb") as output_stream:
            write(output_stream)
            output_stream.flush()
            # A file system may store a new name before the content, so a power cut would leave an empty result.
            os.fsync(descriptor)
        if is_forced:
            draft_path.replace(output_path)
        else:
            # It refuses a name that was taken in the meantime, which a rename would overwrite.
            give_new_name(draft_path, output_path)
    finally:
        with contextlib.suppress(OSError):
            draft_path.unlink(missing_ok=True)
