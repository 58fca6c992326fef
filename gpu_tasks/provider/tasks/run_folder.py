"""The files of a task in progress: the input, the states, and the hashes before the first state.

Invariant: a read returns the written data or nothing. Each file begins with a hash of the rest, so a file torn by a
power cut is computed or fetched again. Promises are in the journal, not here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime.cryptography.hashing import blake2_256
from wallet.private_file import own_opener

FOLDER_MODE = 0o700
DIGEST_BYTES = 32


class RunFolder:
    """The files of one leg of a task."""

    def __init__(self, base: Path, task: bytes, behind: int) -> None:
        """The folder is under `base`. The first write creates it."""
        self.path = base / f"{task.hex()}-{behind}"

    def input(self) -> bytes | None:
        """Return the sealed input."""
        return self._read("input")

    def keep_input(self, blob: bytes) -> None:
        """Keep the input while the task is worked on, because the store deletes old blobs."""
        self._write("input", blob)

    def earlier(self) -> tuple[bytes, ...]:
        """Return the hashes of the states before the first one here."""
        data = self._read("earlier") or b""
        return tuple(data[place : place + DIGEST_BYTES] for place in range(0, len(data), DIGEST_BYTES))

    def keep_earlier(self, digests: Sequence[bytes]) -> None:
        """Keep the earlier hashes, even an empty list."""
        self._write("earlier", b"".join(digests))

    def state(self, index: int) -> bytes | None:
        """Return the state with an index."""
        return self._read(f"state-{index}")

    def keep_state(self, index: int, state: bytes) -> None:
        """Keep a state."""
        self._write(f"state-{index}", state)

    def free_bytes(self) -> int:
        """Return the free bytes of the disk. Raise OSError if they are unknown."""
        folder = self.path
        # The first write creates the folder, but its disk is known before.
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _read(self, name: str) -> bytes | None:
        try:
            data = (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        kept = data[DIGEST_BYTES:]
        return kept if blake2_256(kept) == data[:DIGEST_BYTES] else None

    def _write(self, name: str, data: bytes) -> None:
        self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        # Not synced, unlike the journal: the hash detects a torn file, and losing it only costs work.
        draft = self.path / f"{name}.draft"
        with open(draft, "wb", opener=own_opener) as file:
            file.write(blake2_256(data) + data)
        draft.rename(self.path / name)


def remove_all(base: Path, task: bytes) -> None:
    """Delete the folders of a task."""
    for folder in list(base.glob(f"{task.hex()}-*")):
        shutil.rmtree(folder, ignore_errors=True)


def remove_others(base: Path, tasks: Iterable[bytes]) -> None:
    """Delete the folders of all tasks except these."""
    kept = {task.hex() for task in tasks}
    for folder in list(base.iterdir()) if base.exists() else []:
        if folder.name.partition("-")[0] not in kept:
            shutil.rmtree(folder, ignore_errors=True)
