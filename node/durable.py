"""Small files that only their owner can read, complete and on disk when a function here returns."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from node.errors import BadInputError

OWNER_ONLY = 0o600


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


def write_durably(path: Path, data: bytes) -> None:
    """Replace the file at `path`: write aside, sync, rename, sync the folder.

    A crash leaves the old file or the new one.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the error of a descriptor would name no file
    finally:
        os.close(descriptor)
    # A rename is atomic for readers. The sync of the folder keeps it over a power cut.
    draft.replace(path)
    _sync_folder(path.parent)


def move_durably(source: Path, target: Path) -> None:
    """Move a file to another name on the same file system: after a crash it is in one of the two places."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source.replace(target)
    for folder in (target.parent, source.parent):
        _sync_folder(folder)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all data, or raise OSError: one call may write less, as on a disk that is almost full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


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
    # Not stat: a link could lead to another user's file.
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise BadInputError(
            f"{path} is not a plain file. Replace the link or folder by the file itself", code="not_plain_file"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise BadInputError(
            f"{path} can be read by others (mode {stat.S_IMODE(found.st_mode):o}). Run `chmod 600 {path}`"
        )
    if found.st_uid != os.geteuid():
        raise BadInputError(f"{path} belongs to another user. Run the node as that user, or create the file again")
    if found.st_size > limit_bytes:
        raise BadInputError(
            f"{path} has {found.st_size:,} bytes, above the limit of {limit_bytes:,}. It is another kind of file"
        )
    return path.read_bytes()
