"""The hashes of a chain's rows on disk: from before its root is committed to until others could not ask for them.

Always: a file is whole or is none, and lies on the disk before the commit leaves; what it holds follows from its
challenge, so a file that is lost or damaged costs computing it again, and nothing else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.provider.execution.chain_worker import ROWS, ChainRows
from gpu_tasks.workloads.matmul_chain.challenge import CHALLENGE, ChainChallenge
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from wallet.private_file import sync_folder

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
        with draft.open("wb") as file:
            file.write(blake2_256(body) + body)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_folder(self.folder)

    def forget_all_but(self, challenges: list[ChainChallenge]) -> None:
        """Remove what belongs to no roll call that goes on."""
        kept = {self._path(challenge).name for challenge in challenges}
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if path.name not in kept:
                    path.unlink(missing_ok=True)

    def _path(self, challenge: ChainChallenge) -> Path:
        return self.folder / f"{blake2_256(CHALLENGE.encode(challenge)).hex()}.rows"
