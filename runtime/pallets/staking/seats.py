"""The storage of elections: who sits in which epoch, who was on line, who is in jail.

The set of an epoch is elected in the first block of the epoch before it, from the stakes that this block begins with,
and written once. So the header of an epoch's last block can name the next set, and consensus has known it for an epoch
when its members take office.

Always:
* The answer for an epoch never changes; there is none for what is not elected yet, nor where evidence is too old.
* A session key that has sat belongs to its stash for ever.
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
"""Sets that are kept at once: an era has one at most, and evidence counts for fewer eras."""
BITMAP_BYTES_MAX = VALIDATORS_MAX // 8
OVERHANGS_MAX = 4
"""Times a validator had to stay that are remembered; each lasts until evidence about it is too old."""


@struct
class Presence:
    """Who of an epoch's set signed a certificate that the chain carries: bit i of byte i // 8 is the i-th member."""

    epoch: EpochIndex = 0
    bits: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)] = b""


@struct
class Overhang:
    """Eras in which a seat weighed more than what stood behind it: its owner wanted to leave, and had to stay."""

    since: EraIndex
    """Who left in this era or later stood behind the seat still."""
    first: EraIndex
    last: EraIndex


Overhangs = Annotated[tuple[Overhang, ...], Bounded(OVERHANGS_MAX)]


class SeatLedger(Pallet):
    """Sets by epoch, signs of life, jail."""

    system: System
    beacon: Beacon

    era_epochs: Constant[U32] = Constant(1, doc="Epochs in an era.")
    unbonding_epochs: Constant[U32] = Constant(6, doc="Epochs that unbonded stake stays locked.")
    evidence_epochs: Constant[U32] = Constant(3, doc="Epochs in which an offence may be reported.")
    jail_epochs: Constant[U32] = Constant(2, doc="Whole epochs without a sign of life after which a seat goes to jail.")

    validator_count: Parameter[U32] = Parameter(
        16,
        unit="seats",
        least=1,
        greatest=VALIDATORS_MAX,
        doc="Candidates that an election seats; a certificate lists the signatures of two thirds of them.",
    )

    elections_enabled: Parameter[U32] = Parameter(
        1,
        unit="yes or no",
        least=0,
        greatest=1,
        doc="Whether elections change who sits. While they do not, the set in office goes on.",
    )

    active_set: StorageValue[Seats] = StorageValue(default=(), doc="The validators in office, by ascending stash.")
    validator_sets: StorageMap[EpochIndex, Seats] = StorageMap(
        default=(), doc="Who sits, by the first epoch of each set; kept while evidence about it counts."
    )
    validator_set_starts: StorageValue[Annotated[tuple[EpochIndex, ...], Bounded(SETS_MAX)]] = StorageValue(
        default=(), doc="The first epochs of the sets that are kept, ascending."
    )
    last_elected_epoch: StorageValue[EpochIndex] = StorageValue(
        default=0, doc="The last epoch whose validators are elected."
    )
    active_since: StorageMap[AccountId, EpochIndex] = StorageMap(
        default=0, doc="The first epoch of a validator's newest time in office."
    )
    retiring_since: StorageMap[AccountId, EpochIndex] = StorageMap(
        default=0, doc="The first epoch in which somebody sat only because it must, and still does; 0 for who does not."
    )
    waiting_validators: StorageValue[Waiters] = StorageValue(
        default=(), doc="Who was elected at the last election and had to wait for room, and since which epoch."
    )
    past_session_keys: StorageMap[PublicKey, bool] = StorageMap(
        default=False, doc="Session keys that were in a set: each belongs to its stash for ever."
    )
    last_online: StorageMap[AccountId, EpochIndex] = StorageMap(
        default=0, doc="The epoch after the newest one in which somebody was on line; 0 for never."
    )
    epoch_voters: StorageValue[Presence] = StorageValue(
        default=Presence(), doc="Whose votes this epoch's certificates hold."
    )
    late_voters: StorageValue[Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]] = StorageValue(
        default=b"", doc="Whose votes certificates hold that are of the epoch before, by the places of its set."
    )
    jailed: StorageMap[AccountId, EraIndex | None] = StorageMap(
        doc="Whom no election seats until it asks to be let out, and since which era."
    )
    excess_weights: StorageMap[AccountId, Overhangs] = StorageMap(
        default=(), doc="When a validator's seat weighed more than what stood behind it."
    )

    # ---------------------------------------------------------------------------------------------- what may be asked

    def validators(self, epoch: int) -> tuple[Seat, ...]:
        """Who may propose and vote in an epoch, by ascending stash; nobody where that is not known, or not any more."""
        starts = self.validator_set_starts.get()
        if not starts:  # of the program before, until the first block of this one: that is judged by its parent's state
            return self.active_set.get()
        place = bisect_right(starts, epoch)
        return self.validator_sets[starts[place - 1]] if place and epoch <= self.last_elected_epoch.get() else ()

    def next_validators(self, height: int) -> NextValidators | None:
        """What the header at a height must say of the next epoch's set, given its parent's state; None if nothing.

        Only the last block of an epoch says it: `blake2_256(SCALE(Seats))`. Who knows the set of an epoch and
        trusts a header of its last block can check the set that follows, from headers and certificates alone.
        """
        if not self.beacon.is_epoch_end(height):
            return None
        following = self.validators(self.beacon.epoch_of(height) + 1)
        return NextValidators(blake2_256(codec(Seats).encode(following)))

    def seat_in(self, stash: bytes, epoch: int) -> Seat | None:
        """The stash's seat in an epoch."""
        return next((seat for seat in self.validators(epoch) if seat.stash == stash), None)

    def seat_of(self, stash: bytes) -> Seat | None:
        """The stash's seat in office."""
        return next((seat for seat in self.active_set.get() if seat.stash == stash), None)

    def known_since(self, stash: bytes) -> int:
        """The height since which the state has named the stash for the seat that it has now; 0 since the genesis."""
        first = self.active_since[stash]
        return (first - 1) * self.beacon.epoch_blocks + 1 if first else 0

    def was_on_line(self, stash: bytes, epoch: int) -> bool:
        """Whether there was a sign of life in an epoch, or in a later one."""
        return self.last_online[stash] > epoch

    def answering_era(self, stash: bytes, era: int) -> int:
        """Who left in this era or later stood behind the stash's seat of `era`: that set was elected the era before."""
        for overhang in self.excess_weights[stash]:
            if overhang.first <= era <= overhang.last:
                return overhang.since
        return max(0, era - 1)

    def last_answerable(self, stash: bytes, era: int) -> int:
        """The last era for whose offences stake answers that left the stash in `era`."""
        kept = [overhang.last for overhang in self.excess_weights[stash] if overhang.since <= era]
        return max(era + 1, *kept, 0)

    # ------------------------------------------------------------------------------------------------------- verbs

    def note_heard(self, stash: bytes, epoch: int) -> None:
        """There was a sign of life."""
        if self.last_online[stash] <= epoch:
            self.last_online[stash] = epoch + 1
