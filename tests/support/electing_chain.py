"""A chain over a real database with elections: an absent validator is not elected again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from block_maker import FIRST_SLOT, ListedPool, no_inherents
from consensus.certificates import make_certificate
from consensus.events import Build, CertifiedRef
from consensus.headers import proposer
from genesis import dev_accounts
from genesis.chain import genesis_state
from genesis.presets import preset, validator_names
from node.clock import Clock
from node.duty.author import Author
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.ledger.chain import Chain, ExecutedBlock, open_chain
from node.ledger.storage import Storage
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme

NAMES = validator_names(6)
_PRESET = preset("Electing", "electing", "Local", NAMES)
SPEC = replace(_PRESET, patch={**(_PRESET.patch or {}), "chainParameters": {"TrustStake.elections_enabled": 1}})


def open_electing(path: Path) -> Chain:
    """Open its chain in the database at `path`, from block 0 on."""
    return open_chain(Storage(path / "db", free_bytes_floor=0), SPEC, genesis_state(SPEC), signatures.verify)


class ElectingMaker:
    """All validators of the chain in one place. Those that are present build in their slots and sign every block."""

    def __init__(self, path: Path) -> None:
        self.chain = open_electing(path)
        self.slot = FIRST_SLOT
        self._session = {name: KeyPair.from_seed(dev_accounts.key_seed(name, dev_accounts.SESSION)) for name in NAMES}
        self._names = {pair.public: name for name, pair in self._session.items()}
        self._authors = {name: self._author(path, name) for name in NAMES}
        self._reference: CertifiedRef | None = None

    def make_final(self, away: Collection[str] = ()) -> ExecutedBlock:
        """Make the next block, final at once."""
        final, parameters = self.chain.final.facts, self.chain.parameters
        number = parameters.epoch_of(final.height + 1)
        epoch = self.chain.epochs(number)
        assert epoch is not None
        while (author := self._names[proposer(epoch, self._next_slot())]) in away:
            pass
        request = Build(self.slot, final.id, final.height + 1, number, self._reference, heartbeat=True)
        facts = self._authors[author].build(request)
        assert facts is not None
        round_ = 1 + (facts.height - 1) % parameters.epoch_blocks
        ballot = Ballot(BallotKind.FINALISE, number, round_, facts.height, facts.id)
        payload = ballot_payload(self.chain.genesis, ballot)
        signed = {
            pair.public: signatures.sign(Scheme.ED25519, pair.public, pair.secret, payload)
            for name, pair in self._session.items()
            if name not in away and pair.public in epoch.validators.index
        }
        certificate = make_certificate(ballot, epoch.validators, signed)
        (block,) = self.chain.finalise((facts.id,), certificate)
        self._reference = CertifiedRef(facts.height, facts.id, certificate)
        return block

    def _next_slot(self) -> int:
        self.slot += 1
        return self.slot

    def _author(self, path: Path, name: str) -> Author:
        session = self._session[name]
        vrf = KeyPair.from_seed(dev_accounts.key_seed(name, dev_accounts.VRF))
        file = SignStateFile.create(path / f"sign-state-{name}", self.chain.genesis, session.public)
        return Author(
            chain=self.chain,
            validator_keys=ValidatorKeys(self.chain.genesis, self.chain.epochs, [SigningKey(session, file)], [vrf]),
            transaction_pool=ListedPool(),  # type: ignore[arg-type]  # nothing is offered
            verify=signatures.verify,
            clock=Clock(),
            inherents=no_inherents,
        )
