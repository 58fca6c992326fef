"""TrustStake: who bonds what, who validates with which keys, what an era pays, what an offence takes.

Always:
* Every grain behind a validator is reserved on its owner's account: for each staker, its stakes and
  its unlocking chunks together are never more than its reserved balance.
* `backing[v]` is the sum of `stakes[v, *]`.
* Unlocking lasts longer than evidence may be reported (by three epochs), and chunks can be slashed,
  so leaving is no escape.
* The validators in office are those of the genesis, in every epoch of this release: the election
  is made and shown each era and takes office with a later one. Their genesis bonds stay.
"""

from typing import Any

from runtime.blocks.digest import NextValidators
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import is_safe_public_key
from runtime.encoding.codec import U32, codec
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, CompactBalance
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import Constant, Pallet, Signed, StorageDoubleMap, StorageMap, StorageValue, call, ensure
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking import eras
from runtime.pallets.staking.exposures import DELEGATORS_PER_VALIDATOR_MAX, Backing, Exposure, slash_parts
from runtime.pallets.staking.stakers import (
    CANDIDATES_MAX,
    COMMISSION_MAX_PPM,
    UNLOCKING_MAX,
    Candidate,
    EraIndex,
    EraPoints,
    EraReward,
    PublicKey,
    Seat,
    Seats,
    Standings,
    Unlocking,
    Unlockings,
)
from runtime.pallets.staking.staking_events import (
    AlreadyBonded,
    Bonded,
    BondTooSmall,
    CandidateSet,
    Chilled,
    CommissionTooHigh,
    Delegated,
    EraStarted,
    InOffice,
    IsTombstoned,
    KeyTaken,
    NotBonded,
    NotCandidate,
    NotEnoughStake,
    NothingToClaim,
    NothingToWithdraw,
    Rewarded,
    StakeSlashed,
    StillCandidate,
    Tombstoned,
    TooManyCandidates,
    TooManyChunks,
    TooManyDelegators,
    Unbonded,
    UnsafeKey,
    Withdrawn,
)
from runtime.pallets.system import System

STAKE_WEIGHT = work(reads=8, writes=6)
PAYOUT_WEIGHT = work(reads=2 * DELEGATORS_PER_VALIDATOR_MAX, writes=2 * DELEGATORS_PER_VALIDATOR_MAX)


