"""What a machine keeps of a task on its disk while it works on it: the input, the states, the hashes before the first.

Always: what is read is what was written, or nothing: each file begins with the hash of the rest, so that one that a
power cut tore is computed or fetched again. Nothing here is promised to anybody; promises are in the journal.
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
    """One leg of one task."""

    def __init__(self, base: Path, task: bytes, behind: int) -> None:
        """Under `base`; made when something is first put into it."""
        self.path = base / f"{task.hex()}-{behind}"

    def input(self) -> bytes | None:
        """The sealed input."""
        return self._read("input")

    def keep_input(self, blob: bytes) -> None:
        """Keep it for as long as the task is worked on: a store forgets."""
        self._write("input", blob)

    def earlier(self) -> tuple[bytes, ...]:
        """The hashes of the states before the first one here."""
        data = self._read("earlier") or b""
        return tuple(data[place : place + DIGEST_BYTES] for place in range(0, len(data), DIGEST_BYTES))

    def keep_earlier(self, digests: Sequence[bytes]) -> None:
        """Keep them; none are kept as none."""
        self._write("earlier", b"".join(digests))

    def state(self, index: int) -> bytes | None:
        """The state at s(index)."""
        return self._read(f"state-{index}")

    def keep_state(self, index: int, state: bytes) -> None:
        """Keep it."""
        self._write(f"state-{index}", state)

    def free_bytes(self) -> int:
        """What the disk has room for; OSError if that cannot be asked."""
        folder = self.path
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def remove(self) -> None:
        """Forget all of it."""
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
        draft = self.path / f"{name}.draft"
        with open(draft, "wb", opener=own_opener) as file:
            file.write(blake2_256(data) + data)
        draft.rename(self.path / name)


def remove_all(base: Path, task: bytes) -> None:
    """Remove the folders of one task."""
    for folder in list(base.glob(f"{task.hex()}-*")):
        shutil.rmtree(folder, ignore_errors=True)


def remove_others(base: Path, tasks: Iterable[bytes]) -> None:
    """Remove the folders of all tasks but these."""
    kept = {task.hex() for task in tasks}
    for folder in list(base.iterdir()) if base.exists() else []:
        if folder.name.partition("-")[0] not in kept:
            shutil.rmtree(folder, ignore_errors=True)
