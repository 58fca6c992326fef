"""A private SQLite file for records that survive `kill -9` and power cuts.

Invariants:

* A transaction is whole or has no effect, and is on the disk when it returns: WAL mode with `synchronous=FULL` syncs
  each commit.
* Damage of the write-ahead log alone, between a crash and the next opening, drops commits unnoticed: the damaged one
  and all later ones. It looks like a commit that a power cut interrupted.
* A file of another kind, of a newer release, or with damage is never written. SQLite finds damage of its pages. The
  sums of `checked_table` show a changed row. Both are checked before a writer's first transaction, not for readers.
* One process at a time holds a lock by key. The system releases it when the process ends, however it ends.
* Each error of SQLite becomes an error of the owner's class, with a code and a remedy. Errors of our own statements
  stay errors of `sqlite3`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import stat
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from durable.folders import OWNER_ONLY, make_folder, sync_folder

SQLITE_LEAST = (3, 37, 0)
"""The first release with strict tables."""
BUSY_SECONDS = 10.0
RETRY_SECONDS = 0.01
BYTES_MAX = 4 * 1024**3
_PAGE_BYTES = 4_096
_LOCK_SUFFIX = ".lock"
_SUM_BYTES = 8
_OWNER_PLACE = 0
_KEY_BYTES = 7  # a place is a signed number of 64 bits
# The low byte of SQLite's extended codes is the primary code.
_PRIMARY_CODE = 0xFF


class CodedErrorClass(Protocol):
    """Makes the error that a database raises: a class of errors with a text and a code."""

    def __call__(self, text: str, *, code: str) -> Exception:
        """Return the error."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a kind of database, and the words of its errors."""

    noun: str
    """The name of the kind, such as `journal`. It begins the codes of errors, and marks the file as of this kind."""
    version: int
    """At least 1. A file with another version is refused."""
    statements: Sequence[str]
    """The statements that create the tables of a new file, each as SQLite stores it: `CREATE TABLE name (...)`."""
    remedy: str
    """The remedy for a damaged file, for its user: a sentence without a full stop."""
    bytes_max: int = BYTES_MAX

    @property
    def mark(self) -> int:
        """The `application_id` of a file of this kind."""
        return zlib.crc32(self.noun.encode()) & 0x7FFF_FFFF


def checked_table(name: str, columns: Sequence[str], *constraints: str) -> str:
    """Return the statement for a strict table whose rows carry a sum, which is checked when the file is opened.

    Each column is a name with its type and constraints. With `PRIMARY KEY` as a constraint the table has no other row
    numbers.
    """
    values = ", ".join(column.split()[0] for column in columns)
    row_sum = f"row_sum BLOB GENERATED ALWAYS AS (row_sum({values})) STORED CHECK (row_sum IS row_sum({values}))"
    has_key = any(constraint.startswith("PRIMARY KEY") for constraint in constraints)
    parts = ", ".join([*columns, row_sum, *constraints])
    return f"CREATE TABLE {name} ({parts}) STRICT{', WITHOUT ROWID' if has_key else ''}"


def _row_sum(*values: Any) -> bytes:
    found = blake2b(digest_size=_SUM_BYTES)
    for value in values:
        # A blob may have a megabyte, whose `repr` would take longer than its write.
        column = value if isinstance(value, bytes) else repr(value).encode()
        found.update(b"%d %d " % (isinstance(value, bytes), len(column)))
        found.update(column)
    return found.digest()


