"""The storage of elections: the sets of all epochs, signs of life, and jail.

The set of an epoch is elected in the first block of the previous epoch, from the stakes at the start of that block, and
written once. The header of an epoch's last block can therefore name the next set, and consensus knows a set for a whole
epoch before its members become active.

Invariants:

* The answer for an epoch never changes. There is none for an epoch without an election yet, nor for one with evidence
  too old to count.
* A session key that was in a set belongs to its stash for ever.
"""

from bisect import bisect_right
from typing import Annotated

from runtime.blocks.digest import NextValidators
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, Bounded, codec, struct
from runtime.encoding.types import AccountId
from runtime.frame.pallet import Constant, Pallet, Parameter, StorageMap, StorageValue
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.stakers import VALIDATORS_MAX, EpochIndex, EraIndex, PublicKey, Seat, Seats, Waiters
from runtime.pallets.system import System

SETS_MAX = 256
"""The most sets kept at once. An era has one at most, and evidence counts for fewer eras."""
BITMAP_BYTES_MAX = VALIDATORS_MAX // 8
OVERHANGS_MAX = 4
"""The most remembered overhangs of a validator. Each lasts until evidence about it is too old."""


@struct
class Presence:
    """The members of an epoch's set that signed a certificate on the chain: bit i of byte i // 8 is the i-th member."""

    epoch: EpochIndex = 0
    bits: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)] = b""


@struct
class Overhang:
    """Eras in which a seat weighed more than its stake: its owner wanted to leave, but had to stay."""

    since: EraIndex
    """The first era whose leaving stake still answers for the seat."""
    first: EraIndex
    last: EraIndex


Overhangs = Annotated[tuple[Overhang, ...], Bounded(OVERHANGS_MAX)]


