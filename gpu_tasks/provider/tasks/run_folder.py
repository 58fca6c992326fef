"""The files of a task in progress: the input, the states, the segments' trails, and the hashes before the first state.

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

    def __init__(self, base_path: Path, task: bytes, milestones_behind: int) -> None:
        """The folder is under `base_path`. The first write creates it."""
        self.path = base_path / f"{task.hex()}-{milestones_behind}"

    def input(self) -> bytes | None:
        """Return the sealed input."""
        return self._read_file("input")

    def keep_input(self, input_blob: bytes) -> None:
        """Keep the input while the task is worked on, because the store deletes old blobs."""
        self._write_file("input", input_blob)

    def earlier(self) -> tuple[bytes, ...]:
        """Return the hashes of the states before the first one here."""
        digest_bytes = self._read_file("earlier") or b""
        return tuple(
            digest_bytes[digest_start : digest_start + DIGEST_BYTES]
            for digest_start in range(0, len(digest_bytes), DIGEST_BYTES)
        )

    def keep_earlier(self, state_digests: Sequence[bytes]) -> None:
        """Keep the earlier hashes, even an empty list."""
        self._write_file("earlier", b"".join(state_digests))

    def state(self, state_index: int) -> bytes | None:
        """Return the state with an index."""
        return self._read_file(f"state-{state_index}")

    def keep_state(self, state_index: int, state: bytes) -> None:
        """Keep a state."""
        self._write_file(f"state-{state_index}", state)

    def trail(self, segment_index: int) -> bytes | None:
        """Return the trail of a segment."""
        return self._read_file(f"trail-{segment_index}")

    def keep_trail(self, segment_index: int, trail: bytes) -> None:
        """Keep the trail of a segment."""
        self._write_file(f"trail-{segment_index}", trail)

    def free_bytes(self) -> int:
        """Return the free bytes of the disk. Raise OSError if they are unknown."""
        existing_folder = self.path
        # The first write creates the folder, but its disk is known before.
        while not existing_folder.exists():
            existing_folder = existing_folder.parent
        return shutil.disk_usage(existing_folder).free

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _read_file(self, file_name: str) -> bytes | None:
        try:
            file_bytes = (self.path / file_name).read_bytes()
        except FileNotFoundError:
            return None
        kept_content = file_bytes[DIGEST_BYTES:]
        return kept_content if blake2_256(kept_content) == file_bytes[:DIGEST_BYTES] else None

    def _write_file(self, file_name: str, content_bytes: bytes) -> None:
        self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        # Not synced, unlike the journal: the hash detects a torn file, and losing it only costs work.
        draft_path = self.path / f"{file_name}.draft"
        with open(draft_path, "wb", opener=own_opener) as draft_file:
            draft_file.write(blake2_256(content_bytes) + content_bytes)
        draft_path.rename(self.path / file_name)


def remove_all(base_path: Path, task: bytes) -> None:
    """Delete the folders of a task."""
    for task_folder in list(base_path.glob(f"{task.hex()}-*")):
        shutil.rmtree(task_folder, ignore_errors=True)


def remove_others(base_path: Path, kept_tasks: Iterable[bytes]) -> None:
    """Delete the folders of all tasks except these."""
    kept_names = {task.hex() for task in kept_tasks}
    for task_folder in list(base_path.iterdir()) if base_path.exists() else []:
        if task_folder.name.partition("-")[0] not in kept_names:
            shutil.rmtree(task_folder, ignore_errors=True)
