"""Chains over real databases with Alice as the only validator, and her blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from consensus.certificates import Certificate, make_certificate
from consensus.events import Build, CertifiedRef
from genesis import dev_accounts
from genesis.chain import genesis_state, runtime_of
from genesis.presets import load_spec
from node.clock import Clock
from node.duty.author import Author
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.ledger.chain import Chain, ExecutedBlock, open_chain
from node.ledger.storage import Storage
from node.pool.pooled import PooledExtrinsic
from node.pool.transaction_pool import Held
from node.pool.verifier import Claim
from runtime.blocks.block import BLOCK, Block
from runtime.blocks.extrinsic import Extra, decode_extrinsic
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from simulation.chains.extrinsics import ed25519, signed_extrinsic

SPEC = load_spec("dev")
FIRST_SLOT = 1_700_000_000


class ListedPool:
    """A pool that offers the given transactions, in order."""

    def __init__(self) -> None:
        self.raws: list[bytes] = []
        self.dropped: list[str] = []

    def ready(self) -> Iterator[PooledExtrinsic]:
        for number, raw in enumerate(self.raws):
            yield PooledExtrinsic(b"%d" % number, raw, b"", 0, 0, 0)

    def held(self, extrinsic_hash: bytes) -> Held:
        """Return a decoded extrinsic without any signature check."""
        extrinsic = decode_extrinsic(runtime_of(SPEC), self.raws[int(extrinsic_hash)])
        return Held(extrinsic, Claim(Scheme.ED25519, b"", b"", b""))

    def drop_invalid(self, extrinsic_hash: bytes, reason: str) -> None:
        del extrinsic_hash
        self.dropped.append(reason)


def no_inherents(bound: Bound) -> Iterable[Call]:
    """Nothing to attach."""
    del bound
    return ()


def open_at(path: Path) -> Chain:
    """The development chain in the database at `path`."""
    storage = Storage(path / "db", free_bytes_floor=0)
    return open_chain(storage, SPEC, genesis_state(SPEC), signatures.verify)


def now_of(slot: int) -> int:
    """A time within a slot, in ms."""
    return slot * 1_000 + 10


class Maker:
    """Alice, who makes blocks on a separate chain."""

    def __init__(self, path: Path) -> None:
        self.chain = open_at(path)
        self.session = KeyPair.from_seed(dev_accounts.key_seed("Alice", dev_accounts.SESSION))
        vrf = KeyPair.from_seed(dev_accounts.key_seed("Alice", dev_accounts.VRF))
        file = SignStateFile.create(path / "sign-state", self.chain.genesis, self.session.public)
        self.key = SigningKey(self.session, file)
        self.validator = ValidatorKeys(self.chain.genesis, self.chain.epochs, [self.key], [vrf])
        self.pool = ListedPool()
        self.author = Author(
            chain=self.chain,
            validator_keys=self.validator,
            transaction_pool=self.pool,  # type: ignore[arg-type]  # it offers what the test says
            verify=signatures.verify,
            clock=Clock(),
            inherents=no_inherents,
        )
        self.slot = FIRST_SLOT

    def make(
        self, parent: bytes | None = None, *extrinsics: bytes, final_ref: CertifiedRef | None = None
    ) -> ExecutedBlock:
        """The next slot's block on `parent` (default: the last final one)."""
        self.slot += 1
        parent = parent or self.chain.final.facts.id
        height = self.chain[parent].facts.height + 1
        self.pool.raws = list(extrinsics)
        epoch = self.chain.parameters.epoch_of(height)
        facts = self.author.build(Build(self.slot, parent, height, epoch, final_ref, heartbeat=True))
        assert facts is not None
        return self.chain[facts.id]

    def certify(self, block: ExecutedBlock, round_: int = 1) -> Certificate:
        """Alice's final vote, which is the whole stake's."""
        epoch = self.chain.epochs(self.chain.parameters.epoch_of(block.facts.height))
        assert epoch is not None
        ballot = Ballot(BallotKind.FINALISE, epoch.validators.epoch, round_, block.facts.height, block.facts.id)
        payload = ballot_payload(self.chain.genesis, ballot)
        signature = signatures.sign(Scheme.ED25519, self.session.public, self.session.secret, payload)
        return make_certificate(ballot, epoch.validators, {self.session.public: signature})

    def transfer(self, call: Call, nonce: int, tip: int = 0) -> bytes:
        """Return a call signed by Alice's provider key, which is a separate account."""
        seed = dev_accounts.key_seed("Alice", dev_accounts.PROVIDER)
        public, secret = signatures.keypair_from_seed(Scheme.ED25519, seed)
        chain, extra = self.chain, Extra(nonce=nonce, tip=tip)
        return signed_extrinsic(chain.runtime, chain.genesis, call, extra, public, ed25519(public, secret))


def as_block(executed: ExecutedBlock) -> Block:
    """Return its block."""
    return Block(executed.header, executed.extrinsics)


def as_bytes(executed: ExecutedBlock) -> bytes:
    """Return its bytes as peers send them."""
    return BLOCK.encode(as_block(executed))
