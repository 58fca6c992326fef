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


def read_passwords(path: Path, limit_bytes: int = PASSWORD_BYTES_MAX) -> tuple[str, ...]:
    """Return a file's password, and then the same text with a byte order mark and final CR, as older programs read it.

    Raise WalletError, with the path, if the file holds no password.
    """
    try:
        raw = _read(path, limit_bytes)
    except FileNotFoundError:
        raise WalletError(f"the password file {path} does not exist", code="password_file_missing") from None
    except OSError as error:
        raise WalletError(f"the password file {path} cannot be read: {error.strerror}", code="file_unusable") from None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise WalletError(f"the password in {path} is not UTF-8", code="password_file_unusable") from None
    return tuple(dict.fromkeys((text.removeprefix(_MARK).rstrip("\r\n"), text.rstrip("\n"))))


def _read(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of one opened file; all checks use its descriptor, so a swapped path cannot deceive them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not _is_secret(path, found):
            check_private(path, found, may_be_pipe=True)
        is_pipe = stat.S_ISFIFO(found.st_mode)
        if is_pipe:
            # A named pipe may have no writer yet. No other kind of file may make the program wait.
            select.select([descriptor], [], [])
            os.set_blocking(descriptor, True)
        raw = read_limited(path, file.read(limit_bytes + 1), limit_bytes)
    if is_pipe and not raw:
        raise KeyFileError(f"the pipe {path} ended without a password", code="password_file_unusable")
    return raw


def _is_secret(path: Path, found: os.stat_result) -> bool:
    """Return whether an open file is in a folder for secrets of containers or services, which protect it."""
    place = path.resolve()
    is_there = any(place.is_relative_to(folder) for folder in SECRET_FOLDERS)
    return is_there and os.path.samestat(place.stat(), found)
