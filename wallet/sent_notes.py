"""What was signed and may be on its way: on the disk before it is sent, until its fate is known for sure.

Invariants: a note is there before any node sees the extrinsic; one process at a time holds a note, so what another
process is sending right now is nobody else's to finish. Looking at a note locks it for a moment, and so does taking it:
processes do either one after another.
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
        """The folder need not be there yet."""
        self.folder = folder / genesis_hash.hex()

    @contextlib.contextmanager
    def noted(self, prepared: Prepared) -> Iterator[None]:
        """Write a note, and hold it meanwhile; it stays until `forget`."""
        path = self.path_of(prepared)
        with contextlib.ExitStack() as holding:
            with self._alone():
                with contextlib.suppress(FileExistsError):
                    write_new(path, _dump(prepared))
                is_ours = holding.enter_context(_held(path))
            if not is_ours:
                raise WalletError(f"another program is sending the extrinsic 0x{prepared.hash.hex()} right now")
            yield

    def unsettled(self, account: bytes) -> list[Prepared]:
        """What this account signed and nobody is sending now, lowest nonce first; WalletError for a damaged note."""
        found = []
        with self._alone():
            for path in sorted(self.folder.glob("*.json"))[:NOTES_MAX]:
                with contextlib.suppress(FileNotFoundError), _held(path) as is_ours:
                    if is_ours and (prepared := _load(path)).signer == account:
                        found.append(prepared)
        return sorted(found, key=lambda prepared: prepared.nonce)

    def forget(self, prepared: Prepared) -> None:
        """Its fate is known."""
        self.path_of(prepared).unlink(missing_ok=True)

    def path_of(self, prepared: Prepared) -> Path:
        """Where its note is."""
        return self.folder / f"{prepared.hash.hex()}.json"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process looks at notes or takes one. WalletError if the folder cannot be made."""
        try:
            make_folder(self.folder)
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise KeyFileError(f"{self.folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[bool]:
    """Return whether this process could take the note for itself; it has it until the block ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _dump(prepared: Prepared) -> bytes:
    fields = {
        "extrinsic": prepared.extrinsic.hex(),
        "call": prepared.call.hex(),
        "signer": prepared.signer.hex(),
        "nonce": prepared.nonce,
        "born": prepared.born,
        "dies": prepared.dies,
        "birth": prepared.birth.hex(),
    }
    return json.dumps(fields, indent=2).encode() + b"\n"


def _load(path: Path) -> Prepared:
    try:
        fields = json.loads(read_private(path, NOTE_BYTES_MAX))
        parts = [bytes.fromhex(fields[name]) for name in ("extrinsic", "call", "signer", "birth")]
        nonce, born, dies = (int(fields[name]) for name in ("nonce", "born", "dies"))
        return Prepared(parts[0], parts[1], parts[2], nonce, born, dies, parts[3])
    except (KeyFileError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise WalletError(
            f"{path} notes an extrinsic that may have been sent, and cannot be read ({error}): find out what became "
            "of it before you remove the file"
        ) from None
