"""Input files: plain files that a user named, read up to a limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wallet.errors import WalletError


class InputFileError(WalletError):
    """The file cannot be read."""


def read_input(path: Path, bytes_max: int, subject: str = "") -> bytes:
    """Return the bytes of a file, at most one more than `bytes_max`. `subject` names the file's use in an error.

    Raise InputFileError for a missing file, and for a folder, a device or a pipe, whose end may never come.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as input_file:  # `Path.open` takes no opener
            # The opened file is examined, not its path: another process can exchange what a path names.
            is_plain = stat.S_ISREG(os.fstat(input_file.fileno()).st_mode)
            # One byte more tells the caller that the file is too long.
            content = input_file.read(bytes_max + 1) if is_plain else b""
    except IsADirectoryError:
        is_plain, content = False, b""
    except OSError as error:
        reason = f"{subject}{path} cannot be read: {error.strerror}. Give the path of a file"
        raise InputFileError(reason, code="file_unreadable") from None
    if not is_plain:
        raise InputFileError(f"{subject}{path} is not a plain file. Give the path of a file", code="not_a_file")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """Open a path, and do not wait for the writer of a named pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
