"""TrustStake: who bonds what, who validates with which keys, what an era pays, what an offence takes.

The storage lies in `stake_ledger`, the work of an era's turn in `eras`; here are the calls and what an offence takes.

Always:
* Unlocking lasts longer than evidence may be reported (by an era and two epochs), and chunks can be slashed,
  so leaving is no escape.
* The validators in office are those of the genesis, in every epoch of this release: the election
  is made and shown each era and takes office with a later one. Their genesis bonds stay.
"""

from typing import Any

from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, CompactBalance
from runtime.frame.measured import times
from runtime.frame.pallet import Hold, PostDispatch, Signed, Weight, call, ensure
from runtime.pallets.staking import eras
from runtime.pallets.staking.exposures import DELEGATORS_PER_VALIDATOR_MAX, Backing, Exposure, slash_parts
from runtime.pallets.staking.slashing import Loss
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import (
    COMMISSION_MAX_PPM,
    STAKE,
    UNLOCKING_MAX,
    Candidate,
    EraIndex,
    PublicKey,
    Unlocking,
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
from runtime.pallets.weights import WEIGHTS


def withdraw_weight(validators: int = UNLOCKING_MAX) -> Weight:
    """Of chunks that stood behind so many validators: each is a case of its own."""
    return WEIGHTS["TrustStake.withdraw_unbonded"] + times(
        validators, WEIGHTS["TrustStake.withdraw_unbonded validator"]
    )


class TrustStake(StakeLedger, index=7):
    """Bonds, delegations, candidates, eras, rewards and slashes."""

    events = (
        Bonded, Delegated, Unbonded, Withdrawn, CandidateSet, Chilled, EraStarted, Rewarded, StakeSlashed, Tombstoned,
    )  # fmt: skip
    errors = (
        AlreadyBonded, NotBonded, BondTooSmall, NotCandidate, StillCandidate, TooManyCandidates, TooManyDelegators,
        TooManyChunks, NotEnoughStake, NothingToWithdraw, UnsafeKey, KeyTaken, CommissionTooHigh, InOffice,
        IsTombstoned, NothingToClaim,
    )  # fmt: skip

    hold_reasons = (STAKE,)

    # ------------------------------------------------------------------------------------------------------- calls

    @call(index=0, weight=WEIGHTS["TrustStake.bond"])
    def bond(self, origin: Signed, value: CompactBalance) -> None:
        """Bond `value` grains of the signer's own, the first step to validate or to mine."""
        stash = origin.account
        ensure(self.stakes[stash, stash] == 0, AlreadyBonded)
        ensure(value >= self.validator_bond_min, BondTooSmall)
        self.lock(stash, stash, value)
        self.emit(Bonded(stash, value))

    @call(index=1, weight=WEIGHTS["TrustStake.bond_extra"])
    def bond_extra(self, origin: Signed, value: CompactBalance) -> None:
        """Add `value` grains to the signer's bond."""
        stash = origin.account
        ensure(self.stakes[stash, stash] > 0, NotBonded)
        self.lock(stash, stash, value)
        self.emit(Bonded(stash, value))

    @call(index=2, weight=WEIGHTS["TrustStake.unbond"])
    def unbond(self, origin: Signed, value: CompactBalance) -> None:
        """Begin to take `value` grains out of the signer's own bond."""
        stash = origin.account
        remaining = self.stakes[stash, stash] - value
        ensure(value > 0 and remaining >= 0, NotEnoughStake)
        ensure(remaining >= self.genesis_bond(stash), InOffice)
        ensure(stash not in self.candidates or remaining >= self.validator_bond_min, StillCandidate)
        self._unlock_later(stash, stash, value)

    @call(index=3, weight=withdraw_weight())
    def withdraw_unbonded(self, origin: Signed) -> PostDispatch:
        """Free what the signer unbonded long enough ago."""
        staker = origin.account
        epoch = self.beacon.epoch()
        chunks = self.unlocking[staker]
        waiting = tuple(chunk for chunk in chunks if chunk.until_epoch > epoch)
        leaving: dict[bytes, int] = {}
        for chunk in chunks:
            if chunk.until_epoch <= epoch:
                leaving[chunk.validator] = leaving.get(chunk.validator, 0) + chunk.value
        ensure(len(waiting) < len(chunks), NothingToWithdraw)
        self.set_unlocking(staker, waiting)
        for validator, amount in leaving.items():
            self.check_covered(staker, validator, amount)
            self.balances.release(staker, Hold(STAKE, validator), amount)
        self.emit(Withdrawn(staker, sum(leaving.values())))
        return PostDispatch(actual_weight=withdraw_weight(len(leaving)))

    @call(index=4, weight=WEIGHTS["TrustStake.validate"])
    def validate(
        self, origin: Signed, session_key: PublicKey, vrf_key: PublicKey, provider_key: AccountId, commission_ppm: U32
    ) -> None:
        """Offer to validate and to mine: link the signer's bond with a session, a VRF and a provider key."""
        stash = origin.account
        ensure(stash not in self.tombstones, IsTombstoned)
        ensure(self.stakes[stash, stash] >= self.validator_bond_min, BondTooSmall)
        ensure(commission_ppm <= COMMISSION_MAX_PPM, CommissionTooHigh)
        self.set_candidate(stash, Candidate(session_key, vrf_key, provider_key, commission_ppm))

    @call(index=5, weight=WEIGHTS["TrustStake.chill"])
    def chill(self, origin: Signed) -> None:
        """Stop to offer: not elected from the next era on, not drawn for work from now on."""
        stash = origin.account
        ensure(stash in self.candidates, NotCandidate)
        ensure(self.seat_of(stash) is None, InOffice)
        self.remove_candidate(stash)

    @call(index=6, weight=WEIGHTS["TrustStake.delegate"])
    def delegate(self, origin: Signed, validator: AccountId, value: CompactBalance) -> None:
        """Put `value` grains behind a candidate, to share its rewards and its slashes."""
        delegator = origin.account
        ensure(validator in self.candidates and validator != delegator, NotCandidate)
        before = self.stakes[validator, delegator]
        ensure(before + value >= self.delegation_min, BondTooSmall)
        ensure(before > 0 or self.delegator_count[validator] < DELEGATORS_PER_VALIDATOR_MAX, TooManyDelegators)
        self.lock(delegator, validator, value)
        self.emit(Delegated(delegator, validator, value))

    @call(index=7, weight=WEIGHTS["TrustStake.undelegate"])
    def undelegate(self, origin: Signed, validator: AccountId, value: CompactBalance) -> None:
        """Begin to take `value` grains back from behind a validator: all, or down to the minimum."""
        delegator = origin.account
        remaining = self.stakes[validator, delegator] - value
        ensure(validator != delegator, NotCandidate)
        ensure(value > 0 and remaining >= 0, NotEnoughStake)
        ensure(remaining == 0 or remaining >= self.delegation_min, BondTooSmall)
        self._unlock_later(delegator, validator, value)

    @call(index=8, weight=WEIGHTS["TrustStake.payout_stakers"])
    def payout_stakers(self, origin: Signed, validator: AccountId, era: EraIndex) -> None:
        """Pay a validator and its delegators for an ended era; anybody may ask for it, once."""
        paid = eras.pay_out(self, validator, era)
        ensure(bool(paid), NothingToClaim)
        for share in paid:
            self.emit(Rewarded(share.payee or b"", validator, era, share.amount))

    # ------------------------------------------------------------------------------------------------------- hooks

    def on_initialize(self) -> Weight | None:
        """Check what the header says of the next validators; begin the era; note the author's work."""
        eras.check_next_validators(self)
        return eras.enter(self)

    def genesis(self, config: dict[str, Any]) -> None:
        """Seat the validators of the chain specification: `{"validators": [{"stash", "bond", ...}]}`."""
        # an exposure is frozen for its whole era: evidence of the era's last epoch strikes who left in its first
        if self.unbonding_epochs < self.evidence_epochs + self.era_epochs + 2:
            raise ValueError("unbonding must outlast evidence by an era and two epochs")
        eras.seat_genesis(self, config.get("validators", []))

    # ---------------------------------------------------------------------------------------- what an offence takes

    def offence_exposure(self, stash: bytes, era: int) -> tuple[Exposure, int]:
        """The stake behind an offender in an era and all stake elected; its own bond if it was not elected."""
        exposed = self.eras_exposure[era, stash]
        if exposed is None:
            own = self.stakes[stash, stash]
            exposed = Exposure(own, own)
        return exposed, max(self.eras_total[era], exposed.total)

    def slash_exposure(self, stash: bytes, exposed: Exposure, ppm: int) -> tuple[Loss, ...]:
        """Strike `ppm` of what was exposed from each staker's stake; what was struck, for the caller to pay on.

        It stays held on the stakers' accounts until then. Stakes go first, then what is unlocking
        from this validator; less is struck where less is left.
        """
        hold = Hold(STAKE, stash)
        struck = [Loss(part.who, hold, self._strike(stash, part)) for part in slash_parts(stash, exposed, ppm)]
        return tuple(loss for loss in struck if loss.amount)

    def tombstone(self, stash: bytes) -> None:
        """End a validator's candidacy for ever."""
        if stash not in self.tombstones:
            self.tombstones[stash] = self.current_era.get()
            self.emit(Tombstoned(stash))

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _unlock_later(self, staker: bytes, validator: bytes, value: int) -> None:
        until = self.beacon.epoch() + self.unbonding_epochs
        merged = 0
        others = []
        for chunk in self.unlocking[staker]:
            # One chunk for a validator and an epoch: else small steps would soon fill the list.
            if (chunk.validator, chunk.until_epoch) == (validator, until):
                merged += chunk.value
            else:
                others.append(chunk)
        ensure(len(others) < UNLOCKING_MAX, TooManyChunks)
        self.change_stake(validator, staker, -value)
        self.unlocking[staker] = (*others, Unlocking(validator, merged + value, until))
        self.emit(Unbonded(staker, validator, value, until))

    def _strike(self, validator: bytes, wanted: Backing) -> int:
        """Take what was wanted of one staker, or what there is; the grains taken, which stay held."""
        staker = wanted.who
        from_stake = min(wanted.value, self.stakes[validator, staker])
        left = wanted.value - from_stake
        if from_stake:
            self.change_stake(validator, staker, -from_stake)
        chunks = []
        for chunk in self.unlocking[staker]:
            # What is leaving can be struck too: else unbonding between offence and report would be an escape.
            cut = min(left, chunk.value) if chunk.validator == validator else 0
            left -= cut
            if chunk.value > cut:
                chunks.append(Unlocking(chunk.validator, chunk.value - cut, chunk.until_epoch))
        self.set_unlocking(staker, tuple(chunks))
        taken = wanted.value - left
        self.check_covered(staker, validator, taken)
        if taken:
            self.emit(StakeSlashed(validator, staker, taken))
        return taken
