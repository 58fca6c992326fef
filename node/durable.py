"""The node's folders, and its small files. `wallet.private_file` writes those that a crash must not lose."""

from __future__ import annotations

import os
from pathlib import Path

from node.errors import BadInputError
from wallet import private_file
from wallet.errors import KeyFileError


def require_folder(folder_path: Path) -> None:
    """Create a folder of this node, mode 0700, unless it exists. Raise `BadInputError` if it is not writable."""
    try:
        folder_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = os.access(folder_path, os.W_OK | os.X_OK)
        failure_reason = "this user may not write there, or its file system is read-only"
    except OSError as error:
        is_ours, failure_reason = False, error.strerror or type(error).__name__
    if not is_ours:
        raise BadInputError(
            f"the folder {folder_path} cannot be used: {failure_reason}. Correct that, or give another --base-path"
        )


def is_there(file_path: Path) -> bool:
    """Return whether a path exists. Raise OSError, with the path, if that cannot be known, as below a file."""
    try:
        file_path.stat()
    except FileNotFoundError:
        return False
    return True


def move_durably(source_path: Path, target_path: Path) -> None:
    """Move a file to another name on the same file system: after a crash it is in one of the two places."""
    target_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source_path.replace(target_path)
    for synced_folder in (target_path.parent, source_path.parent):
        private_file.sync_folder(synced_folder)


def write_quickly(file_path: Path, file_bytes: bytes) -> None:
    """Replace a file; a power cut may lose the new version, but never leaves half of it."""
    draft_path = file_path.with_name(f".{file_path.name}.new")
    draft_path.write_bytes(file_bytes)
    draft_path.replace(file_path)


def read_private(file_path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of a file that no other user can read.

    Raise `FileNotFoundError` if it does not exist, and `BadInputError` if it is another kind of file, too long, or open
    to other users.
    """
    try:
        return private_file.read_private(file_path, limit_bytes)
    except KeyFileError as error:
        raise BadInputError(str(error), code=error.code) from None