class SeatLedger(Pallet):
    """Sets by epoch, signs of life, jail."""

    system: System
    beacon: Beacon

    era_epochs: Constant[U32] = Constant(1, doc="Epochs in an era.")
    unbonding_epochs: Constant[U32] = Constant(6, doc="Epochs for which unbonded stake stays locked.")
    evidence_epochs: Constant[U32] = Constant(3, doc="Epochs after an offence in which evidence is accepted.")
    jail_epochs: Constant[U32] = Constant(2, doc="Whole epochs without a sign of life until a seat is jailed.")

    validator_count: Parameter[U32] = Parameter(
        16,
        unit="seats",
        least=1,
        greatest=VALIDATORS_MAX,
        doc="Seats per election. A certificate lists the signatures of two thirds of them.",
    )

    elections_enabled: Parameter[U32] = Parameter(
        1,
        unit="yes or no",
        least=0,
        greatest=1,
        doc="1 if elections change the active set. 0 keeps the current one.",
    )

    active_set: StorageValue[Seats] = StorageValue(
        default=(), doc="The seats of the current epoch, by ascending stash."
    )
    validator_sets: StorageMap[EpochIndex, Seats] = StorageMap(
        default=(), doc="Sets by their first epoch, kept as long as evidence about them is accepted."
    )
    validator_set_starts: StorageValue[Annotated[tuple[EpochIndex, ...], Bounded(SETS_MAX)]] = StorageValue(
        default=(), doc="The first epochs of the stored sets, ascending."
    )
    last_elected_epoch: StorageValue[EpochIndex] = StorageValue(default=0, doc="The last epoch with an elected set.")
    active_since: StorageMap[AccountId, EpochIndex] = StorageMap(
        default=0, doc="The first epoch of a validator's newest term in the set."
    )
    retiring_since: StorageMap[AccountId, EpochIndex] = StorageMap(
        default=0, doc="The epoch since which the churn limit keeps an unelected validator in the set. 0: none."
    )
    waiting_validators: StorageValue[Waiters] = StorageValue(
        default=(),
        doc="Winners of the last election that wait for a seat because of the churn limit, and since which epoch.",
    )
    past_session_keys: StorageMap[PublicKey, bool] = StorageMap(
        default=False, doc="Session keys of past and present sets. Each belongs to its stash for ever."
    )
    last_online: StorageMap[AccountId, EpochIndex] = StorageMap(
        default=0, doc="The epoch after a validator's newest sign of life. 0: none."
    )
    epoch_voters: StorageValue[Presence] = StorageValue(
        default=Presence(), doc="The members of the set whose votes this epoch's certificates contain."
    )
    late_voters: StorageValue[Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]] = StorageValue(
        default=b"", doc="The previous epoch's voters in late certificates: a bitmap over that epoch's set."
    )
    jailed: StorageMap[AccountId, EraIndex | None] = StorageMap(
        doc="Jailed validators, and since which era. Elections skip them until they ask to return."
    )
    excess_weights: StorageMap[AccountId, Overhangs] = StorageMap(
        default=(), doc="Eras in which a validator's seat weighed more than its stake."
    )

    # -------------------------------------------------------------------------------------------------------- queries

    def validators(self, epoch: int) -> tuple[Seat, ...]:
        """Return the set of an epoch, by ascending stash. Empty if it is not known yet, or no longer."""
        set_starts = self.validator_set_starts.get()
        if not set_starts:  # a state of an older program, before this program's first block
            return self.active_set.get()
        index = bisect_right(set_starts, epoch)
        # An epoch after the last election has no set yet, even though an earlier set exists.
        return self.validator_sets[set_starts[index - 1]] if index and epoch <= self.last_elected_epoch.get() else ()

    def next_validators(self, height: int) -> NextValidators | None:
        """Return the header's statement about the next epoch's set, given the parent's state. None if it makes none.

        Only the last block of an epoch has one: `blake2_256(SCALE(Seats))`. A reader that knows the set of an epoch and
        trusts a header of its last block can check the next set, from headers and certificates alone.
        """
        if not self.beacon.is_epoch_end(height):
            return None
        next_set = self.validators(self.beacon.epoch_of(height) + 1)
        return NextValidators(blake2_256(codec(Seats).encode(next_set)))

    def seat_in(self, stash: bytes, epoch: int) -> Seat | None:
        """Return the stash's seat in an epoch, None if it has none."""
        return next((seat for seat in self.validators(epoch) if seat.stash == stash), None)

    def seat_of(self, stash: bytes) -> Seat | None:
        """Return the stash's seat in the active set, None if it has none."""
        return next((seat for seat in self.active_set.get() if seat.stash == stash), None)

    def known_since(self, stash: bytes) -> int:
        """Return the height since which the state names the stash for its current seat, 0 for the genesis."""
        first_epoch = self.active_since[stash]
        return (first_epoch - 1) * self.beacon.epoch_blocks + 1 if first_epoch else 0

    def was_on_line(self, stash: bytes, epoch: int) -> bool:
        """Return True if there was a sign of life in an epoch, or in a later one."""
        return self.last_online[stash] > epoch

    def answering_era(self, stash: bytes, era: int) -> int:
        """Return the first era whose leaving stake answers for the stash's seat of `era`.

        That set was elected in the previous era.
        """
        for overhang in self.excess_weights[stash]:
            if overhang.first <= era <= overhang.last:
                return overhang.since
        return max(0, era - 1)

    def last_answerable(self, stash: bytes, era: int) -> int:
        """Return the last era for whose offences stake answers that left the stash in `era`."""
        overhang_ends = [overhang.last for overhang in self.excess_weights[stash] if overhang.since <= era]
        return max(era + 1, *overhang_ends, 0)

    # --------------------------------------------------------------------------------------------------------- methods

    def note_heard(self, stash: bytes, epoch: int) -> None:
        """Record a sign of life."""
        # Late votes of an earlier epoch must not move it back.
        if self.last_online[stash] <= epoch:
            self.last_online[stash] = epoch + 1
