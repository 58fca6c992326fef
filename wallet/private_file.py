"""Files that only their owner can read, written whole or not at all, and on disk when a function here returns."""

import errno
import os
import resource
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from durable.folders import FOLDER_OWNER_ONLY, OWNER_ONLY, make_folder, sync_folder
from wallet.errors import KeyFileError


def write_new(path: Path, file_bytes: bytes, before_named: Callable[[], None] = lambda: None) -> None:
    """Create the file `path` with mode 0600. Raise FileExistsError, and change nothing, if it exists.

    The bytes are on disk when this returns. No other user ever sees them, and no reader sees a part of them.
    `before_named` runs after they are written and before the file appears. If it raises, nothing is left. Raise
    KeyFileError if the file cannot be written.
    """
    draft_path = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with _told_as_key_file_error(path):
        make_folder(path.parent)
        # O_EXCL and O_NOFOLLOW: a file or link that another user prepared must not receive the bytes.
        descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ONLY)
    try:
        with _told_as_key_file_error(path), os.fdopen(descriptor, "wb") as open_file:
            open_file.write(file_bytes)
            open_file.flush()
            os.fsync(descriptor)
        if os.path.lexists(path):  # before `before_named`, which may show a phrase that would then be of no key
            raise FileExistsError(path)
        before_named()
        give_new_name(draft_path, path)
    finally:
        draft_path.unlink(missing_ok=True)
    sync_folder(path.parent)


def give_new_name(draft_path: Path, path: Path) -> None:
    """Name a file that must not replace another. Raise FileExistsError if the name is taken."""
    try:
        path.hardlink_to(draft_path)  # unlike a rename, this refuses to replace
    except FileExistsError:
        raise
    except OSError:  # exFAT and some network file systems have no hard links
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        draft_path.rename(path)


@contextmanager
def _told_as_key_file_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}", code="file_unusable") from error


def replace(path: Path, file_bytes: bytes) -> None:
    """Replace the file at `path`, mode 0600; a crash leaves the old file or the new one.

    Raise OSError with the path if it cannot be written, as on a full disk.
    """
    make_folder(path.parent)
    # One fixed name, so that crashes leave one draft at most. The next write truncates it.
    draft_path = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "wb") as open_file:
            open_file.write(file_bytes)
            open_file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the error of a descriptor names no file
    draft_path.replace(path)
    sync_folder(path.parent)


def read_private(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of a plain file of this user that no other user can read.

    Raise FileNotFoundError if it is missing, and KeyFileError for any other file.
    """
    try:
        # O_NONBLOCK: opening a named pipe without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise KeyFileError(f"{path} is a link. Name the file itself", code="not_a_plain_file") from None
        raise KeyFileError(f"{path} cannot be opened as a plain file: {error.strerror}", code="file_unusable") from None
    try:
        # The open file is checked, not its path, which could change between check and read.
        check_private(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as open_file:
            return read_limited(path, open_file.read(limit_bytes + 1), limit_bytes)
    finally:
        os.close(descriptor)


def read_plain(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of a plain file of any user.

    Raise KeyFileError for any other file, and for one that is too long: a wrong path may name a pipe without a writer
    or a device, which would make the program wait, or fill its memory.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KeyFileError(f"{path} is not a regular file", code="not_a_file")
            with os.fdopen(descriptor, "rb", closefd=False) as open_file:
                return read_limited(path, open_file.read(limit_bytes + 1), limit_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}", code="file_unusable") from error


def read_limited(path: Path, file_bytes: bytes, limit_bytes: int) -> bytes:
    """Return the bytes. Raise KeyFileError if it is too long for a file of its kind."""
    if len(file_bytes) > limit_bytes:
        raise KeyFileError(
            f"{path} has more than {limit_bytes:,} bytes, so it is another kind of file", code="file_too_large"
        )
    return file_bytes


def check_private(path: Path, file_status: os.stat_result, *, may_be_pipe: bool = False) -> None:
    """Raise KeyFileError unless an open file is a regular file of this user that no other user can read."""
    if not (stat.S_ISREG(file_status.st_mode) or (may_be_pipe and stat.S_ISFIFO(file_status.st_mode))):
        raise KeyFileError(f"{path} is not a plain file", code="not_a_plain_file")
    if file_status.st_uid != os.geteuid():
        raise KeyFileError(f"{path} belongs to another user", code="file_of_another_user")
    if stat.S_IMODE(file_status.st_mode) & 0o077:
        raise KeyFileError(f"other users can read {path}. Run chmod 600 {path}", code="file_not_private")


def own_opener(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=own_opener)`: a new file is readable only by its owner."""
    return os.open(path, flags, OWNER_ONLY)


def forbid_core_dumps() -> None:
    """Disable core dumps, which would hold keys, for this process and its children; this cannot be undone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def close_folder(folder: Path) -> bool:
    """Close a folder to other users; False for another user's folder, or a shared one such as /tmp."""
    folder_status = folder.stat()
    if not stat.S_IMODE(folder_status.st_mode) & 0o077:
        return True
    # A sticky folder is shared by all users, as /tmp is.
    is_own_folder = folder_status.st_uid == os.geteuid() and not folder_status.st_mode & stat.S_ISVTX
    if is_own_folder:
        folder.chmod(FOLDER_OWNER_ONLY)
    return is_own_folder
