"""The keys of a validator at work: seals, votes and VRF proofs, each recorded before it is made.

What always holds: nothing is signed that the sign-state file does not hold already, and nothing at all while the
database is behind what the file says was final: such a database was rolled back, and what this key has signed since is
in nobody's memory.
"""

from __future__ import annotations

import logging

from consensus.signstate import HeaderRecord, SignedRecord, SigningRefusedError, record_payload
from consensus.votes import Ballot, Proposal
from node.duty.keystore import KeyPair
from node.duty.signstate_file import SignStateFile
from node.peers.peer_proof import prove
from runtime.blocks.block import Header, seal_payload
from runtime.blocks.digest import seal_item
from runtime.cryptography import signatures, vrf
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme

_LOG = logging.getLogger(__name__)


def follow_only(_epoch: int) -> bytes | None:
    """The session key of a node that only follows the chain: none, in every epoch."""
    return None


class ValidatorKeys:
    """One seat: its stash, its keys, its sign-state."""

    def __init__(self, genesis: bytes, stash: bytes, session: KeyPair, vrf_key: KeyPair, file: SignStateFile) -> None:
        self._genesis = genesis
        self.stash = stash
        self._session = session
        self._vrf_key = vrf_key
        self.file = file
        self.final_height = 0
        self.is_copied = False

    @property
    def session(self) -> bytes:
        """The public session key."""
        return self._session.public

    def session_of(self, _epoch: int) -> bytes | None:
        """The session key with which this node votes in an epoch: the same in each, whether it sits then or not."""
        return self.session

    @property
    def session_pair(self) -> KeyPair:
        """The session key with its secret half."""
        return self._session

    def prove_peer(self, peer_id: str) -> bytes:
        """The proof for peers that this key's node is called `peer_id`."""
        return prove(self._session.public, self._session.secret, self._genesis, peer_id)

    def prove_vrf(self, alpha: bytes) -> tuple[bytes, bytes]:
        """VRF output and proof."""
        return vrf.prove(self._vrf_key.seed, alpha)

    def seal(self, slot: int, header: Header) -> Header:
        """The header with this validator's seal.  Raises `SigningRefusedError`."""
        payload = seal_payload(self._genesis, header)
        self._record(HeaderRecord(slot, blake2_256(payload)))
        digest = (*header.digest, seal_item(self._sign(payload)))
        return Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, digest)

    def sign_vote(self, record: Proposal | Ballot) -> bytes:
        """The signature of a proposal or ballot.  Raises `SigningRefusedError`."""
        self._record(record)
        return self._sign(record_payload(self._genesis, record))

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """The database now holds `height` as final, by the certificate of (epoch, round)."""
        assert height >= self.final_height, "the final height never falls"
        self.final_height = height
        # While a rolled-back database catches up, the file keeps the height that it has to reach.
        if height >= self.file.final_height:
            self.file.note_final(epoch, round_, height)

    def is_known(self, ballot: Ballot) -> bool:
        """Whether this machine signed a ballot, or did so for all that it remembers."""
        state = self.file.state
        # Below the floor the file has forgotten what it signed: own votes that come back late are no alarm.
        is_old = (ballot.epoch, ballot.round) <= (state.floor_epoch, state.floor_round)
        return is_old or ballot in state.ballots

    def notice(self, ballot: Ballot) -> None:
        """A vote with this key's valid signature came from the network; see whether another machine made it."""
        if self.is_known(ballot):
            return
        self.is_copied = True
        _LOG.critical(
            "another machine signs with this node's session key (epoch %d, round %d): this node signs nothing more. "
            "Stop one of the two, then restart the other", ballot.epoch, ballot.round,
        )  # fmt: skip

    def _record(self, record: SignedRecord) -> None:
        if self.is_copied:
            raise SigningRefusedError("another machine signs with this session key")
        if self.final_height < self.file.final_height:
            raise SigningRefusedError(
                f"the database is at {self.final_height}, but {self.file.final_height} was final before: "
                "it was rolled back"
            )
        self.file.record(record)

    def _sign(self, payload: bytes) -> bytes:
        return signatures.sign(Scheme.ED25519, self._session.public, self._session.secret, payload)
