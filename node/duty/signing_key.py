"""One session key of this node, and the record of what it has signed.

Invariant: nothing is signed that the key's file does not hold already; nothing while the database is behind
what the file says was final: such a database was rolled back, and what the key has signed since is in nobody's memory;
and nothing with a key that another machine signs with too, or whose file was never begun.
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
    """A session key at work, or waiting for its sign-state to be begun."""

    def __init__(self, pair: KeyPair, file: SignStateFile | None, *, is_listening: bool = False) -> None:
        """`is_listening`: the key's file begins after an epoch without signatures of another machine."""
        self.pair = pair
        self.file = file
        self.is_copied = False
        self.is_listening = is_listening
        self.heard_since: tuple[int, int] | None = None
        """The epoch and round after which ballots are news to a key without a file; None while no ballot is."""

    def sign(self, record: SignedRecord, payload: bytes, final_height: int) -> bytes:
        """Note the record, then sign the payload that it is of; `final_height` is the database's.

        Raise `SigningRefusedError`.
        """
        if self.file is None:
            raise SigningRefusedError("this session key has no sign-state")
        if self.is_copied:
            raise SigningRefusedError("another machine signs with this session key")
        if final_height < self.file.final_height:
            raise SigningRefusedError(
                f"the database is at {final_height}, but {self.file.final_height} was final before: it was rolled back"
            )
        self.file.record(record)
        return self.sign_unrecorded(payload)

    def sign_unrecorded(self, payload: bytes) -> bytes:
        """Return a signature that can contradict none: not of a header or vote."""
        return signatures.sign(Scheme.ED25519, self.pair.public, self.pair.secret, payload)

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """The database now holds `height` as final, by the certificate of (epoch, round)."""
        # While a rolled-back database catches up, the file keeps the height that it has to reach.
        if self.file is not None and height >= self.file.final_height:
            self.file.note_final(epoch, round_, height)

    def is_known(self, ballot: Ballot) -> bool:
        """Return whether this machine signed a ballot, or may have done so in a past that it does not remember."""
        if self.file is None:
            # Any stranger may replay what the key signed long ago: that tells nothing of another machine.
            return self.heard_since is None or (ballot.epoch, ballot.round) <= self.heard_since
        state = self.file.state
        # Below the floor the file has forgotten what it signed: own votes that come back late are no alarm.
        is_old = (ballot.epoch, ballot.round) <= (state.floor_epoch, state.floor_round)
        return is_old or ballot in state.ballots

    def notice(self, ballot: Ballot) -> None:
        """A vote with this key's valid signature came from the network; see whether another machine made it."""
        if not self.is_known(ballot):
            self._stop(f"epoch {ballot.epoch}, round {ballot.round}")

    def notice_header(self, header: HeaderRecord, since_slot: int) -> None:
        """Detect another machine by a block from the network with this key's valid seal.

        The file remembers only the newest header. Headers of older slots prove nothing, nor do those before
        `since_slot`, the start of this node: they may be this machine's own past.
        """
        sealed = None if self.file is None else self.file.state.header
        if sealed is not None and header.slot == sealed.slot:
            is_foreign = header != sealed
        else:
            is_foreign = header.slot >= since_slot and (sealed is None or header.slot > sealed.slot)
        if is_foreign and not self.is_copied:
            self._stop(f"a block in slot {header.slot}")

    def _stop(self, what: str) -> None:
        self.is_copied = True
        _LOG.critical(
            "another machine signs with this node's session key 0x%s (%s): this node signs nothing more with it. Stop "
            "one of the two, then restart the other", self.pair.public.hex(), what,
        )  # fmt: skip
