"""Passwords from files.

A password file is a file that only its owner may read, or an own pipe, or a link to either. It may also be any file
below `/run/secrets` or `/run/credentials`, where Docker, Kubernetes and systemd put secrets with modes of their choice.
"""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path

from wallet.errors import KeyFileError, WalletError
from wallet.private_file import check_private, read_limited

PASSWORD_BYTES_MAX = 1024
SECRET_FOLDERS = (Path("/run/secrets"), Path("/run/credentials"))
_MARK = "\ufeff"  # Windows' editors put it before a text


def read_passwords(path: Path, limit_bytes: int = PASSWORD_BYTES_MAX, *, what: str = "password") -> tuple[str, ...]:
    """Return a file's password, and then the same text with a byte order mark and final CR, as older programs read it.

    `what` is the content in the words of errors. Raise WalletError, with the path, if the file holds no text.
    """
    try:
        file_bytes = _read(path, limit_bytes)
    except FileNotFoundError:
        raise WalletError(f"the {what} file {path} does not exist", code="password_file_missing") from None
    except OSError as error:
        raise WalletError(f"the {what} file {path} cannot be read: {error.strerror}", code="file_unusable") from None
    try:
        passwords_text = file_bytes.decode()
    except UnicodeDecodeError:
        raise WalletError(f"the {what} in {path} is not UTF-8", code="password_file_unusable") from None
    return tuple(dict.fromkeys((passwords_text.removeprefix(_MARK).rstrip("\r\n"), passwords_text.rstrip("\n"))))


def _read(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of one opened file; all checks use its descriptor, so a swapped path cannot deceive them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as password_file:
        file_status = os.fstat(descriptor)
        if not _is_secret(path, file_status):
            check_private(path, file_status, may_be_pipe=True)
        is_pipe = stat.S_ISFIFO(file_status.st_mode)
        if is_pipe:
            # A named pipe may have no writer yet. No other kind of file may make the program wait.
            select.select([descriptor], [], [])
            os.set_blocking(descriptor, True)
        file_bytes = read_limited(path, password_file.read(limit_bytes + 1), limit_bytes)
    if is_pipe and not file_bytes:
        raise KeyFileError(f"the pipe {path} ended without a password", code="password_file_unusable")
    return file_bytes


def _is_secret(path: Path, file_status: os.stat_result) -> bool:
    """Return whether an open file is in a folder for secrets of containers or services, which protect it."""
    resolved_path = path.resolve()
    is_there = any(resolved_path.is_relative_to(secret_folder) for secret_folder in SECRET_FOLDERS)
    return is_there and os.path.samestat(resolved_path.stat(), file_status)
