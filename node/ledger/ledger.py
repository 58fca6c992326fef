"""The ledger of one node, opened: database, tree of blocks, certificates of open rounds, preferred tip.

What always holds: once `open_ledger` returns, the tree holds what the last life of this node kept above its last final
block; `recovery` reads and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from consensus.certificates import CERTIFICATE, Certificate, verify_certificate
from consensus.events import Recovery
from consensus.headers import TrustedBlock
from consensus.signstate import SignState
from genesis.spec import ChainSpec
from node.clock import Clock
from node.config import Paths
from node.durable import write_quickly
from node.ledger.chain import Chain
from node.ledger.known_genesis import open_noted_chain
from node.ledger.round_log import RoundLog
from node.ledger.trusted_point import TrustedPoint
from runtime.cryptography import signatures
from runtime.cryptography.signatures import VerifySignature

BLOCK_ID_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger room; `preference` is the file that remembers the preferred tip."""

    chain: Chain
    trusted: TrustedPoint
    rounds: RoundLog
    preference: Path

    def close(self) -> None:
        """Release the database."""
        self.chain.storage.close()

    def remember_preference(self, tip: bytes) -> None:
        """Write the preferred tip, without waiting for the disk."""
        write_quickly(self.preference, tip)

    def recovery(self, sign_state: SignState) -> Recovery:
        """What consensus starts from again."""
        return Recovery(
            final=self.chain.final.facts,
            certificate=self.chain.final_certificate,
            blocks=[block.facts for block in self.chain.above_final()],
            sign_state=sign_state,
            preference=self._preferred(),
            boundaries=self._boundaries(),
            open_rounds=self._open_rounds(),
            silent_below=self.trusted.height,
        )

    def _preferred(self) -> bytes | None:
        try:
            return self.preference.read_bytes()[:BLOCK_ID_BYTES]
        except FileNotFoundError:
            return None

    def _boundaries(self) -> Iterator[Certificate]:
        """Certificates of the ends of past epochs."""
        parameters = self.chain.parameters
        last = parameters.epoch_of(self.chain.final.facts.height + 1) - 1
        for epoch in range(max(0, last - parameters.boundaries_kept + 1), last + 1):
            boundary = parameters.boundary(epoch)
            found = self.chain.storage.certificate_at(boundary)
            if found is not None and found[0] == boundary:
                yield CERTIFICATE.decode(found[1])

    def _open_rounds(self) -> Iterator[Certificate]:
        """Kept certificates of rounds after the last final one, those that verify: the file may be damaged."""
        for certificate in self.rounds.certificates():
            epoch = self.chain.epochs(certificate.ballot.epoch)
            if epoch is not None and verify_certificate(
                certificate, epoch.validators, self.chain.genesis, signatures.verify_ed25519
            ):
                yield certificate


def open_ledger(
    paths: Paths, spec: ChainSpec, verify: VerifySignature, clock: Clock, checkpoint: TrustedBlock | None = None
) -> Ledger:
    """Open the database, see that it may be gone on from, execute what is kept above it.  Raises `NodeError`."""
    chain = open_noted_chain(paths.database, spec, verify)
    try:
        trusted = TrustedPoint(chain, spec, checkpoint)
        trusted.judge(clock.now_ms())
        chain.restore(clock.now_ms())
    except BaseException:
        chain.storage.close()
        raise
    return Ledger(chain=chain, trusted=trusted, rounds=RoundLog(paths.rounds), preference=paths.preference)
