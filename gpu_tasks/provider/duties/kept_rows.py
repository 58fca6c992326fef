"""The hashes of a chain's rows on disk, and which steps were sent: until others can not ask for them any more.

Always: a file is whole or is none, and lies on the disk before the commit leaves; what it holds follows from its
challenge, so a file that is lost or damaged costs computing it again, and nothing else. A step is noted before it is
sent, so who comes after a `kill -9` knows that it may be under way.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.provider.execution.chain_worker import ROWS, ChainRows
from gpu_tasks.workloads.matmul_chain.challenge import CHALLENGE, ChainChallenge
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from wallet.private_file import own_opener, sync_folder

DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A folder with one file for each challenge."""

    folder: Path

    def load(self, challenge: ChainChallenge) -> ChainRows | None:
        """What was kept of a challenge; None if nothing, or nothing that is whole."""
        try:
            data = self._path(challenge).read_bytes()
        except OSError:
            return None
        body = data[DIGEST_BYTES:]
        if blake2_256(body) != data[:DIGEST_BYTES]:
            return None
        try:
            found: ChainRows = ROWS.decode(body)
        except DecodeError:
            return None
        return found if len(found.digests) == DIGEST_BYTES * challenge.shape.rows else None

    def keep(self, challenge: ChainChallenge, rows: ChainRows) -> None:
        """Write it down, and have it on the disk; OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, body = self._path(challenge), ROWS.encode(rows)
        draft = path.with_suffix(".draft")
        with open(draft, "wb", opener=own_opener) as file:
            file.write(blake2_256(body) + body)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_folder(self.folder)

    def note_sent(self, challenge: ChainChallenge, step: str) -> None:
        """A step about a challenge is sent next; OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path(challenge, step).touch(mode=0o600)
        sync_folder(self.folder)

    def was_sent(self, challenge: ChainChallenge, step: str) -> bool:
        """Whether a step about it was sent, by this process or an earlier one."""
        return self._path(challenge, step).exists()

    def forget_all(self) -> None:
        """Remove everything: no roll call goes on. OSError."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)

    def _path(self, challenge: ChainChallenge, what: str = "rows") -> Path:
        return self.folder / f"{blake2_256(CHALLENGE.encode(challenge)).hex()}.{what}"
