"""The node's folders, and its small files. `wallet.private_file` writes those that a crash must not lose."""

from __future__ import annotations

import os
from pathlib import Path

from durable.folders import sync_folder
from node.errors import BadInputError
from wallet import private_file
from wallet.errors import KeyFileError


def require_folder(path: Path) -> None:
    """Create a folder of this node, mode 0700, unless it exists. Raise `BadInputError` if it is not writable."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = os.access(path, os.W_OK | os.X_OK)
        reason = "this user may not write there, or its file system is read-only"
    except OSError as error:
        is_ours, reason = False, error.strerror or type(error).__name__
    if not is_ours:
        raise BadInputError(f"the folder {path} cannot be used: {reason}. Correct that, or give another --base-path")


def is_there(path: Path) -> bool:
    """Return whether a path exists. Raise OSError, with the path, if that cannot be known, as below a file."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def move_durably(source: Path, target: Path) -> None:
    """Move a file to another name on the same file system: after a crash it is in one of the two places."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source.replace(target)
    for folder in (target.parent, source.parent):
        sync_folder(folder)


def write_quickly(path: Path, data: bytes) -> None:
    """Replace a file; a power cut may lose the new version, but never leaves half of it."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(data)
    draft.replace(path)


def read_private(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of a file that no other user can read.

    Raise `FileNotFoundError` if it does not exist, and `BadInputError` if it is another kind of file, too long, or open
    to other users.
    """
    try:
        return private_file.read_private(path, limit_bytes)
    except KeyFileError as error:
        raise BadInputError(str(error), code=error.code) from None