class TrustStake(Pallet, index=7):
    """Bonds, delegations, candidates, eras, rewards and slashes."""

    system: System
    balances: Balances
    beacon: Beacon
    session: Session

    era_epochs: Constant[U32] = Constant(1, doc="Epochs in an era.")
    unbonding_epochs: Constant[U32] = Constant(6, doc="Epochs that unbonded stake stays locked.")
    evidence_epochs: Constant[U32] = Constant(3, doc="Epochs in which an offence may be reported.")
    validator_seats: Constant[U32] = Constant(16, doc="Candidates that an election seats.")
    validator_bond_min: Constant[Grains] = Constant(10 * GRAINS_PER_OGPU, doc="Least own bond of a candidate.")
    delegation_min: Constant[Grains] = Constant(GRAINS_PER_OGPU, doc="Least delegation.")
    emission_divisor: Constant[U32] = Constant(3160, doc="An era emits the reserve divided by this.")
    history_eras: Constant[U32] = Constant(84, doc="Eras for which rewards may be claimed.")

    stakes: StorageDoubleMap[AccountId, AccountId, Grains] = StorageDoubleMap(
        default=0, doc="Stake by validator and staker; a validator's own bond is under itself twice."
    )
    backing: StorageMap[AccountId, Grains] = StorageMap(default=0, doc="All stake behind a validator.")
    delegator_count: StorageMap[AccountId, U32] = StorageMap(default=0)
    unlocking: StorageMap[AccountId, Unlockings] = StorageMap(default=(), doc="Stake on its way out, by staker.")
    candidates: StorageMap[AccountId, Candidate | None] = StorageMap(doc="Who offers to validate and to mine.")
    candidate_count: StorageValue[U32] = StorageValue(default=0)
    key_owner: StorageMap[PublicKey, AccountId | None] = StorageMap(
        doc="The candidate that registered a key: no two may share one."
    )
    tombstones: StorageMap[AccountId, EraIndex | None] = StorageMap(
        doc="Offenders that may not return, and since when."
    )
    seats: StorageValue[Seats] = StorageValue(default=(), doc="The validators in office, by ascending stash.")

    current_era: StorageValue[EraIndex] = StorageValue(default=0)
    elected: StorageValue[Standings] = StorageValue(default=(), doc="The current era's election.")
    eras_exposure: StorageDoubleMap[EraIndex, AccountId, Exposure | None] = StorageDoubleMap(
        doc="Stake behind the elected, frozen when their era began."
    )
    eras_total: StorageMap[EraIndex, Grains] = StorageMap(default=0, doc="All stake that an era elected.")
    eras_points: StorageMap[EraIndex, EraPoints] = StorageMap(default=(), doc="Blocks of the elected, in points.")
    eras_reward: StorageMap[EraIndex, EraReward | None] = StorageMap(doc="Emission to validators of an ended era.")
    claimed: StorageDoubleMap[EraIndex, AccountId, bool] = StorageDoubleMap(default=False, doc="Rewards paid.")

    events = (
        Bonded, Delegated, Unbonded, Withdrawn, CandidateSet, Chilled, EraStarted, Rewarded, StakeSlashed, Tombstoned,
    )  # fmt: skip
    errors = (
        AlreadyBonded, NotBonded, BondTooSmall, NotCandidate, StillCandidate, TooManyCandidates, TooManyDelegators,
        TooManyChunks, NotEnoughStake, NothingToWithdraw, UnsafeKey, KeyTaken, CommissionTooHigh, InOffice,
        IsTombstoned, NothingToClaim,
    )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- calls

    @call(index=0, weight=STAKE_WEIGHT)
    def bond(self, origin: Signed, value: CompactBalance) -> None:
        """Bond `value` grains of the signer's own, the first step to validate or to mine."""
        stash = origin.account
        ensure(self.stakes[stash, stash] == 0, AlreadyBonded)
        ensure(value >= self.validator_bond_min, BondTooSmall)
        self.lock(stash, stash, value)
        self.emit(Bonded(stash, value))

    @call(index=1, weight=STAKE_WEIGHT)
    def bond_extra(self, origin: Signed, value: CompactBalance) -> None:
        """Add `value` grains to the signer's bond."""
        stash = origin.account
        ensure(self.stakes[stash, stash] > 0, NotBonded)
        self.lock(stash, stash, value)
        self.emit(Bonded(stash, value))

    @call(index=2, weight=STAKE_WEIGHT)
    def unbond(self, origin: Signed, value: CompactBalance) -> None:
        """Begin to take `value` grains out of the signer's own bond."""
        stash = origin.account
        remaining = self.stakes[stash, stash] - value
        ensure(value > 0 and remaining >= 0, NotEnoughStake)
        ensure(remaining >= self.genesis_bond(stash), InOffice)
        ensure(stash not in self.candidates or remaining >= self.validator_bond_min, StillCandidate)
        self._unlock_later(stash, stash, value)

    @call(index=3, weight=STAKE_WEIGHT)
    def withdraw_unbonded(self, origin: Signed) -> None:
        """Free what the signer unbonded long enough ago."""
        staker, epoch = origin.account, self.beacon.epoch()
        chunks = self.unlocking[staker]
        waiting = tuple(one for one in chunks if one.until_epoch > epoch)
        amount = sum(one.value for one in chunks) - sum(one.value for one in waiting)
        ensure(len(waiting) < len(chunks), NothingToWithdraw)
        self._set_unlocking(staker, waiting)
        self.balances.unreserve(staker, amount)
        self.emit(Withdrawn(staker, amount))

    @call(index=4, weight=STAKE_WEIGHT)
    def validate(
        self, origin: Signed, session_key: PublicKey, vrf_key: PublicKey, provider_key: AccountId, commission_ppm: U32
    ) -> None:
        """Offer to validate and to mine: link the signer's bond with a session, a VRF and a provider key."""
        stash = origin.account
        ensure(stash not in self.tombstones, IsTombstoned)
        ensure(self.stakes[stash, stash] >= self.validator_bond_min, BondTooSmall)
        ensure(commission_ppm <= COMMISSION_MAX_PPM, CommissionTooHigh)
        self.set_candidate(stash, Candidate(session_key, vrf_key, provider_key, commission_ppm))

    @call(index=5, weight=STAKE_WEIGHT)
    def chill(self, origin: Signed) -> None:
        """Stop to offer: not elected from the next era on, not drawn for work from now on."""
        stash = origin.account
        ensure(stash in self.candidates, NotCandidate)
        ensure(self.seat_of(stash) is None, InOffice)
        self._remove_candidate(stash)

    @call(index=6, weight=STAKE_WEIGHT)
    def delegate(self, origin: Signed, validator: AccountId, value: CompactBalance) -> None:
        """Put `value` grains behind a candidate, to share its rewards and its slashes."""
        delegator = origin.account
        ensure(validator in self.candidates and validator != delegator, NotCandidate)
        before = self.stakes[validator, delegator]
        ensure(before + value >= self.delegation_min, BondTooSmall)
        ensure(before > 0 or self.delegator_count[validator] < DELEGATORS_PER_VALIDATOR_MAX, TooManyDelegators)
        self.lock(delegator, validator, value)
        self.emit(Delegated(delegator, validator, value))

    @call(index=7, weight=STAKE_WEIGHT)
    def undelegate(self, origin: Signed, validator: AccountId, value: CompactBalance) -> None:
        """Begin to take `value` grains back from behind a validator: all, or down to the minimum."""
        delegator = origin.account
        remaining = self.stakes[validator, delegator] - value
        ensure(validator != delegator, NotCandidate)
        ensure(value > 0 and remaining >= 0, NotEnoughStake)
        ensure(remaining == 0 or remaining >= self.delegation_min, BondTooSmall)
        self._unlock_later(delegator, validator, value)

    @call(index=8, weight=PAYOUT_WEIGHT)
    def payout_stakers(self, origin: Signed, validator: AccountId, era: EraIndex) -> None:
        """Pay a validator and its delegators for an ended era; anybody may ask for it, once."""
        paid = eras.pay_out(self, validator, era)
        ensure(bool(paid), NothingToClaim)
        for share in paid:
            self.emit(Rewarded(share.payee or b"", validator, era, share.amount))

    # ------------------------------------------------------------------------------------------------------- hooks

    def on_initialize(self) -> None:
        """Check what the header says of the next validators; begin the era; note the author's work."""
        eras.check_next_validators(self)
        eras.enter(self)

    def genesis(self, config: dict[str, Any]) -> None:
        """Seat the validators of the chain specification: `{"validators": [{"stash", "bond", ...}]}`."""
        if self.unbonding_epochs < self.evidence_epochs + 3:
            raise ValueError("unbonding must outlast evidence by three epochs")
        eras.seat_genesis(self, config.get("validators", []))

    # ------------------------------------------------------------------------------- what other pallets and nodes ask

    def validators(self, epoch: int) -> tuple[Seat, ...]:
        """Who may propose and vote in an epoch, by ascending stash."""
        return self.seats.get()

    def next_validators(self, height: int) -> NextValidators | None:
        """What the header at a height must say of the next epoch's set, given its parent's state; None if nothing.

        Only the last block of an epoch says it: `blake2_256(SCALE(Seats))`. Who knows the set of an epoch and
        trusts a header of its last block can check the set that follows, from headers and certificates alone.
        """
        if not self.beacon.is_epoch_end(height):
            return None
        following = self.validators(self.beacon.epoch_of(height) + 1)
        return NextValidators(blake2_256(codec(Seats).encode(following)))

    def seat_of(self, stash: bytes) -> Seat | None:
        """The stash's seat in office."""
        return next((seat for seat in self.seats.get() if seat.stash == stash), None)

    def genesis_bond(self, stash: bytes) -> int:
        """What a validator in office may not unbond."""
        seat = self.seat_of(stash)
        return seat.weight if seat else 0

    def is_candidate(self, stash: bytes) -> bool:
        """Whether the stash may be elected and drawn for work: offered, bonded, no tombstone."""
        return (
            stash in self.candidates
            and stash not in self.tombstones
            and self.stakes[stash, stash] >= self.validator_bond_min
        )

    def stash_of(self, provider_key: bytes) -> bytes | None:
        """The candidate whose daemon uses this account."""
        stash = self.key_owner[provider_key]
        candidate = self.candidates[stash] if stash else None
        return stash if candidate and candidate.provider_key == provider_key else None

    def era_reward(self, era: int, validator: bytes) -> tuple[int, Exposure | None]:
        """What a validator and its delegators earned in an ended era, and the stake that shares it."""
        reward, points = self.eras_reward[era], self.eras_points[era]
        total = sum(one.points for one in points)
        mine = sum(one.points for one in points if one.stash == validator)
        amount = reward.total * mine // total if reward and total else 0
        return amount, self.eras_exposure[era, validator]

    def offence_exposure(self, stash: bytes, era: int) -> tuple[Exposure, int]:
        """The stake behind an offender in an era and all stake elected; its own bond if it was not elected."""
        exposed = self.eras_exposure[era, stash]
        if exposed is None:
            own = self.stakes[stash, stash]
            exposed = Exposure(own, own)
        return exposed, max(self.eras_total[era], exposed.total)

    def slash_exposure(self, stash: bytes, exposed: Exposure, ppm: int) -> tuple[Backing, ...]:
        """Strike `ppm` of what was exposed from each staker's stake; what was struck, for the caller to pay on.

        It stays reserved on the stakers' accounts until then. Stakes go first, then what is unlocking
        from this validator; less is struck where less is left.
        """
        struck = (Backing(one.who, self._strike(stash, one)) for one in slash_parts(stash, exposed, ppm))
        return tuple(one for one in struck if one.value)

    def slash_own(self, stash: bytes, ppm: int) -> tuple[Backing, ...]:
        """Strike `ppm` of the stash's own bond, also where it is unlocking; as `slash_exposure`."""
        leaving = sum(one.value for one in self.unlocking[stash] if one.validator == stash)
        own = self.stakes[stash, stash] + leaving
        return self.slash_exposure(stash, Exposure(own, own), ppm)

    def tombstone(self, stash: bytes) -> None:
        """End a validator's candidacy for ever."""
        if stash not in self.tombstones:
            self.tombstones[stash] = self.current_era.get()
            self.emit(Tombstoned(stash))

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def lock(self, staker: bytes, validator: bytes, value: int) -> None:
        """Reserve `value` of a staker's and put it behind a validator."""
        self.balances.reserve(staker, value)
        self.change_stake(validator, staker, value)

    def change_stake(self, validator: bytes, staker: bytes, delta: int) -> None:
        """Add to a stake; the one place where stakes, their sums and their counts are written."""
        before = self.stakes[validator, staker]
        after = before + delta
        if after:
            self.stakes[validator, staker] = after
        else:
            del self.stakes[validator, staker]
        backing = self.backing[validator] + delta
        if backing:
            self.backing[validator] = backing
        else:
            del self.backing[validator]
        if staker != validator:
            self.delegator_count[validator] += (after > 0) - (before > 0)

    def _unlock_later(self, staker: bytes, validator: bytes, value: int) -> None:
        until = self.beacon.epoch() + self.unbonding_epochs
        merged = [one for one in self.unlocking[staker] if (one.validator, one.until_epoch) == (validator, until)]
        others = tuple(one for one in self.unlocking[staker] if one not in merged)
        ensure(len(others) < UNLOCKING_MAX, TooManyChunks)
        value_there = sum(one.value for one in merged)
        self.change_stake(validator, staker, -value)
        self.unlocking[staker] = (*others, Unlocking(validator, value_there + value, until))
        self.emit(Unbonded(staker, validator, value, until))

    def _set_unlocking(self, staker: bytes, chunks: tuple[Unlocking, ...]) -> None:
        if chunks:
            self.unlocking[staker] = chunks
        else:
            del self.unlocking[staker]

    def _strike(self, validator: bytes, wanted: Backing) -> int:
        staker = wanted.who
        from_stake = min(wanted.value, self.stakes[validator, staker])
        left = wanted.value - from_stake
        if from_stake:
            self.change_stake(validator, staker, -from_stake)
        chunks = []
        for one in self.unlocking[staker]:
            cut = min(left, one.value) if one.validator == validator else 0
            left -= cut
            if one.value > cut:
                chunks.append(Unlocking(one.validator, one.value - cut, one.until_epoch))
        self._set_unlocking(staker, tuple(chunks))
        taken = wanted.value - left
        if taken:
            self.emit(StakeSlashed(validator, staker, taken))
        return taken

    def set_candidate(self, stash: bytes, candidate: Candidate) -> None:
        """Enter a candidate after checking its keys."""
        keys = (candidate.session_key, candidate.vrf_key, candidate.provider_key)
        ensure(all(is_safe_public_key(key) for key in keys), UnsafeKey)
        ensure(len(frozenset(keys)) == len(keys), KeyTaken)
        ensure(all(self.key_owner[key] in (None, stash) for key in keys), KeyTaken)
        seat = self.seat_of(stash)
        ensure(seat is None or (seat.session_key, seat.vrf_key) == keys[:2], InOffice)
        if stash not in self.candidates:
            ensure(self.candidate_count.get() < CANDIDATES_MAX, TooManyCandidates)
            self.candidate_count.set(self.candidate_count.get() + 1)
        self._forget_keys(stash)
        for key in keys:
            self.key_owner[key] = stash
        self.candidates[stash] = candidate
        self.emit(CandidateSet(stash, *keys, candidate.commission_ppm))

    def _forget_keys(self, stash: bytes) -> None:
        """Free a stash's keys. A validator in office cannot change those that evidence is checked with."""
        before = self.candidates[stash]
        if before is not None:
            for key in (before.session_key, before.vrf_key, before.provider_key):
                del self.key_owner[key]

    def _remove_candidate(self, stash: bytes) -> None:
        self._forget_keys(stash)
        del self.candidates[stash]
        self.candidate_count.set(self.candidate_count.get() - 1)
        self.emit(Chilled(stash))
