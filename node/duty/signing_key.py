"""One session key of this node, and the record of its signatures.

Invariants:

* The key signs a header or vote only after its file holds the record.
* The key signs nothing while the database's final height is below the file's. Such a database was rolled back and may
  lack later signatures.
* The key signs nothing if another machine signs with it too, or if it has no file yet.
"""

from __future__ import annotations

import logging

from consensus.signstate import HeaderRecord, SignedRecord, SigningRefusedError
from node.duty.keystore import KeyPair
from node.duty.signstate_file import SignStateFile
from runtime.blocks.votes import Ballot
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme

_LOG = logging.getLogger(__name__)


class SigningKey:
    """A session key that signs, or that waits for its sign-state file."""

    def __init__(self, pair: KeyPair, file: SignStateFile | None, *, is_listening: bool = False) -> None:
        """Create the key; `is_listening` means that its file begins only after an epoch without foreign signatures."""
        self.pair = pair
        self.file = file
        self.is_copied = False
        self.is_listening = is_listening
        self.heard_since: tuple[int, int] | None = None
        """The last epoch and round whose ballots prove nothing about a key without a file. None while no ballot proves
        anything."""

    def sign(self, record: SignedRecord, payload: bytes, final_height: int) -> bytes:
        """Record `record` on disk, then sign `payload`, its encoding; `final_height` is the database's.

        Raise `SigningRefusedError` if the key may not sign, or if the record contradicts an earlier one.
        """
        if self.file is None:
            raise SigningRefusedError("this session key has no sign-state")
        if self.is_copied:
            raise SigningRefusedError("another machine signs with this session key")
        if final_height < self.file.final_height:
            raise SigningRefusedError(
                f"the database was rolled back to final block {final_height}: block {self.file.final_height} was "
                "final earlier"
            )
        self.file.record(record)
        return self.sign_unrecorded(payload)

    def sign_unrecorded(self, payload: bytes) -> bytes:
        """Sign a payload that can contradict no other signature: never a header or vote."""
        return signatures.sign(Scheme.ED25519, self.pair.public, self.pair.secret, payload)

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """Record that the database holds `height` as final, by the certificate of (epoch, round)."""
        # While a rolled-back database catches up, the file keeps the height that the database has to reach.
        if self.file is not None and height >= self.file.final_height:
            self.file.note_final(epoch, round_, height)

    def is_known(self, ballot: Ballot) -> bool:
        """Return whether this machine signed a ballot, or may have signed it before its records begin."""
        if self.file is None:
            # Any stranger can replay an old ballot of the key. A replay is no evidence of another machine.
            return self.heard_since is None or (ballot.epoch, ballot.round) <= self.heard_since
        sign_state = self.file.state
        # The file drops its records below the floor. A replayed own vote from there must not raise the alarm.
        is_old = (ballot.epoch, ballot.round) <= (sign_state.floor_epoch, sign_state.floor_round)
        return is_old or ballot in sign_state.ballots

    def notice(self, ballot: Ballot) -> None:
        """Check whether another machine made a vote from the network that has this key's valid signature."""
        if not self.is_known(ballot):
            self._stop_signing(f"epoch {ballot.epoch}, round {ballot.round}")

    def notice_header(self, record: HeaderRecord, since_slot: int) -> None:
        """Detect another machine by a block from the network with this key's valid seal.

        The file remembers only the newest header. Headers of older slots prove nothing. Headers before `since_slot`,
        the start of this node, prove nothing either: this machine may have sealed them itself.
        """
        sealed_record = None if self.file is None else self.file.state.header
        if sealed_record is not None and record.slot == sealed_record.slot:
            is_foreign = record != sealed_record
        else:
            is_foreign = record.slot >= since_slot and (sealed_record is None or record.slot > sealed_record.slot)
        if is_foreign and not self.is_copied:
            self._stop_signing(f"a block in slot {record.slot}")

    def _stop_signing(self, signed_thing: str) -> None:
        self.is_copied = True
        _LOG.critical(
            "another machine signs with this node's session key 0x%s (%s). This node stops signing with it. Stop "
            "one of the two machines, then restart the other", self.pair.public.hex(), signed_thing,
        )  # fmt: skip
