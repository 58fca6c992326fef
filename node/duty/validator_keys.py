"""The keys of a validator at work: the key with the seat of each epoch; seals, votes and VRF proofs.

Invariant: the key that holds this node's seat in an epoch signs its headers and votes, and records each first
(`signing_key`). A key without a seat signs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from consensus.signstate import EMPTY, HeaderRecord, SigningRefusedError, SignState, record_payload
from consensus.validators import Epochs
from consensus.validators import Validator as Member
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.peers.peer_proof import PROOFS_MAX, prove
from runtime.blocks.block import Header, seal_payload
from runtime.blocks.digest import seal_item
from runtime.blocks.votes import Ballot, Proposal
from runtime.cryptography import vrf
from runtime.cryptography.hashing import blake2_256


def follow_only(_epoch: int) -> bytes | None:
    """Return the session key of a node that only follows the chain: None in every epoch."""
    return None


class ValidatorKeys:
    """All session and VRF keys of one node, by public key."""

    def __init__(
        self, genesis: bytes, epochs: Epochs, sessions: Iterable[SigningKey], vrf_keys: Iterable[KeyPair]
    ) -> None:
        """Hold the keys; `epochs` returns the validators of an epoch."""
        self._genesis_hash = genesis
        self._epochs = epochs
        self.sessions = {key.pair.public: key for key in sessions}
        self._vrf_keys = {pair.public: pair for pair in vrf_keys}
        self.final_height = 0

    # --- seats

    def seat(self, epoch: int) -> Member | None:
        """Return this node's seat in an epoch; None without a seat, one of its two keys or a sign-state."""
        epoch_set = self._epochs(epoch)
        if epoch_set is None:
            return None
        for session, key in self.sessions.items():
            index = epoch_set.validators.index.get(session)
            if index is not None and key.file is not None:
                member = epoch_set.validators.members[index]
                if member.vrf in self._vrf_keys:
                    return member
        return None

    def session_of(self, epoch: int) -> bytes | None:
        """Return the session key with which this node votes and proposes in an epoch; None without a seat."""
        member = self.seat(epoch)
        return None if member is None else member.session

    # --- proofs for peers

    def shown(self) -> tuple[bytes, ...]:
        """Return the session keys that this node proves to peers: the first few, in the order of `arrange`."""
        return tuple(self.sessions)[:PROOFS_MAX]

    def prove_peer(self, peer_id: str) -> bytes:
        """Return the proof for peers that the node with these keys has the id `peer_id`."""
        pairs = [self.sessions[session].pair for session in self.shown()]
        return prove([(pair.public, pair.secret) for pair in pairs], self._genesis_hash, peer_id)

    # --- keys that are added while the node runs

    def take_up(self, key: SigningKey) -> None:
        """Add a session key."""
        self.sessions.setdefault(key.pair.public, key)

    def take_up_vrf(self, pair: KeyPair) -> None:
        """Add a VRF key."""
        self._vrf_keys.setdefault(pair.public, pair)

    def arrange(self, key_order: Sequence[bytes]) -> None:
        """Put all session keys into the given order; peers see the first few."""
        arranged = {session: self.sessions[session] for session in key_order}
        assert len(arranged) == len(self.sessions), "no key is lost"
        self.sessions.clear()  # in place: other objects hold a reference to this table
        self.sessions.update(arranged)

    # --- records

    def sign_state(self, epoch: int) -> SignState:
        """Return the sign-state of an epoch's key, with the newest header of all keys: a slot has one header."""
        session = self.session_of(epoch)
        file = None if session is None else self.sessions[session].file
        state = EMPTY if file is None else file.state
        return SignState(self.last_header(), state.floor_epoch, state.floor_round, state.proposals, state.ballots)

    def last_header(self) -> HeaderRecord:
        """Return the newest header that any key of this node has sealed."""
        files = (key.file for key in self.sessions.values())
        records = (file.state.header for file in files if file is not None)
        return max(records, key=lambda record: record.slot, default=EMPTY.header)

    @property
    def noted_height(self) -> int:
        """The highest final block that a sign-state of this node records."""
        return max(
            (key.file.final_height for key in self.sessions.values() if key.file is not None),
            default=0,
        )

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """Record that the database holds `height` as final, by the certificate of (epoch, round)."""
        assert height >= self.final_height, "the final height never falls"
        self.final_height = height
        # The node builds blocks of an epoch before the epoch before it is final.
        for session in dict.fromkeys((self.session_of(epoch), self.session_of(epoch + 1))):
            if session is not None:
                self.sessions[session].note_final(epoch, round_, height)

    # --- signing

    def prove_vrf(self, epoch: int, vrf_alpha: bytes) -> tuple[bytes, bytes]:
        """Return the VRF output and proof of the seat in an epoch.

        Raise `SigningRefusedError` if this node has no seat.
        """
        return vrf.prove(self._vrf_keys[self._require_seat(epoch).vrf].seed, vrf_alpha)

    def seal(self, epoch: int, slot: int, header: Header) -> Header:
        """Return the header with the seal of this node's seat in its epoch.

        Raise `SigningRefusedError` without a seat, or after another header for the slot.
        """
        payload = seal_payload(self._genesis_hash, header)
        key = self.sessions[self._require_seat(epoch).session]
        record = HeaderRecord(slot, blake2_256(payload))
        last_record = self.last_header()
        if record.slot < last_record.slot or (record.slot == last_record.slot and record != last_record):
            raise SigningRefusedError(f"another key of this node has sealed a header in slot {last_record.slot}")
        signature = key.sign(record, payload, self.final_height)
        sealed_digest = (*header.digest, seal_item(signature))
        return Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, sealed_digest)

    def sign_vote(self, record: Proposal | Ballot) -> bytes:
        """Return the signature of a proposal or ballot.

        Raise `SigningRefusedError` without a seat, or if it contradicts an earlier signature.
        """
        key = self.sessions[self._require_seat(record.epoch).session]
        return key.sign(record, record_payload(self._genesis_hash, record), self.final_height)

    def _require_seat(self, epoch: int) -> Member:
        member = self.seat(epoch)
        if member is None:
            raise SigningRefusedError(f"no key of this node has a seat in epoch {epoch}")
        return member
