"""TrustStake: bonds, candidates and their keys, rewards of eras, slashes of offences.

The storage is in `seats` and `stake_ledger`, delegations in `holdings`, the start of eras in `eras`, elections in
`elections`, slashes in `held_slashes`. This module has the calls.

Invariants:

* Unlocking outlasts evidence (by two eras). Stake that left a validator answers for the validator's offences until then
  and in the next era, because its set may be elected already. Neither leaving nor moving is an escape.
* While a slash of a validator is unapplied, no stake leaves it.
* Stake behind a seat whose owner must stay also stays, until evidence about the seat is too old.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, CompactBalance
from runtime.frame.measured import times
from runtime.frame.pallet import Hold, PostDispatch, Root, Signed, Weight, call, ensure, known
from runtime.pallets.pots import STAKES, STAKING_REWARDS
from runtime.pallets.session_keys import KeysProof, SessionKeys
from runtime.pallets.staking import delegations, eras, holdings
from runtime.pallets.staking.delegations import PoolStep
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import (
    COMMISSION_MAX_PPM,
    PROFILE,
    STAKE,
    UNLOCKING_MAX,
    Candidate,
    CommissionChange,
    Profile,
    ProfileName,
    ProfileWeb,
)
from runtime.pallets.staking.staking_events import (
    AlreadyBonded,
    Bonded,
    BondTooSmall,
    CandidateSet,
    Chilled,
    CommissionAnnounced,
    CommissionFixed,
    CommissionStep,
    CommissionTooHigh,
    CommissionTooLow,
    Delegated,
    EraStarted,
    InvalidKeysProof,
    IsTombstoned,
    Jailed,
    KeyTaken,
    NoProfile,
    NotBonded,
    NotCandidate,
    NotEnoughStake,
    NothingToClaim,
    NothingToWithdraw,
    NotJailed,
    NotTombstoned,
    PoolSpent,
    ProfileSet,
    Redelegated,
    Rewarded,
    SameValidator,
    SetElected,
    SlashCancelled,
    SlashHeld,
    SlashPending,
    SlashTaken,
    StakeSlashed,
    StillAnswering,
    StillCandidate,
    Tombstoned,
    TombstoneLifted,
    TooManyCandidates,
    TooManyChunks,
    TooManyMoves,
    Unbonded,
    Unjailed,
    UnsafeKey,
    Withdrawn,
)
from runtime.pallets.weights import WEIGHTS

NOTICE_ERAS = 2
"""An announced commission applies from the second era after. Delegators have a whole era to leave."""


def withdraw_weight(chunk_count: int = UNLOCKING_MAX) -> Weight:
    """Return the weight of withdrawing this many chunks, each behind a validator of its own."""
    return WEIGHTS["TrustStake.withdraw_unbonded"] + times(
        chunk_count, WEIGHTS["TrustStake.withdraw_unbonded validator"]
    )


class TrustStake(StakeLedger, index=7):
    """Bonds, delegations, candidates, eras, rewards and slashes."""

    # The position is the number on chain: append new events and errors at the end.
    events = (
        Bonded, Delegated, Unbonded, Withdrawn, CandidateSet, Chilled, EraStarted, Rewarded, StakeSlashed, Tombstoned,
        Redelegated, CommissionAnnounced, ProfileSet, SlashHeld, SlashTaken, SlashCancelled, TombstoneLifted,
        SetElected, Jailed, Unjailed,
    )  # fmt: skip
    errors = (
        AlreadyBonded, NotBonded, BondTooSmall, NotCandidate, StillCandidate, TooManyCandidates, TooManyChunks,
        NotEnoughStake, NothingToWithdraw, UnsafeKey, KeyTaken, CommissionTooHigh, IsTombstoned,
        NothingToClaim, PoolSpent, SlashPending, StillAnswering, TooManyMoves, SameValidator, CommissionTooLow,
        CommissionFixed, CommissionStep, NoProfile, NotTombstoned, NotJailed,
        InvalidKeysProof,
    )  # fmt: skip

    hold_reasons = (STAKE, PROFILE)
    storage_version = 2

    # ------------------------------------------------------------------------------------------------- a stash's calls

    @call(index=0, weight=WEIGHTS["TrustStake.bond"])
    def bond(self, origin: Signed, value: CompactBalance) -> None:
        """Bond `value` grains of the signer, the first step to validate or to mine."""
        stash = origin.account
        ensure(self.bonds[stash] == 0, AlreadyBonded)
        ensure(value >= self.validator_bond_min, BondTooSmall)
        self.lock_own(stash, value)
        self.emit(Bonded(stash, value))

    @call(index=1, weight=WEIGHTS["TrustStake.bond_extra"])
    def bond_extra(self, origin: Signed, value: CompactBalance) -> None:
        """Add `value` grains to the signer's bond."""
        stash = origin.account
        ensure(self.bonds[stash] > 0, NotBonded)
        self.lock_own(stash, value)
        self.emit(Bonded(stash, value))

    @call(index=2, weight=WEIGHTS["TrustStake.unbond"])
    def unbond(self, origin: Signed, value: CompactBalance) -> None:
        """Start to unlock `value` grains of the signer's own bond."""
        stash = origin.account
        remaining = self.bonds[stash] - value
        ensure(value > 0 and remaining >= 0, NotEnoughStake)
        # Otherwise the bond would escape a proven slash.
        ensure(not self.pending_slash_counts[stash], SlashPending)
        ensure(stash not in self.candidates or remaining >= self.validator_bond_min, StillCandidate)
        self.set_bond(stash, remaining)
        holdings.unlock_later(self, stash, stash, ((None, value),))

    @call(index=3, weight=withdraw_weight())
    def withdraw_unbonded(self, origin: Signed) -> PostDispatch:
        """Withdraw the signer's unlocked stake, less its slashes."""
        staker = origin.account
        chunks = self.unlocking[staker]
        free = [chunk for chunk in chunks if holdings.is_free(self, chunk)]
        ensure(bool(free), NothingToWithdraw)
        withdrawn_grains = 0
        for validator in dict.fromkeys(chunk.validator for chunk in free):
            own = [chunk for chunk in free if chunk.validator == validator]
            withdrawn_part = sum(chunk.value for chunk in holdings.reckon(self, staker, validator, own))
            holder, stake_hold = self.holder(staker, validator), Hold(STAKE, validator)
            self.balances.pay_held(holder, stake_hold, ((staker, withdrawn_part),))
            if holder != staker:
                self.change_leaving(validator, -withdrawn_part)
            withdrawn_grains += withdrawn_part
        self.set_unlocking(staker, tuple(chunk for chunk in chunks if chunk not in free))
        for validator in dict.fromkeys(chunk.validator for chunk in free):
            self.check_covered(staker, validator)
        self.emit(Withdrawn(staker, withdrawn_grains))
        # Refunds the weight of chunks that were not free.
        return PostDispatch(actual_weight=withdraw_weight(len(free)))

    @call(index=4, weight=WEIGHTS["TrustStake.validate"])
    def validate(
        self, origin: Signed, keys: SessionKeys, proof: KeysProof, provider_key: AccountId, commission_ppm: U32
    ) -> None:
        """Register as a candidate to validate and mine: set the node's keys, the provider key and the commission.

        The proof shows that the owner of the session and VRF keys lets the signer register them. The signer needs a
        bond.
        """
        stash = origin.account
        ensure(stash not in self.tombstones, IsTombstoned)
        ensure(self.bonds[stash] >= self.validator_bond_min, BondTooSmall)
        self._check_commission(commission_ppm)
        self.check_keys(stash, keys, proof)
        self.set_candidate(stash, Candidate(keys.session, keys.vrf, provider_key, commission_ppm))

    @call(index=5, weight=WEIGHTS["TrustStake.chill"])
    def chill(self, origin: Signed) -> None:
        """Withdraw the signer's candidacy: no election and no work from now on. A seat lasts until its set ends."""
        stash = origin.account
        ensure(stash in self.candidates, NotCandidate)
        self.remove_candidate(stash)

    @call(index=12, weight=WEIGHTS["TrustStake.announce_commission"])
    def announce_commission(self, origin: Signed, commission_ppm: U32) -> None:
        """Announce another commission, which applies from the second era after this one."""
        stash = origin.account
        candidate = known(self.candidates[stash], NotCandidate)
        current_ppm = known(self.commission_of(stash), NotCandidate)
        self._check_commission(commission_ppm)
        ensure(abs(commission_ppm - current_ppm) <= self.commission_step, CommissionStep)
        # An earlier announcement that has taken effect becomes the base of this one.
        self.candidates[stash] = replace(candidate, commission_ppm=current_ppm)
        change_era = self.current_era.get() + NOTICE_ERAS
        self.commission_changes[stash] = CommissionChange(commission_ppm, change_era)
        self.emit(CommissionAnnounced(stash, commission_ppm, change_era))

    @call(index=14, weight=WEIGHTS["TrustStake.set_profile"])
    def set_profile(self, origin: Signed, name: ProfileName, web: ProfileWeb) -> None:
        """Set the signer's name and web address, unchecked, for a deposit. Two empty texts return the deposit."""
        stash, previous = origin.account, self.profiles[origin.account]
        profile_hold, is_empty = Hold(PROFILE, stash), not name and not web
        if is_empty:
            ended_profile = known(previous, NoProfile)
            del self.profiles[stash]
            self.balances.release(stash, profile_hold, ended_profile.deposit)
            self.balances.check_ended(profile_hold)
        else:
            ensure(stash in self.candidates, NotCandidate)
            # The deposit held once, even if the parameter has changed since.
            deposit_grains = self.profile_deposit if previous is None else previous.deposit
            if previous is None:
                self.balances.hold(stash, profile_hold, deposit_grains)
            self.profiles[stash] = Profile(name, web, deposit_grains)
        self.emit(ProfileSet(stash, name, web))

    @call(index=16, weight=WEIGHTS["TrustStake.unjail"])
    def unjail(self, origin: Signed) -> None:
        """Leave jail: the next election may seat the signer again, if it is on line."""
        stash = origin.account
        ensure(stash in self.jailed, NotJailed)
        del self.jailed[stash]
        self.emit(Unjailed(stash))

    # --------------------------------------------------------------------------------------------- a delegator's calls

    @call(index=6, weight=WEIGHTS["TrustStake.delegate"])
    def delegate(self, origin: Signed, validator: AccountId, value: CompactBalance) -> None:
        """Delegate `value` grains to a candidate, to share its rewards and its slashes."""
        self._join(origin.account, validator, value)
        self.emit(Delegated(origin.account, validator, value))

    @call(index=7, weight=WEIGHTS["TrustStake.undelegate"])
    def undelegate(self, origin: Signed, validator: AccountId, value: CompactBalance) -> None:
        """Start to unlock `value` delegated grains: all, or down to the minimum."""
        delegator = origin.account
        self._check_leaving(delegator, validator, value)
        with self._living(delegator):
            departed = holdings.take(self, delegator, validator, value)
            holdings.unlock_later(self, delegator, validator, departed.amounts)
        self.check_covered(delegator, validator)

    @call(index=9, weight=WEIGHTS["TrustStake.redelegate"])
    def redelegate(self, origin: Signed, source: AccountId, target: AccountId, value: CompactBalance) -> None:
        """Move delegated stake to another candidate without waiting. It answers for both until evidence is too old."""
        delegator = origin.account
        ensure(source != target, SameValidator)
        self._check_leaving(delegator, source, value)
        self._check_joining(delegator, target, value)
        answered = holdings.answer_now(self, source)
        with self._living(delegator):
            departed = holdings.take(self, delegator, source, value, is_moving=True)
            moved_grains = sum(amount for _, amount in departed.amounts)
            self.balances.rededicate(STAKES, Hold(STAKE, source), Hold(STAKE, target), moved_grains)
            holdings.add(self, delegator, target, moved_grains, answered)
        self.check_covered(delegator, source)
        self.check_covered(delegator, target)
        self.emit(Redelegated(delegator, source, target, moved_grains))

    @call(index=10, weight=WEIGHTS["TrustStake.claim"])
    def claim(self, origin: Signed, validator: AccountId) -> None:
        """Claim the signer's rewards from a validator. For its own rewards, a validator names itself."""
        self._claim(origin.account, validator)

    @call(index=11, weight=WEIGHTS["TrustStake.compound"])
    def compound(self, origin: Signed, validator: AccountId) -> None:
        """Claim the signer's rewards from a validator, and stake them with the same validator."""
        staker = origin.account
        earned_grains = self._claim(staker, validator)
        if staker == validator:
            ensure(self.bonds[staker] > 0, NotBonded)
            self.lock_own(staker, earned_grains)
            self.emit(Bonded(staker, earned_grains))
        else:
            self._join(staker, validator, earned_grains)
            self.emit(Delegated(staker, validator, earned_grains))

    @call(index=13, weight=WEIGHTS["TrustStake.collect"])
    def collect(self, origin: Signed, staker: AccountId, validator: AccountId) -> None:
        """Take past slashes from a staker's stake behind a validator now. Anyone may call this."""
        ensure(
            validator == staker or (staker, validator) in self.delegations or staker in self.unlocking, NotEnoughStake
        )
        if (staker, validator) in self.delegations:
            holdings.write(self, staker, validator, holdings.up_to_date(self, staker, validator))
        chunks = self.unlocking[staker]
        own = [chunk for chunk in chunks if chunk.validator == validator]
        charged = iter(holdings.reckon(self, staker, validator, own))
        kept = [next(charged) if chunk.validator == validator else chunk for chunk in chunks]
        self.set_unlocking(staker, tuple(kept_chunk for kept_chunk in kept if kept_chunk.value))
        self.check_covered(staker, validator)

    # ---------------------------------------------------------------------------------------------------- Root's calls

    @call(index=15, weight=WEIGHTS["TrustStake.lift_tombstone"])
    def lift_tombstone(self, origin: Root, stash: AccountId) -> None:
        """Let a validator return. Its offences until now are forgiven and cannot be reported any more."""
        ensure(stash in self.tombstones, NotTombstoned)
        was_candidate = self.is_candidate(stash)
        del self.tombstones[stash]
        # Old evidence must not tombstone the validator again.
        self.lifted_tombstones[stash] = self.beacon.epoch()
        self.note_newcomer(stash, was_candidate=was_candidate)
        self.emit(TombstoneLifted(stash))

    # ------------------------------------------------------------------------------------------------------- hooks

    def on_initialize(self) -> Weight | None:
        """Check the header's statement about the next validators, start the epoch if due, record the author."""
        eras.check_next_validators(self)
        return eras.enter(self)

    def genesis(self, config: dict[str, Any]) -> None:
        """Seat the validators of the chain specification: `{"validators": [{"stash", "bond", ...}]}`."""
        # Stake that leaves in an era's first epoch answers for the last epoch of the next era: evidence must find it.
        if self.unbonding_epochs <= self.evidence_epochs + 2 * self.era_epochs:
            raise ValueError("unbonding_epochs must exceed evidence_epochs + 2 x era_epochs")
        eras.seat_genesis(self, config.get("validators", []))

    # -------------------------------------------------------------------------------------------------------- offences

    def tombstone(self, stash: bytes) -> None:
        """Tombstone a validator, until Root lifts it."""
        if stash not in self.tombstones:
            self.tombstones[stash] = self.current_era.get()
            self.emit(Tombstoned(stash))

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _check_commission(self, commission_ppm: int) -> None:
        ensure(commission_ppm <= COMMISSION_MAX_PPM, CommissionTooHigh)
        ensure(commission_ppm >= self.commission_min, CommissionTooLow)

    def _check_joining(self, delegator: bytes, validator: bytes, joining_grains: int) -> None:
        ensure(validator in self.candidates and validator != delegator, NotCandidate)
        ensure(validator not in self.tombstones, IsTombstoned)
        ensure(
            not self.pending_slash_counts[validator], SlashPending
        )  # its tombstone was lifted before its slash was taken
        ensure(holdings.stake_of(self, delegator, validator) + joining_grains >= self.delegation_min, BondTooSmall)

    def _check_leaving(self, delegator: bytes, validator: bytes, leaving_grains: int) -> None:
        remaining_grains = holdings.stake_of(self, delegator, validator) - leaving_grains
        ensure(validator != delegator, NotCandidate)
        ensure((delegator, validator) in self.delegations, NotEnoughStake)
        # Taking out 0 is allowed if slashes left nothing: it removes the record.
        ensure(remaining_grains >= 0 and (leaving_grains > 0 or remaining_grains == 0), NotEnoughStake)
        ensure(not self.pending_slash_counts[validator], SlashPending)
        ensure(remaining_grains == 0 or remaining_grains >= self.delegation_min, BondTooSmall)

    def _join(self, delegator: bytes, validator: bytes, joining_grains: int) -> None:
        self._check_joining(delegator, validator, joining_grains)
        with self._living(delegator):
            self.balances.entrust(delegator, STAKES, Hold(STAKE, validator), joining_grains)
            holdings.add(self, delegator, validator, joining_grains)
        self.check_covered(delegator, validator)

    @contextmanager
    def _living(self, staker: bytes) -> Iterator[None]:
        """Keep an account alive during a step that takes everything it owns or moves its only stake."""
        self.balances.sustain(staker, 1)
        yield
        self.balances.sustain(staker, -1)

    def _claim(self, staker: bytes, validator: bytes) -> int:
        """Pay a staker's rewards. Raise NothingToClaim if there are none."""
        if staker == validator:
            earned_grains = self.pending_rewards[staker]
            del self.pending_rewards[staker]
        else:
            ensure((staker, validator) in self.delegations, NothingToClaim)
            standing = holdings.up_to_date(self, staker, validator)
            standing, earned_grains = delegations.pay(standing.pool, standing.position)
            holdings.write(self, staker, validator, PoolStep(standing.pool, standing.position))
        ensure(earned_grains > 0, NothingToClaim)
        paid_grains = self.pay_from(STAKING_REWARDS, staker, earned_grains)
        self.emit(Rewarded(staker, validator, paid_grains))
        return paid_grains
