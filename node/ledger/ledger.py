"""The ledger of one node, opened: database, tree of blocks, certificates of open rounds, preferred tip.

Invariant: when `open_ledger` returns, the tree holds the blocks that the last run of this node kept above its last
final block. `recovery` reads and changes nothing.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from consensus.certificates import CERTIFICATE, Certificate, verify_certificate
from consensus.events import Recovery
from consensus.headers import TrustedBlock
from consensus.signstate import SignState
from genesis.chain import VERSION, genesis_block_header, genesis_state, runtime_of
from genesis.parameters import CONSENSUS
from genesis.presets import load_spec
from genesis.spec import ChainSpec
from node.clock import Clock
from node.config import Paths
from node.durable import write_quickly
from node.errors import as_bad_input
from node.ledger.chain import Chain, open_chain
from node.ledger.storage import Storage
from node.ledger.trusted_point import TrustedPoint
from runtime.blocks.block import block_id
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import VerifySignature
from runtime.encoding.codec import DecodeError
from wallet import private_file

BLOCK_ID_BYTES = 32


# Block 0 of a specification: computed for a new database, and read from the database later.
# The computation decodes each address, encodes each account and hashes them all: seconds for 100,000 accounts, at every
# start. Invariant: the database's answer counts only for the same genesis and the same rules. Any other specification
# is computed again and compared, so a changed one is refused.
DIGEST_LAYOUT = 2  # raise it when `genesis_digest` or the stored data of block 0 changes its meaning
PROBE = "dev"


# Certificates of rounds that are not settled yet, kept over a restart.
# Invariant: a certificate is on disk when `add` returns, before a signature that relies on it. A damaged end of the
# file loses only the certificates there, since each reader of a certificate checks its signatures.
LENGTH = struct.Struct("<I")
FILE_BYTES_MAX = 64 * 1024 * 1024
RoundId = tuple[int, int, int]


class RoundLog:
    """The notarise and skip certificates above the last final round."""

    def __init__(self, path: Path) -> None:
        """Read the file. A damaged end is cut off: entries after it would be unreadable."""
        self._log_path = path
        self._kept_certificates: dict[RoundId, Certificate] = {}
        for certificate in _read_certificates(path):
            self._kept_certificates[_round_of(certificate)] = certificate
        if path.is_file() and path.read_bytes() != self._packed():
            private_file.replace(path, self._packed())

    def certificates(self) -> list[Certificate]:
        """Return all certificates, by epoch and round."""
        return [self._kept_certificates[round_key] for round_key in sorted(self._kept_certificates)]

    def add(self, certificate: Certificate) -> None:
        """Add and sync a certificate: after the votes that follow, this node may be the only one that holds it."""
        if _round_of(certificate) in self._kept_certificates:
            return
        self._kept_certificates[_round_of(certificate)] = certificate
        with self._log_path.open("ab") as file:
            file.write(_packed(certificate))
            file.flush()
            os.fsync(file.fileno())

    def forget_to(self, epoch: int, round_: int) -> None:
        """Drop certificates up to (epoch, round), which is final."""
        settled_key = (epoch, round_)
        self._kept_certificates = {
            round_key: certificate
            for round_key, certificate in self._kept_certificates.items()
            if round_key[:2] > settled_key
        }
        # No signature relies on an empty log, so emptying it need not wait for the disk.
        write_file = private_file.replace if self._kept_certificates else write_quickly
        write_file(self._log_path, self._packed())

    def _packed(self) -> bytes:
        return b"".join(map(_packed, self.certificates()))


def _round_of(certificate: Certificate) -> RoundId:
    return certificate.ballot.epoch, certificate.ballot.round, int(certificate.ballot.kind)


def _packed(certificate: Certificate) -> bytes:
    encoded = CERTIFICATE.encode(certificate)
    return LENGTH.pack(len(encoded)) + encoded


def _read_certificates(path: Path) -> list[Certificate]:
    if not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
        return []
    data = path.read_bytes()
    certificates: list[Certificate] = []
    start = 0
    while start + LENGTH.size <= len(data):
        end = start + LENGTH.size + LENGTH.unpack_from(data, start)[0]
        try:
            certificates.append(CERTIFICATE.decode(data[start + LENGTH.size : end]))
        except DecodeError:
            break  # after a damaged entry the place of the next one is unknown
        start = end
    return certificates


def open_noted_chain(path: Path, spec: ChainSpec, verify: VerifySignature) -> Chain:
    """Return the chain of a specification in the database at `path`; a new database gets its genesis block.

    Raise `NodeError` if the specification yields no block 0 (before any write), or belongs to another chain (after).
    """
    digest = genesis_digest(spec)
    # Before the database exists: a specification without a block 0 must not leave one behind.
    built_state = None if path.exists() else _state_of(spec)
    storage = Storage(path)
    try:
        genesis_id = storage.genesis_noted_for(digest)
        if genesis_id is not None:
            return Chain(storage, runtime_of(spec), CONSENSUS[spec.parameters], genesis_id, verify)
        chain = open_chain(storage, spec, _state_of(spec) if built_state is None else built_state, verify)
        storage.note_genesis_for(digest)
    except BaseException:
        storage.close()
        raise
    return chain


def genesis_digest(spec: ChainSpec) -> bytes:
    """Return 32 bytes over every input of block 0: the specification's genesis, and this program's reading of one.

    Names, boot nodes and properties do not affect block 0. The digest includes a small specification's block 0 under
    this program's rules: rules may change with or without a new version number.
    """
    probe_id = block_id(genesis_block_header(genesis_state(load_spec(PROBE))))
    if spec.patch is None:
        genesis_patch: object = [f"{raw_key.hex()}:{raw.hex()}" for raw_key, raw in sorted((spec.raw or {}).items())]
    else:
        genesis_patch = spec.patch
    rules = [DIGEST_LAYOUT, VERSION.spec_name, VERSION.spec_version, VERSION.transaction_version, probe_id.hex()]
    return blake2_256(json.dumps([rules, spec.chain_type, spec.parameters, genesis_patch], sort_keys=True).encode())


def _state_of(spec: ChainSpec) -> dict[bytes, bytes]:
    with as_bad_input(ValueError):
        return genesis_state(spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger room; `preference` is the file with the preferred tip."""

    chain: Chain
    trusted: TrustedPoint
    rounds: RoundLog
    preference: Path

    def close(self) -> None:
        """Release the database."""
        self.chain.storage.close()

    def remember_preference(self, tip_id: bytes) -> None:
        """Write the preferred tip, without waiting for the disk."""
        write_quickly(self.preference, tip_id)

    def recovery(self, sign_state: SignState) -> Recovery:
        """Return the state from which consensus starts again."""
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
        """Yield the certificates of the ends of past epochs."""
        parameters = self.chain.parameters
        last_epoch = parameters.epoch_of(self.chain.final.facts.height + 1) - 1
        for epoch in range(max(0, last_epoch - parameters.boundaries_kept + 1), last_epoch + 1):
            boundary = parameters.boundary(epoch)
            certificate = self.chain.storage.certificate_at(boundary)
            if certificate is not None and certificate[0] == boundary:
                yield CERTIFICATE.decode(certificate[1])

    def _open_rounds(self) -> Iterator[Certificate]:
        """Yield the kept certificates of rounds after the last final one that verify: the file may be damaged."""
        for certificate in self.rounds.certificates():
            epoch = self.chain.epochs(certificate.ballot.epoch)
            if epoch is not None and verify_certificate(
                certificate, epoch.validators, self.chain.genesis, signatures.verify_ed25519
            ):
                yield certificate


def open_ledger(
    paths: Paths,
    spec: ChainSpec,
    verify: VerifySignature,
    clock: Clock,
    checkpoint: TrustedBlock | None = None,
) -> Ledger:
    """Open the database, check that it may be trusted, and execute the blocks kept above it.

    Raise `NodeError` if that is impossible.
    """
    chain = open_noted_chain(paths.database, spec, verify)
    try:
        trusted = TrustedPoint(chain, spec, checkpoint)
        # Before any execution: a node whose trust has expired must not continue.
        trusted.judge(clock.now_ms())
        chain.restore(clock.now_ms())
    except BaseException:
        chain.storage.close()
        raise
    return Ledger(chain=chain, trusted=trusted, rounds=RoundLog(paths.rounds), preference=paths.preference)