class Database:
    """An open file. Any thread may use it. Transactions of several threads or processes follow each other."""

    def __init__(
        self, path: Path, schema: Schema, raises: CodedErrorClass, *, is_sole: bool = False, is_reader: bool = False
    ) -> None:
        """Open the file, or create it and its folder, for their owner only.

        A sole owner keeps other sole owners away until `close`, or until its process ends. A reader creates and
        changes no record, and needs no lock. Raise an error of `raises` for a file that cannot be used, and for a
        reader FileNotFoundError if there is nothing to read yet.
        """
        self.path = path
        self._schema, self._raises = schema, raises
        self._owner_lock = -1
        self._thread_lock, self._depth = threading.RLock(), 0
        if sqlite3.sqlite_version_info < SQLITE_LEAST:
            needed = ".".join(str(number) for number in SQLITE_LEAST[:2])
            raise self._error(f"this Python has SQLite {sqlite3.sqlite_version}, and ogpu needs {needed}", "too_new")
        try:
            self._prepare_file(is_sole=is_sole, is_reader=is_reader)
            self._connection = self._connected()
        except FileNotFoundError:
            raise
        except OSError as error:
            self._release()
            raise self._error(f"{path} cannot be used: {error.strerror}. Correct that first", "unwritable") from None
        except BaseException:
            self._release()
            raise
        try:
            with self._told():
                self._set_up(is_reader=is_reader)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the open database."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def lock(self, key: bytes) -> int:
        """Lock a key for this process, and return a descriptor whose closing releases it.

        The key is a hash, or random. Raise BlockingIOError while another descriptor has it.
        """
        try:
            return self._locked(_place_of(key))
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._error(f"{self.path} cannot be locked: {error.strerror}. Correct that", "unwritable") from None

    def is_locked(self, key: bytes) -> bool:
        """Return whether another descriptor has the lock of a key. Nothing is locked."""
        try:
            descriptor = self._open_locks()
        except FileNotFoundError:  # no process has locked any key yet, and a reader creates nothing
            return False
        try:
            found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_request(_place_of(key)))
        finally:
            os.close(descriptor)
        return bool(struct.unpack_from("h", found)[0] != fcntl.F_UNLCK)

    def close(self) -> None:
        """Close the file, and release it for another owner. Committed rows stay."""
        with self._thread_lock:
            self._connection.close()
            self._release()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Make the statements of the block one commit, which is on the disk when the block ends.

        An exception in the block undoes all its statements. A transaction inside another one is a part of it.
        """
        with self._thread_lock, self._told():
            if self._depth:
                yield self._connection
                return
            # IMMEDIATE takes the write lock at once: a transaction that read first could not get it later.
            self._connection.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # Some errors, a full disk for one, have ended the transaction already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the queries of the block read one state. Commits of other processes meanwhile do not change it."""
        with self._thread_lock, self._told():
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def execute(self, statement: str, *values: Any) -> int:
        """Execute one statement as a transaction, and return the number of changed rows."""
        with self.transaction() as connection:
            return connection.execute(statement, values).rowcount

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._thread_lock, self._told():
            return self._connection.execute(query, values).fetchall()

    # ------------------------------------------------------------------------------------------------------- opening

    def _prepare_file(self, *, is_sole: bool, is_reader: bool) -> None:
        if not is_reader:
            make_folder(self.path.parent)
        if is_sole:
            self._take_ownership()
        if not is_reader:
            # SQLite gives the two files beside it the mode of this one. An existing file is not opened here: closing
            # a descriptor of it would drop the locks that another connection of this process has (fcntl(2)).
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ONLY))
                sync_folder(self.path.parent)
        found = self.path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise self._error(f"{self.path} is no plain file of this user. Move it away", "unwritable")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise self._error(f"other users can read {self.path}. Run chmod 600 {self.path}", "not_private")

    def _take_ownership(self) -> None:
        try:
            self._owner_lock = self._locked(_OWNER_PLACE)
        except BlockingIOError:
            raise self._error(f"{self.path} is in use by another program. Stop that one first", "in_use") from None

    def _locked(self, place: int) -> int:
        """Lock a byte of the lock file, which has no content, and return the descriptor."""
        descriptor = self._open_locks(os.O_CREAT)
        try:
            # The lock of an open file description, not of a process: two of one process exclude each other as well.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_request(place))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open_locks(self, more_flags: int = 0) -> int:
        # A file of its own: closing a descriptor of the database would drop SQLite's locks (fcntl(2)).
        lock_path = self.path.with_name(self.path.name + _LOCK_SUFFIX)
        return os.open(lock_path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | more_flags, OWNER_ONLY)

    def _connected(self) -> sqlite3.Connection:
        # A reader too may have to undo a killed process's unfinished commit. `mode=ro` cannot.
        with self._told():
            return sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip

    def _set_up(self, *, is_reader: bool) -> None:
        execute = self._connection.execute
        self._connection.create_function("row_sum", -1, _row_sum, deterministic=True)
        if is_reader:
            execute("PRAGMA query_only = ON")
        # Before anything is written: a file of another program must stay as it is.
        is_new = self._is_new()
        if is_new and is_reader:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        if not is_reader:
            self._begin_wal()
            execute("PRAGMA synchronous = FULL")
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA cell_size_check = ON")
        execute(f"PRAGMA max_page_count = {self._schema.bytes_max // _PAGE_BYTES}")
        if is_new:
            self._create_tables()
        if not is_reader:
            self._require_undamaged()

    def _require_undamaged(self) -> None:
        """Check all pages and the sums of all rows, which takes about 2.5 µs a row."""
        problems = [text for (text,) in self._connection.execute("PRAGMA quick_check(1)")]
        if problems != ["ok"]:
            raise self._damaged(problems[0] if problems else "no answer to quick_check")

    def _is_new(self) -> bool:
        """Return whether the file has no tables yet. Raise an error for a file of another kind or version."""
        # One statement, so one state of the file: another process may be creating its tables.
        [(mark, version, table_count)] = self._connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
            "FROM pragma_application_id, pragma_user_version"
        )
        if (mark, version, table_count) == (0, 0, 0):
            return True
        if mark != self._schema.mark:
            raise self._error(f"{self.path} is no {self._schema.noun} of ogpu. Name another place", "unknown")
        if version != self._schema.version:
            which = "newer" if version > self._schema.version else "older"
            raise self._error(
                f"{self.path} was written by a {which} release, version {version} of its form, and this release reads "
                f"version {self._schema.version}. Install that release",
                "too_new" if which == "newer" else "too_old",
            )
        stored = self._connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql")
        if [statement for (statement,) in stored] != sorted(self._schema.statements):
            raise self._damaged("its tables are others than those of its version")
        return False

    def _begin_wal(self) -> None:
        deadline, mode = time.monotonic() + BUSY_SECONDS, ""
        while not mode:
            try:
                [(mode,)] = self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                # SQLite does not wait here, and another process may be creating the same file.
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)
        if mode != "wal":
            raise self._error(f"the file system of {self.path} cannot share memory. Use a local disk", "unwritable")

    def _create_tables(self) -> None:
        with self.transaction() as connection:
            # Another process may have been faster. Its transaction was whole before this one began.
            if self._is_new():
                for statement in self._schema.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {self._schema.mark}")
                connection.execute(f"PRAGMA user_version = {self._schema.version}")

    def _release(self) -> None:
        if self._owner_lock >= 0:
            os.close(self._owner_lock)
        self._owner_lock = -1

    # -------------------------------------------------------------------------------------------------------- errors

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Raise an error of the owner's class for each error of SQLite that no statement of ours caused."""
        try:
            yield
        except UnicodeDecodeError as error:
            # SQLite's own message quotes the damaged bytes of a table's statement.
            raise self._damaged("a table's statement is no text") from error
        except sqlite3.Error as error:
            told = self._told_error(error)
            if told is None:
                raise
            raise told from error

    def _told_error(self, error: sqlite3.Error) -> Exception | None:
        path = self.path
        match _primary_code(error):
            case sqlite3.SQLITE_FULL:
                return self._raises(
                    f"{path} cannot be written: the disk or the file's limit of {self._schema.bytes_max:,} bytes is "
                    "full. Make room, and repeat",
                    code="disk_full",
                )
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
                return self._damaged(str(error))
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return self._error(
                    f"another program has been writing {path} for {BUSY_SECONDS:.0f} seconds. Stop it, and repeat",
                    "busy",
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
                return self._error(f"{path} cannot be used: {error}. Correct its permissions", "unwritable")
            case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOLFS | sqlite3.SQLITE_PROTOCOL:
                return self._error(f"{path} cannot be used: {error}. Check its disk", "unwritable")
            case _:
                return None

    def _damaged(self, reason: str) -> Exception:
        return self._error(f"{self.path} is damaged ({reason}). {self._schema.remedy}", "damaged")

    def _error(self, text: str, what: str) -> Exception:
        return self._raises(text, code=f"{self._schema.noun}_{what}")


def _place_of(key: bytes) -> int:
    return _OWNER_PLACE + 1 + int.from_bytes(key[:_KEY_BYTES], "big")


def _lock_request(place: int) -> bytes:
    """Return the system's `struct flock` for a writer's lock of one byte."""
    return struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)


def _primary_code(error: sqlite3.Error) -> int:
    # An error of the Python module itself has no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & _PRIMARY_CODE
