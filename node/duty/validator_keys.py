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
        self.sessions = {signing_key.pair.public: signing_key for signing_key in sessions}
        self._vrf_keys = {key_pair.public: key_pair for key_pair in vrf_keys}
        self.final_height = 0

    # --- seats

    def seat(self, epoch: int) -> Member | None:
        """Return this node's seat in an epoch; None without a seat, one of its two keys or a sign-state."""
        epoch_set = self._epochs(epoch)
        if epoch_set is None:
            return None
        for session_key, signing_key in self.sessions.items():
            member_index = epoch_set.validators.index.get(session_key)
            if member_index is not None and signing_key.file is not None:
                own_member = epoch_set.validators.members[member_index]
                if own_member.vrf in self._vrf_keys:
                    return own_member
        return None

    def session_of(self, epoch: int) -> bytes | None:
        """Return the session key with which this node votes and proposes in an epoch; None without a seat."""
        own_member = self.seat(epoch)
        return None if own_member is None else own_member.session

    # --- proofs for peers

    def shown(self) -> tuple[bytes, ...]:
        """Return the session keys that this node proves to peers: the first few, in the order of `arrange`."""
        return tuple(self.sessions)[:PROOFS_MAX]

    def prove_peer(self, peer_id: str) -> bytes:
        """Return the proof for peers that the node with these keys has the id `peer_id`."""
        key_pairs = [self.sessions[session_key].pair for session_key in self.shown()]
        return prove([(key_pair.public, key_pair.secret) for key_pair in key_pairs], self._genesis_hash, peer_id)

    # --- keys that are added while the node runs

    def take_up(self, signing_key: SigningKey) -> None:
        """Add a session key."""
        self.sessions.setdefault(signing_key.pair.public, signing_key)

    def take_up_vrf(self, key_pair: KeyPair) -> None:
        """Add a VRF key."""
        self._vrf_keys.setdefault(key_pair.public, key_pair)

    def arrange(self, key_order: Sequence[bytes]) -> None:
        """Put all session keys into the given order; peers see the first few."""
        arranged = {session_key: self.sessions[session_key] for session_key in key_order}
        assert len(arranged) == len(self.sessions), "no key is lost"
        self.sessions.clear()  # in place: other objects hold a reference to this table
        self.sessions.update(arranged)

    # --- records

    def sign_state(self, epoch: int) -> SignState:
        """Return the sign-state of an epoch's key, with the newest header of all keys: a slot has one header."""
        session_key = self.session_of(epoch)
        state_file = None if session_key is None else self.sessions[session_key].file
        state = EMPTY if state_file is None else state_file.state
        return SignState(self.last_header(), state.floor_epoch, state.floor_round, state.proposals, state.ballots)

    def last_header(self) -> HeaderRecord:
        """Return the newest header that any key of this node has sealed."""
        state_files = (signing_key.file for signing_key in self.sessions.values())
        header_records = (state_file.state.header for state_file in state_files if state_file is not None)
        return max(header_records, key=lambda header_record: header_record.slot, default=EMPTY.header)

    @property
    def noted_height(self) -> int:
        """The highest final block that a sign-state of this node records."""
        return max(
            (signing_key.file.final_height for signing_key in self.sessions.values() if signing_key.file is not None),
            default=0,
        )

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """Record that the database holds `height` as final, by the certificate of (epoch, round)."""
        assert height >= self.final_height, "the final height never falls"
        self.final_height = height
        # The node builds blocks of an epoch before the epoch before it is final.
        for session_key in dict.fromkeys((self.session_of(epoch), self.session_of(epoch + 1))):
            if session_key is not None:
                self.sessions[session_key].note_final(epoch, round_, height)

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
        signed_payload = seal_payload(self._genesis_hash, header)
        signing_key = self.sessions[self._require_seat(epoch).session]
        header_record = HeaderRecord(slot, blake2_256(signed_payload))
        last_record = self.last_header()
        if header_record.slot < last_record.slot or (
            header_record.slot == last_record.slot and header_record != last_record
        ):
            raise SigningRefusedError(f"another key of this node has sealed a header in slot {last_record.slot}")
        signature = signing_key.sign(header_record, signed_payload, self.final_height)
        sealed_digest = (*header.digest, seal_item(signature))
        return Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, sealed_digest)

    def sign_vote(self, vote_record: Proposal | Ballot) -> bytes:
        """Return the signature of a proposal or ballot.

        Raise `SigningRefusedError` without a seat, or if it contradicts an earlier signature.
        """
        signing_key = self.sessions[self._require_seat(vote_record.epoch).session]
        return signing_key.sign(vote_record, record_payload(self._genesis_hash, vote_record), self.final_height)

    def _require_seat(self, epoch: int) -> Member:
        own_member = self.seat(epoch)
        if own_member is None:
            raise SigningRefusedError(f"no key of this node has a seat in epoch {epoch}")
        return own_member
