"""The outbox of a user's programs: what they sent or promised, and what came of it, in one database of a folder.

Invariants:

* A row is on the disk before any node, store or provider gets what it describes. After a kill the next program finds
  each extrinsic that may be on its way, and sends no second one.
* One process at a time holds a record, by a lock that ends with the process. Other processes may read it.
* Rows that a step changes together are one commit.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from durable.database import Database, Schema, checked_table
from runtime.cryptography.hashing import blake2_256
from wallet.client import Prepared
from wallet.errors import WalletError

FILE = "outbox.db"
BYTES_MAX = 1024**3
NOTES_MAX = 10_000

SCHEMA = Schema(
    noun="record",
    version=1,
    statements=(
        # Signed extrinsics whose fate is not certain.
        checked_table(
            "sent",
            [
                "hash BLOB NOT NULL", "extrinsic BLOB NOT NULL", "call BLOB NOT NULL", "signer BLOB NOT NULL",
                "nonce INTEGER NOT NULL", "born INTEGER NOT NULL", "dies INTEGER NOT NULL", "birth BLOB NOT NULL",
            ],
            "PRIMARY KEY (hash)",
        ),
        # Postings of units and tasks: each part is one extrinsic, and each unit answers one line or prompt.
        checked_table(
            "parts",
            [
                "posting BLOB NOT NULL", "number INTEGER NOT NULL", "extrinsic BLOB NOT NULL",
                "nonce INTEGER NOT NULL", "signed_at INTEGER NOT NULL", "expires_at INTEGER NOT NULL",
                "first_number INTEGER NOT NULL", "block INTEGER", "told TEXT NOT NULL",
            ],
            "PRIMARY KEY (posting, number)",
        ),
        checked_table(
            "posted_units",
            [
                "posting BLOB NOT NULL", "part INTEGER NOT NULL", "position INTEGER NOT NULL",
                "place INTEGER NOT NULL", "input_root BLOB NOT NULL", "unit BLOB NOT NULL",
            ],
            "PRIMARY KEY (posting, part, position)",
            "FOREIGN KEY (posting, part) REFERENCES parts ON DELETE CASCADE",
        ),
        # Runs of files: each unit answers `requests` requests of the file, from the one with the number `first` on.
        checked_table(
            "runs",
            [
                "name BLOB NOT NULL", "plan TEXT NOT NULL", "output_end INTEGER NOT NULL DEFAULT 0",
                "errors_end INTEGER NOT NULL DEFAULT 0", "fees_beside INTEGER NOT NULL DEFAULT 0",
                "given_up INTEGER NOT NULL DEFAULT 0", "stopped TEXT", "is_cancel_asked INTEGER NOT NULL DEFAULT 0",
                "posted_at INTEGER", "ended_at INTEGER", "stopped_at INTEGER", "written_at INTEGER",
            ],
            "PRIMARY KEY (name)",
        ),
        checked_table(
            "run_units",
            [
                "run BLOB NOT NULL REFERENCES runs", "place INTEGER NOT NULL", "first INTEGER NOT NULL",
                "requests INTEGER NOT NULL", "unit BLOB", "locked INTEGER NOT NULL DEFAULT 0",
                "prepaid INTEGER NOT NULL DEFAULT 0", "fees INTEGER", "paid INTEGER NOT NULL DEFAULT 0",
                "returned INTEGER NOT NULL DEFAULT 0", "answered INTEGER", "failed INTEGER",
                "is_claimed INTEGER NOT NULL DEFAULT 0", "refuted INTEGER",
            ],
            "PRIMARY KEY (run, place)",
        ),
        # The submitted members of arrays of tasks.
        checked_table(
            "members",
            ["array BLOB NOT NULL", "number INTEGER NOT NULL", "task BLOB NOT NULL"],
            "PRIMARY KEY (array, number)",
        ),
        # The parts of images that a store took.
        checked_table(
            "stored_parts",
            [
                "image BLOB NOT NULL", "number INTEGER NOT NULL", "blob BLOB NOT NULL", "root BLOB NOT NULL",
                "began_at REAL NOT NULL",
            ],
            "PRIMARY KEY (image, number)",
        ),
    ),
    remedy="See the sent calls with `ogpu-wallet history`, and the posted work with `ogpu unit list` and `ogpu ps`, "
    "before you move the file away",
    bytes_max=BYTES_MAX,
)  # fmt: skip


class RecordError(WalletError):
    """The outbox, or a record of it, cannot be used. The text gives the next step."""


class RecordBusyError(RecordError):
    """Another process holds the record."""


class OutboxFile(Database):
    """The open database of a folder. Several processes of the user may have it open."""

    def __init__(self, folder: Path, *, is_reader: bool = False) -> None:
        """Open the outbox of a folder, or create it. Raise RecordError if it cannot be used."""
        super().__init__(folder.expanduser() / FILE, SCHEMA, RecordError, is_reader=is_reader)

    @classmethod
    @contextlib.contextmanager
    def looked(cls, place: Path | OutboxFile) -> Iterator[OutboxFile | None]:
        """Yield an outbox for reading: an open one, or that of a folder; None if the folder has none."""
        if isinstance(place, OutboxFile):
            yield place
            return
        try:
            outbox = cls(place, is_reader=True)
        except FileNotFoundError:
            yield None
            return
        with outbox:
            yield outbox


def record_name(*identity: bytes) -> bytes:
    """Return the name of a record with an identity."""
    # The lengths keep two lists of parts with the same concatenation apart.
    return blake2_256(b"".join(len(part).to_bytes(8, "little") + part for part in identity))


@dataclass(slots=True)
class HeldRecord:
    """A record that one process holds until it leaves the context."""

    kind: ClassVar[bytes]
    """Keeps the locks of records with the same name apart."""
    outbox: OutboxFile
    name: bytes
    _lock: int = field(default=-1, kw_only=True)
    _is_guest: bool = field(default=False, kw_only=True)
    """True if another owner closes the outbox."""

    @classmethod
    def held(cls, place: Path | OutboxFile, name: bytes, busy: str) -> Self:
        """Hold the record of a folder's outbox, or of an open one, and load it.

        Raise RecordBusyError with `busy` if another process holds it.
        """
        is_guest = isinstance(place, OutboxFile)
        record = cls(place if isinstance(place, OutboxFile) else OutboxFile(place), name, _is_guest=is_guest)
        try:
            record._lock = record.outbox.lock(blake2_256(cls.kind + name))
            record._load()
        except BlockingIOError:
            record.close()
            raise RecordBusyError(busy) from None
        except BaseException:
            record.close()
            raise
        return record

    def __enter__(self) -> Self:
        """Return the record."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the record for other processes."""
        self.close()

    def close(self) -> None:
        """Release the record. Its rows stay."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1
        if not self._is_guest:
            self.outbox.close()

    def _load(self) -> None:
        """Read the rows of the record."""


class SentNotes:
    """The signed extrinsics of one chain that may be on their way, until their fate is certain."""

    def __init__(self, folder: Path, genesis_hash: bytes) -> None:
        """Create it; the folder need not exist."""
        # A folder for each chain: who moves the file away gives up the notes of no other chain.
        self.folder = folder / genesis_hash.hex()

    @property
    def path(self) -> Path:
        """The file of the notes."""
        return self.folder / FILE

    @contextlib.contextmanager
    def noted(self, prepared: Prepared) -> Iterator[None]:
        """Write a note, and hold it inside the block; it stays until `forget`."""
        with OutboxFile(self.folder) as outbox:
            try:
                lock = outbox.lock(prepared.hash)
            except BlockingIOError:
                raise WalletError(
                    f"another program is sending the extrinsic 0x{prepared.hash.hex()}", code="sent_elsewhere"
                ) from None
            try:
                # The note exists already if this call finishes an earlier try.
                outbox.execute(
                    "INSERT OR IGNORE INTO sent VALUES (?, ?, ?, ?, ?, ?, ?, ?)", prepared.hash, prepared.extrinsic,
                    prepared.call, prepared.signer, prepared.nonce, prepared.born, prepared.dies, prepared.birth,
                )  # fmt: skip
                yield
            finally:
                os.close(lock)

    def unsettled(self, account: bytes) -> list[Prepared]:
        """Return this account's noted extrinsics that no process is sending, lowest nonce first."""
        with OutboxFile.looked(self.folder) as outbox:
            if outbox is None:
                return []
            hashes = outbox.rows("SELECT hash FROM sent WHERE signer = ? ORDER BY nonce LIMIT ?", account, NOTES_MAX)
            # A process deletes its note before it releases the lock, so a free note that is still there is unsettled.
            free = [each for (each,) in hashes if not outbox.is_locked(each)]
            return [prepared for each in free for prepared in _prepared(outbox, each)]

    def forget(self, prepared: Prepared) -> None:
        """Delete a note, whose extrinsic's fate is certain."""
        with OutboxFile(self.folder) as outbox:
            outbox.execute("DELETE FROM sent WHERE hash = ?", prepared.hash)


def _prepared(outbox: OutboxFile, extrinsic_hash: bytes) -> Iterator[Prepared]:
    columns = "extrinsic, call, signer, nonce, born, dies, birth"
    for row in outbox.rows(f"SELECT {columns} FROM sent WHERE hash = ?", extrinsic_hash):  # noqa: S608  # our words
        yield Prepared(*row)
