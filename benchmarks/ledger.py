"""A development chain with 100,000 accounts over a real database, its only validator, and transfers among the accounts.

Equal seeds give equal keys, accounts and transfers.
"""

import random
from pathlib import Path

from benchmarks.funded import funded
from consensus.certificates import Certificate, make_certificate
from consensus.events import BlockFacts
from consensus.validators import Validator as Member
from genesis import dev_accounts
from genesis.chain import genesis_state
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.ledger.chain import Chain, open_chain
from node.ledger.storage import Storage
from node.pool.verifier import Verifier
from runtime.blocks.extrinsic import Extra
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from simulation.chains.extrinsics import ed25519, signed_extrinsic

ACCOUNTS = 100_000
SENDERS = 10_000
ENDOWMENT = 100 * GRAINS_PER_OGPU
AMOUNT_MAX = GRAINS_PER_OGPU
FIRST_SLOT = 1_700_000_000


class Ledger:
    """The chain and its accounts. `verifier` checks the signatures of imported blocks and may be replaced."""

    def __init__(self, folder: Path, rng: random.Random, accounts: int = ACCOUNTS, senders: int = SENDERS) -> None:
        """Create the chain in an empty folder. The accounts include the senders."""
        self._rng = rng
        self._keys = [signatures.keypair_from_seed(Scheme.ED25519, rng.randbytes(32)) for _ in range(senders)]
        others = [rng.randbytes(32) for _ in range(accounts - senders)]
        self._accounts = [public for public, _ in self._keys] + others
        self._nonces = [0] * senders
        self.verifier = Verifier()
        self.slot = FIRST_SLOT
        self.spec = funded(self._accounts, ENDOWMENT)
        self._state = genesis_state(self.spec)
        self.chain = self.open(folder)
        self._session = _key("Alice", dev_accounts.SESSION)
        file = SignStateFile.create(folder / "sign-state", self.chain.genesis, self._session.public)
        vrf = _key("Alice", dev_accounts.VRF)
        key = SigningKey(self._session, file)
        self.validator = ValidatorKeys(self.chain.genesis, self.chain.epochs, [key], [vrf])

    def open(self, folder: Path) -> Chain:
        """Open the chain over the folder's database. A new database receives the genesis."""
        return open_chain(
            Storage(folder / "db", free_bytes_floor=0),
            self.spec,
            self._state,
            lambda *claim: self.verifier.verify(*claim),  # noqa: PLW0108  # the verifier is replaced
        )

    @property
    def seat(self) -> Member:
        """The seat of the only validator."""
        found = self.validator.seat(0)
        assert found is not None, "it sits in every epoch"
        return found

    @property
    def slot_ms(self) -> int:
        """The start of the slot in Unix milliseconds."""
        return self.slot * self.chain.parameters.slot_ms

    def next_slot_ms(self) -> int:
        """Go to the next slot. Return its start in Unix milliseconds."""
        self.slot += 1
        return self.slot_ms

    def transfers(self, count: int) -> list[bytes]:
        """Return signed transfers of `count` senders to randomly drawn accounts."""
        return [self._transfer(sender) for sender in self._rng.sample(range(len(self._keys)), count)]

    def finalise(self, facts: BlockFacts) -> Certificate:
        """Finalise a block with the certificate from its validator's vote."""
        epoch = self.chain.epochs(0)
        if epoch is None:
            raise RuntimeError("the first epoch is always determined")
        ballot = Ballot(BallotKind.FINALISE, 0, facts.height, facts.height, facts.id)
        session = self._session
        signature = signatures.sign(
            Scheme.ED25519, session.public, session.secret, ballot_payload(self.chain.genesis, ballot)
        )
        certificate = make_certificate(ballot, epoch.validators, {session.public: signature})
        self.chain.finalise((facts.id,), certificate)
        return certificate

    def _transfer(self, sender: int) -> bytes:
        dest, value = self._rng.choice(self._accounts), self._rng.randrange(1, AMOUNT_MAX)
        call, extra = Balances.transfer_keep_alive(dest=dest, value=value), Extra(nonce=self._nonces[sender])
        public, secret = self._keys[sender]
        self._nonces[sender] += 1
        chain, signer = self.chain, ed25519(public, secret)
        return signed_extrinsic(chain.runtime, chain.genesis, call, extra, public, signer)


def _key(name: str, kind: str) -> KeyPair:
    return KeyPair.from_seed(dev_accounts.key_seed(name, kind))
