"""A device's work at a roll call on disk, with the hashes of its rows, from before the proof until its claim is over.

Invariants:

* A file is complete or invalid, and is on the disk before the proof is sent. Its content follows from its challenge, so
  a lost or damaged file only costs computing it again.
* The journal notes a proof before it is sent. After a `kill -9` the next process reads that it may be in transit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from durable.database import Database
from gpu_tasks.provider.execution.chain_worker import ChainRows
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError, codec, struct
from wallet.private_file import replace

DIGEST_BYTES = 32
ROWS_SUFFIX = ".rows"


@struct
class ComputedChain:
    """A computed chain: its work, and the hashes of all rows."""

    challenge: ChainChallenge
    rows: ChainRows


_CHAIN = codec(ComputedChain)


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A folder with the chain of each claim, and the journal's notes about sent proofs."""

    folder: Path
    database: Database

    def load(self, claim_id: bytes, seed: bytes) -> ComputedChain | None:
        """Return a claim's chain; None if it is missing, damaged, or of another seed."""
        try:
            content = self._path(claim_id).read_bytes()
        except OSError:
            return None
        chain_bytes = content[DIGEST_BYTES:]
        if blake2_256(chain_bytes) != content[:DIGEST_BYTES]:
            return None
        try:
            chain: ComputedChain = _CHAIN.decode(chain_bytes)
        except DecodeError:
            return None
        # In another branch of the chain the roll call has another seed, and the claim the same id.
        if chain.challenge.seed != seed or len(chain.rows.digests) != DIGEST_BYTES * chain.challenge.shape.rows:
            return None
        return chain

    def keep(self, claim_id: bytes, chain: ComputedChain) -> None:
        """Write a claim's chain to the disk. Raise OSError on failure."""
        chain_bytes = _CHAIN.encode(chain)
        replace(self._path(claim_id), blake2_256(chain_bytes) + chain_bytes)

    def note_sent(self, claim_id: bytes) -> None:
        """Note that the proof of a claim is sent next. Raise JournalError on failure."""
        self.database.execute("INSERT INTO sent_proofs (claim) VALUES (?) ON CONFLICT (claim) DO NOTHING", claim_id)

    def was_sent(self, claim_id: bytes) -> bool:
        """Return True if this process or an earlier one sent the proof of a claim."""
        return bool(self.database.rows("SELECT 1 FROM sent_proofs WHERE claim = ?", claim_id))

    def claims(self) -> list[bytes]:
        """Return the claims with rows or notes. Raise OSError if the folder cannot be read."""
        names = {path.stem for path in self.folder.iterdir()} if self.folder.is_dir() else set()
        sent = {claim_id for (claim_id,) in self.database.rows("SELECT claim FROM sent_proofs")}
        return sorted(sent | {bytes.fromhex(name) for name in names if _is_claim(name)})

    def forget(self, claim_id: bytes) -> None:
        """Remove all of a claim. Raise OSError or JournalError on failure."""
        # The rows last: a note without them would be one of a proof that cannot be delivered.
        self.database.execute("DELETE FROM sent_proofs WHERE claim = ?", claim_id)
        self._path(claim_id).unlink(missing_ok=True)

    def _path(self, claim_id: bytes) -> Path:
        return self.folder / f"{claim_id.hex()}{ROWS_SUFFIX}"


def _is_claim(name: str) -> bool:
    return len(name) == 2 * DIGEST_BYTES and set(name) <= set("0123456789abcdef")
