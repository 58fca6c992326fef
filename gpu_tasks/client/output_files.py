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
from dataclasses import dataclass
from pathlib import Path

import click

from wallet.errors import WalletError

RESULT_MODE = 0o600


class OutputFileError(WalletError):
    """The file cannot be written as requested."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a user named, or a folder for a file with the id's name."""

    named: Path
    is_forced: bool = False
    """True if an existing file may be overwritten."""

    def place(self, name: str) -> Path:
        """Return the path, and refuse an unusable one before anything is fetched. Raise OutputFileError.

        `name` is the plain file name in a named folder.
        """
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise OutputFileError(f"{name!r} is not a plain file name", code="invalid_file_name")
        path = self.named / name if self.named.is_dir() else self.named
        if not path.parent.is_dir():
            raise OutputFileError(
                f"{path} cannot be written: there is no folder {path.parent}. Name another file", code="folder_missing"
            )
        self._check(path)
        return path

    def write(self, name: str, data: bytes) -> Path:
        """Write all of `data`, or nothing, and return the path. Raise OutputFileError."""
        path = self.place(name)
        try:
            _write(path, data, is_forced=self.is_forced)
        except FileExistsError:
            raise _is_there(path) from None
        except OSError as error:
            raise OutputFileError(
                f"{path} cannot be written: {error.strerror or error}. Name another file", code="file_unwritable"
            ) from None
        return path

    def _check(self, path: Path) -> None:
        """Raise OutputFileError for an existing file that must stay."""
        try:
            found = path.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise OutputFileError(
                f"{path} cannot be written: {error.strerror or error}. Name another file", code="file_unwritable"
            ) from None
        if not self.is_forced:
            raise _is_there(path)
        if not stat.S_ISREG(found.st_mode):
            raise OutputFileError(
                f"{path} is not a regular file, and is not overwritten. Name another file", code="not_a_file"
            )


def output_file(path: Path | None, *, is_forced: bool) -> OutputFile | None:
    """Return the file of `--out`; None without one. Raise UsageError for `--force` alone."""
    if path is None and is_forced:
        raise click.UsageError("--force overwrites the file of --out. Give --out")
    return None if path is None else OutputFile(path, is_forced)


def _is_there(path: Path) -> OutputFileError:
    return OutputFileError(f"{path} exists. Name a new file, or overwrite it with --force", code="file_exists")


def _write(path: Path, data: bytes, *, is_forced: bool) -> None:
    """Write a draft and give it its name, so that a killed program leaves no part of a result under the name."""
    draft = path.with_name(f".{secrets.token_hex(8)}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, RESULT_MODE)
    try:
        _fill(descriptor, data)
        if is_forced:
            draft.replace(path)
        else:
            _give_new_name(draft, path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _give_new_name(draft: Path, path: Path) -> None:
    """Name a file that must not replace another. Raise FileExistsError if the name is taken."""
    try:
        path.hardlink_to(draft)  # unlike a rename, this refuses to replace
    except FileExistsError:
        raise
    except OSError:  # exFAT and some network file systems have no hard links
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        draft.rename(path)


def _fill(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)
