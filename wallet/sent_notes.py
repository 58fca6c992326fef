"""Signed extrinsics that may be on their way: on disk before they are sent, until their fate is certain.

Invariants: a note exists before any node sees the extrinsic. One process at a time holds a note, so no other process
finishes an extrinsic that one is sending. Reading and taking a note lock the folder for a moment, so processes do
either one after another.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from wallet.client import Prepared
from wallet.errors import KeyFileError, WalletError
from wallet.private_file import make_folder, read_private, write_new

NOTE_BYTES_MAX = 8 * 1024 * 1024
NOTES_MAX = 10_000


class SentNotes:
    """The notes of one chain in a folder."""

    def __init__(self, folder: Path, genesis_hash: bytes) -> None:
        """Create it; the folder need not exist."""
        self.folder = folder / genesis_hash.hex()

    @contextlib.contextmanager
    def noted(self, prepared: Prepared) -> Iterator[None]:
        """Write a note, and hold it inside the block; it stays until `forget`."""
        note_path = self.path_of(prepared)
        with contextlib.ExitStack() as held_locks:
            with self._alone():
                # The note exists already if this call finishes an earlier try.
                with contextlib.suppress(FileExistsError):
                    write_new(note_path, _dump(prepared))
                # Under the folder's lock, or `unsettled` of another process could take the note before its writer does.
                is_taken = held_locks.enter_context(_held(note_path))
            if not is_taken:
                raise WalletError(
                    f"another program is sending the extrinsic 0x{prepared.hash.hex()}", code="sent_elsewhere"
                )
            yield

    def unsettled(self, account: bytes) -> list[Prepared]:
        """Return this account's noted extrinsics that no process is sending, lowest nonce first.

        Raise WalletError if a note is damaged.
        """
        own_extrinsics = []
        with self._alone():
            for note_path in sorted(self.folder.glob("*.json"))[:NOTES_MAX]:
                # Another process may have deleted the note since the listing.
                with contextlib.suppress(FileNotFoundError), _held(note_path) as is_taken:
                    if is_taken and (prepared := _load(note_path)).signer == account:
                        own_extrinsics.append(prepared)
        return sorted(own_extrinsics, key=lambda prepared: prepared.nonce)

    def forget(self, prepared: Prepared) -> None:
        """Delete a note, whose extrinsic's fate is certain."""
        self.path_of(prepared).unlink(missing_ok=True)

    def path_of(self, prepared: Prepared) -> Path:
        """Return the path of a note."""
        return self.folder / f"{prepared.hash.hex()}.json"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder's lock for reading and taking notes. Raise WalletError if the folder cannot be created."""
        try:
            make_folder(self.folder)
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise KeyFileError(f"{self.folder} cannot be used: {error.strerror}", code="file_unusable") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _held(note_path: Path) -> Iterator[bool]:
    """Yield whether this process could take the note; it holds it until the block ends."""
    descriptor = os.open(note_path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        try:
            # The system releases the lock when its process ends, so a crash leaves no note locked.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _dump(prepared: Prepared) -> bytes:
    note_fields = {
        "extrinsic": prepared.extrinsic.hex(),
        "call": prepared.call.hex(),
        "signer": prepared.signer.hex(),
        "nonce": prepared.nonce,
        "born": prepared.born,
        "dies": prepared.dies,
        "birth": prepared.birth.hex(),
    }
    return json.dumps(note_fields, indent=2).encode() + b"\n"


def _load(note_path: Path) -> Prepared:
    try:
        note_fields = json.loads(read_private(note_path, NOTE_BYTES_MAX))
        byte_fields = [
            bytes.fromhex(note_fields[field_name]) for field_name in ("extrinsic", "call", "signer", "birth")
        ]
        nonce, birth_height, death_height = (int(note_fields[field_name]) for field_name in ("nonce", "born", "dies"))
        return Prepared(
            byte_fields[0], byte_fields[1], byte_fields[2], nonce, birth_height, death_height, byte_fields[3]
        )
    except (KeyFileError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise WalletError(
            f"{note_path} records an extrinsic that may have been sent, and cannot be read ({error}). Find that "
            "extrinsic "
            "before you remove the file",
            code="note_damaged",
        ) from None
