"""The ground of TrustStake: its storage, what may be asked of it, and the verbs that keep its sums true.

Always:
* Every grain behind a validator is held on its owner's account, with the validator as the case: for each staker and
  validator, the stake and the unlocking chunks together are what is held.
* `backing[v]` is the sum of `stakes[v, *]`.
* No two candidates share a key, and who holds office keeps the keys that evidence is checked with.
"""

from runtime.blocks.digest import NextValidators
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import is_safe_public_key
from runtime.encoding.codec import U32, codec
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, BlockNumber
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import Constant, Hold, Pallet, Parameter, StorageDoubleMap, StorageMap, StorageValue, ensure
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking.exposures import Exposure
from runtime.pallets.staking.stakers import (
    CANDIDATES_MAX,
    STAKE,
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
    may_be_elected,
)
from runtime.pallets.staking.staking_events import (
    CandidateSet,
    Chilled,
    InOffice,
    KeyTaken,
    TooManyCandidates,
    UnsafeKey,
)
from runtime.pallets.system import System


class StakeLedger(Pallet):
    """Bonds, delegations, candidates and eras as the state holds them."""

    system: System
    balances: Balances
    beacon: Beacon
    session: Session

    era_epochs: Constant[U32] = Constant(1, doc="Epochs in an era.")
    unbonding_epochs: Constant[U32] = Constant(6, doc="Epochs that unbonded stake stays locked.")
    evidence_epochs: Constant[U32] = Constant(3, doc="Epochs in which an offence may be reported.")
    validator_seats: Constant[U32] = Constant(16, doc="Candidates that an election seats.")
    history_eras: Constant[U32] = Constant(84, doc="Eras for which rewards may be claimed.")

    validator_bond_min: Parameter[Grains] = Parameter(
        10 * GRAINS_PER_OGPU,
        unit="grains",
        least=GRAINS_PER_OGPU,
        greatest=10_000 * GRAINS_PER_OGPU,
        doc="Least own bond of a candidate: who validates and judges must have something to lose.",
    )
    delegation_min: Parameter[Grains] = Parameter(
        GRAINS_PER_OGPU,
        unit="grains",
        least=GRAINS_PER_OGPU // 100,
        greatest=1_000 * GRAINS_PER_OGPU,
        doc="Least delegation: each is a record, and a share to pay in every era.",
    )
    emission_divisor: Parameter[U32] = Parameter(
        3160,
        unit="parts",
        least=100,
        greatest=10_000_000,
        doc="An era emits the reserve divided by this: less and less for ever.",
    )
    emission_validators: Parameter[U32] = Parameter(
        500_000,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="Of the emission, to validators and those behind them.",
    )
    emission_providers: Parameter[U32] = Parameter(
        400_000,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="Of the emission, to providers; the treasury has the rest.",
    )

    stakes: StorageDoubleMap[AccountId, AccountId, Grains] = StorageDoubleMap(
        default=0, doc="Stake by validator and staker; a validator's own bond is under itself twice."
    )
    backing: StorageMap[AccountId, Grains] = StorageMap(default=0, doc="All stake behind a validator.")
    delegator_count: StorageMap[AccountId, U32] = StorageMap(default=0)
    unlocking: StorageMap[AccountId, Unlockings] = StorageMap(default=(), doc="Stake on its way out, by staker.")
    candidates: StorageMap[AccountId, Candidate | None] = StorageMap(doc="Who offers to validate and to mine.")
    candidate_count: StorageValue[U32] = StorageValue(default=0)
    candidate_since: StorageMap[AccountId, BlockNumber] = StorageMap(
        default=0, doc="The block since which a candidate may be elected and drawn; 0 for those of block 0."
    )
    newcomers: StorageMap[AccountId, bool] = StorageMap(
        default=False, doc="Candidates who came, or came back, and of whom those who draw them have not been told."
    )
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

    # ---------------------------------------------------------------------------------------------- what may be asked

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
        """Whether the stash may be elected and drawn for work."""
        return stash in self.candidates and may_be_elected(
            is_tombstoned=stash in self.tombstones,
            own_stake=self.stakes[stash, stash],
            least=self.validator_bond_min,
        )

    def stash_of(self, provider_key: bytes) -> bytes | None:
        """The candidate whose daemon uses this account."""
        stash = self.key_owner[provider_key]
        candidate = self.candidates[stash] if stash else None
        return stash if candidate and candidate.provider_key == provider_key else None

    def era_reward(self, era: int, validator: bytes) -> tuple[int, Exposure | None]:
        """What a validator and its delegators earned in an ended era, and the stake that shares it."""
        reward, points = self.eras_reward[era], self.eras_points[era]
        total = sum(entry.points for entry in points)
        mine = sum(entry.points for entry in points if entry.stash == validator)
        amount = reward.total * mine // total if reward and total else 0
        return amount, self.eras_exposure[era, validator]

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def lock(self, staker: bytes, validator: bytes, value: int) -> None:
        """Hold `value` of a staker's, and put it behind a validator."""
        was_candidate = staker != validator or self.is_candidate(validator)
        self.balances.hold(staker, Hold(STAKE, validator), value)
        self.change_stake(validator, staker, value)
        self._note_newcomer(validator, was_candidate=was_candidate)

    def check_covered(self, staker: bytes, validator: bytes, leaving: int) -> None:
        """Where stake ends: what is held for `validator` stands behind it, waits to leave, or is `leaving` now."""
        waiting = sum(chunk.value for chunk in self.unlocking[staker] if chunk.validator == validator)
        staying = self.stakes[validator, staker]
        held = self.balances.held(staker, Hold(STAKE, validator))
        assert waiting + staying + leaving == held, "stake that nobody holds, or held and nobody's stake"

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

    def set_unlocking(self, staker: bytes, chunks: tuple[Unlocking, ...]) -> None:
        """Replace what a staker has on its way out."""
        if chunks:
            self.unlocking[staker] = chunks
        else:
            del self.unlocking[staker]

    def set_candidate(self, stash: bytes, candidate: Candidate) -> None:
        """Enter a candidate after checking its keys."""
        was_candidate = self.is_candidate(stash)
        keys = (candidate.session_key, candidate.vrf_key, candidate.provider_key)
        # One signature of a key of small order fits many messages: evidence against it would prove nothing (ADR 6).
        ensure(all(is_safe_public_key(key) for key in keys), UnsafeKey)
        ensure(len(frozenset(keys)) == len(keys), KeyTaken)
        ensure(all(self.key_owner[key] in (None, stash) for key in keys), KeyTaken)
        seat = self.seat_of(stash)
        # Evidence of an offence is checked with the keys of the seat: changing them would be an escape.
        ensure(seat is None or (seat.session_key, seat.vrf_key) == keys[:2], InOffice)
        if stash not in self.candidates:
            ensure(self.candidate_count.get() < CANDIDATES_MAX, TooManyCandidates)
            self.candidate_count.set(self.candidate_count.get() + 1)
        self._forget_keys(stash)
        for key in keys:
            self.key_owner[key] = stash
        self.candidates[stash] = candidate
        self._note_newcomer(stash, was_candidate=was_candidate)
        self.emit(CandidateSet(stash, *keys, candidate.commission_ppm))

    def forget_newcomer(self, stash: bytes) -> None:
        """For those who draw candidates: they know of this one now."""
        del self.newcomers[stash]

    def _note_newcomer(self, stash: bytes, *, was_candidate: bool) -> None:
        """Who may be drawn from this block on could choose it to suit a beacon: it counts for nothing from before."""
        height = self.system.number.get()
        if height and not was_candidate and self.is_candidate(stash):
            self.candidate_since[stash] = height
            self.newcomers[stash] = True

    def _forget_keys(self, stash: bytes) -> None:
        before = self.candidates[stash]
        if before is not None:
            for key in (before.session_key, before.vrf_key, before.provider_key):
                del self.key_owner[key]

    def remove_candidate(self, stash: bytes) -> None:
        """End an offer; its keys may belong to others from now on."""
        self._forget_keys(stash)
        del self.candidates[stash]
        del self.candidate_since[stash]
        self.candidate_count.set(self.candidate_count.get() - 1)
        self.emit(Chilled(stash))
