"""The storage of TrustStake: its records, its queries, and the methods that keep its sums true.

Invariants:

* Every grain behind a validator is held with the validator as the case. A validator's own stake is held on its account:
  its bond and its own unlocking chunks together. Delegated stake is held on the account `STAKES`:
  `pools[v].stake.value` and `unbonding_delegations[v]` together, of which the latter is the sum of the delegators'
  chunks.
* An account with a position or a chunk is sustained: it lives with any balance.
* The pot of rewards owes the sum of `pending_rewards` and of the pools' `owed`.
* No two candidates share a key, and a session key that was in a set never belongs to another stash.
"""

from collections.abc import Iterable

from runtime.cryptography.signatures import is_safe_public_key
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, BlockNumber
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import Constant, Hold, Parameter, StorageDoubleMap, StorageMap, StorageValue, ensure
from runtime.pallets.balances import Balances, Transfer
from runtime.pallets.pots import STAKES, TREASURY
from runtime.pallets.session_keys import KeysProof, SessionKeys, verify_keys
from runtime.pallets.staking.delegations import EraPosting, Pool, Position
from runtime.pallets.staking.seats import SeatLedger
from runtime.pallets.staking.slash_factors import Factors
from runtime.pallets.staking.slashing import REPORTER_PPM, VICTIM_PPM, Exposure, SlashSplit, slash_shares
from runtime.pallets.staking.stakers import (
    CANDIDATES_MAX,
    STAKE,
    Candidate,
    CommissionChange,
    EpochIndex,
    EraIndex,
    EraPoints,
    HeldSlash,
    Profile,
    PublicKey,
    Standings,
    Unlocking,
    Unlockings,
    may_be_elected,
)
from runtime.pallets.staking.staking_events import (
    CandidateSet,
    Chilled,
    CommissionFixed,
    InvalidKeysProof,
    KeyTaken,
    StakeSlashed,
    TooManyCandidates,
    UnsafeKey,
)


class StakeLedger(SeatLedger):
    """Bonds, delegations, candidates and eras in the state."""

    balances: Balances

    history_eras: Constant[U32] = Constant(84, doc="Eras for which exposures, points and rewards are stored.")

    validator_bond_min: Parameter[Grains] = Parameter(
        10 * GRAINS_PER_OGPU,
        unit="grains",
        least=GRAINS_PER_OGPU,
        greatest=10_000 * GRAINS_PER_OGPU,
        doc="Least own bond of a candidate. Validators, checkers and voters must have something to lose.",
    )
    delegation_min: Parameter[Grains] = Parameter(
        GRAINS_PER_OGPU,
        unit="grains",
        least=GRAINS_PER_OGPU // 100,
        greatest=1_000 * GRAINS_PER_OGPU,
        doc="Least delegation. Each delegation is a record in every node's state.",
    )
    emission_divisor: Parameter[U32] = Parameter(
        3160,
        unit="parts",
        least=100,
        greatest=10_000_000,
        doc="Divisor of the reserve. An era emits reserve / divisor, so the emission falls from era to era.",
    )
    emission_validators: Parameter[U32] = Parameter(
        500_000,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="Share of the emission for validators and their delegators.",
    )
    emission_providers: Parameter[U32] = Parameter(
        400_000,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="Share of the emission for providers. The treasury receives the rest.",
    )

    slash_treasury: Parameter[U32] = Parameter(
        VICTIM_PPM,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="The treasury's share of a slash for a consensus offence.",
    )
    slash_reporter: Parameter[U32] = Parameter(
        REPORTER_PPM,
        unit="ppm",
        least=1,
        greatest=500_000,
        doc="The reporter's share of a slash for a consensus offence. Reporting must pay.",
    )
    commission_min: Parameter[U32] = Parameter(
        50_000,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="Least commission. Validators that ask for none would drive out those that live on theirs.",
    )
    commission_step: Parameter[U32] = Parameter(
        10_000,
        unit="ppm",
        least=1_000,
        greatest=1_000_000,
        doc="Greatest change of a commission in an era. Delegators need time to react.",
    )
    profile_deposit: Parameter[Grains] = Parameter(
        GRAINS_PER_OGPU // 10,
        unit="grains",
        least=0,
        greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for a name and a web address. Each is a record in every node's state.",
    )

    bonds: StorageMap[AccountId, Grains] = StorageMap(default=0, doc="A validator's own bond.")
    pools: StorageMap[AccountId, Pool] = StorageMap(default=Pool(), doc="A validator's pool of delegations.")
    delegations: StorageDoubleMap[AccountId, AccountId, Position | None] = StorageDoubleMap(
        doc="A delegator's position in a validator's pool, by delegator and validator."
    )
    era_rewards_per_share: StorageDoubleMap[AccountId, EraIndex, EraPosting] = StorageDoubleMap(
        default=EraPosting(), doc="An era's rewards per share, for delegators that joined in that era."
    )
    slash_factors: StorageMap[AccountId, Factors] = StorageMap(
        default=(), doc="The fraction of departed stake that remains after each offence of a validator."
    )
    pending_rewards: StorageMap[AccountId, Grains] = StorageMap(
        default=0, doc="A validator's unclaimed rewards: its commission and the rewards of its bond."
    )
    unbonding_delegations: StorageMap[AccountId, Grains] = StorageMap(
        default=0, doc="Delegated grains that are unbonding, by validator."
    )
    unlocking: StorageMap[AccountId, Unlockings] = StorageMap(default=(), doc="Unbonding stake, by staker.")
    candidates: StorageMap[AccountId, Candidate | None] = StorageMap(
        doc="Candidates for elections and for the market's draws."
    )
    candidate_count: StorageValue[U32] = StorageValue(default=0)
    candidate_since: StorageMap[AccountId, BlockNumber] = StorageMap(
        default=0, doc="The block from which a candidate may be elected and drawn. 0: since genesis."
    )
    new_candidates: StorageMap[AccountId, bool] = StorageMap(
        default=False, doc="New and returned candidates that the drawing pallets do not list yet."
    )
    commission_changes: StorageMap[AccountId, CommissionChange | None] = StorageMap(
        doc="A validator's announced change of commission."
    )
    last_commission: StorageMap[AccountId, U32 | None] = StorageMap(
        doc="The last commission of a former candidate that had delegators when it withdrew."
    )
    profiles: StorageMap[AccountId, Profile | None] = StorageMap(doc="Names and web addresses of validators.")
    key_owner: StorageMap[PublicKey, AccountId | None] = StorageMap(
        doc="The owner of a key. A proof takes a provider key from a candidate that only named it."
    )
    tombstones: StorageMap[AccountId, EraIndex | None] = StorageMap(
        doc="Offenders that may not return, and since which era."
    )
    lifted_tombstones: StorageMap[AccountId, EpochIndex | None] = StorageMap(
        doc="The epoch in which Root lifted a validator's tombstone. Offences up to that epoch are forgiven."
    )

    current_era: StorageValue[EraIndex] = StorageValue(default=0)
    elected: StorageValue[Standings] = StorageValue(
        default=(),
        doc="The paid members of the current era and the stake behind each. They were candidates at its start.",
    )
    eras_exposure: StorageDoubleMap[EraIndex, AccountId, Exposure | None] = StorageDoubleMap(
        doc="The stake behind each member of the set at the start of an era."
    )
    eras_total_stake: StorageMap[EraIndex, Grains] = StorageMap(
        default=0, doc="The stake behind all members of an era's set."
    )
    eras_reward_points: StorageMap[EraIndex, EraPoints] = StorageMap(default=(), doc="Points for blocks, by author.")
    eras_validator_reward: StorageMap[EraIndex, Grains | None] = StorageMap(
        doc="Rewards of an ended era for validators and their delegators."
    )

    unapplied_slashes: StorageDoubleMap[AccountId, U32, HeldSlash | None] = StorageDoubleMap(
        doc="Unapplied slashes, by offender and number."
    )
    slash_queue: StorageMap[U32, AccountId | None] = StorageMap(doc="The offender of each unapplied slash, by number.")
    next_slash_number: StorageValue[U32] = StorageValue(default=0, doc="The number of the next slash.")
    first_slash_number: StorageValue[U32] = StorageValue(
        default=0, doc="The least number that an unapplied slash can have."
    )
    pending_slash_counts: StorageMap[AccountId, U32] = StorageMap(
        default=0,
        doc="The number of a validator's unapplied slashes. No stake leaves the validator while it is above 0.",
    )

    # -------------------------------------------------------------------------------------------------------- queries

    def is_candidate(self, stash: bytes) -> bool:
        """Return True if the stash may be elected and drawn for work."""
        return stash in self.candidates and may_be_elected(
            is_tombstoned=stash in self.tombstones,
            own_stake=self.bonds[stash],
            least=self.validator_bond_min,
        )

    def stash_of(self, provider_key: bytes) -> bytes | None:
        """Return the candidate whose provider daemon uses this account."""
        stash = self.key_owner[provider_key]
        candidate = self.candidates[stash] if stash else None
        return stash if candidate and candidate.provider_key == provider_key else None

    def behind(self, validator: bytes) -> int:
        """Return all stake behind a validator."""
        return self.bonds[validator] + self.pools[validator].stake.value

    def owners(self, session_keys: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the stashes that own these session keys, each once."""
        owner_stashes = dict.fromkeys(self.key_owner[key] for key in session_keys)
        return tuple(stash for stash in owner_stashes if stash is not None)

    def commission_of(self, validator: bytes) -> int | None:
        """Return a candidate's current commission in millionths, None without a candidacy."""
        candidate, announced = self.candidates[validator], self.commission_changes[validator]
        if candidate is None:
            return None
        is_change_due = announced is not None and announced.era <= self.current_era.get()
        asked_ppm = announced.commission_ppm if announced is not None and is_change_due else candidate.commission_ppm
        # Root may have raised the minimum since.
        return max(asked_ppm, self.commission_min)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def lock_own(self, stash: bytes, bond_grains: int) -> None:
        """Hold `bond_grains` of a validator and add them to its bond."""
        was_candidate = self.is_candidate(stash)
        self.balances.hold(stash, Hold(STAKE, stash), bond_grains)
        self.set_bond(stash, self.bonds[stash] + bond_grains)
        self.note_newcomer(stash, was_candidate=was_candidate)

    def set_bond(self, stash: bytes, bond_grains: int) -> None:
        """Set a validator's own bond."""
        if bond_grains:
            self.bonds[stash] = bond_grains
        else:
            del self.bonds[stash]

    def change_leaving(self, validator: bytes, added_grains: int) -> None:
        """Change the sum of a validator's unlocking delegations by `added_grains`."""
        leaving_grains = self.unbonding_delegations[validator] + added_grains
        if leaving_grains:
            self.unbonding_delegations[validator] = leaving_grains
        else:
            del self.unbonding_delegations[validator]

    def holder(self, staker: bytes, validator: bytes) -> bytes:
        """Return the account that holds a staker's stake behind a validator."""
        return staker if staker == validator else STAKES

    def check_covered(self, staker: bytes, validator: bytes) -> None:
        """Assert that a validator's stake and unlocking stake equal the money held for it.

        Only the account that holds the staker's part is checked.
        """
        # Checks one holder only: 32 validators may have 32 chunks each of their own delegations.
        if staker == validator:
            chunks = self.unlocking[validator]
            recorded_grains = self.bonds[validator] + sum(
                chunk.value for chunk in chunks if chunk.validator == validator
            )
        else:
            recorded_grains = self.pools[validator].stake.value + self.unbonding_delegations[validator]
        held_grains = self.balances.held(self.holder(staker, validator), Hold(STAKE, validator))
        assert recorded_grains == held_grains, "stake equals the grains held for it"

    def burn(self, holder: bytes, validator: bytes, dust: int) -> None:
        """Burn grains that no share owns."""
        self.balances.pay_held(holder, Hold(STAKE, validator), ((None, dust),))

    def pay_slash(
        self,
        holder: bytes,
        validator: bytes,
        staker: bytes,
        amount: int,
        reporter: bytes | None,
        reward_max: int | None = None,
    ) -> None:
        """Distribute a slash of `staker`, held for `validator`. Without a reporter the treasury gets its part."""
        if not amount:
            return
        slash_split = SlashSplit(self.slash_treasury, self.slash_reporter)
        rewarded = () if reporter is None else (reporter,)
        shares = slash_shares(amount, slash_split, treasury=TREASURY, rewarded=rewarded, reward_max=reward_max)
        self.balances.pay_held(holder, Hold(STAKE, validator), [(share.payee, share.amount) for share in shares])
        self.emit(StakeSlashed(validator, staker, amount))

    def pay_from(self, pot: bytes, payee: bytes, amount: int) -> int:
        """Pay out of a pot as far as it can, and return the amount paid.

        Dust that cannot create the payee's account is burned.
        """
        # A pot that fell below the existential deposit burned its dust, and may lack that much for its last payee.
        amount = min(amount, self.balances.free_balance(pot))
        if amount:
            self.balances.debit(pot, amount)
            self.balances.credit(payee, amount)
            self.balances.emit(Transfer(pot, payee, amount))
        return amount

    def set_unlocking(self, staker: bytes, chunks: tuple[Unlocking, ...]) -> None:
        """Set a staker's unlocking chunks. Any chunk sustains its account."""
        had_chunks = bool(self.unlocking[staker])
        if chunks:
            self.unlocking[staker] = chunks
        else:
            del self.unlocking[staker]
        if had_chunks != bool(chunks):
            # Stake held elsewhere is not in the staker's balance, which alone may be dust.
            self.balances.sustain(staker, 1 if chunks else -1)

    def check_keys(self, stash: bytes, new_keys: SessionKeys, proof: KeysProof) -> None:
        """Raise UnsafeKey for a key that anyone can sign for, InvalidKeysProof for an invalid proof."""
        ensure(is_safe_public_key(new_keys.session) and is_safe_public_key(new_keys.vrf), UnsafeKey)
        # Without the proof, anyone could register a key that another validator has shown, and keep its owner out.
        ensure(verify_keys(self.system.block_hash[0], stash, new_keys, proof), InvalidKeysProof)

    def set_candidate(self, stash: bytes, candidate: Candidate) -> None:
        """Add or replace a candidate after checking its keys."""
        was_candidate = self.is_candidate(stash)
        keys = (candidate.session_key, candidate.vrf_key, candidate.provider_key)
        # One signature of a key of small order fits many messages, so evidence against it would prove nothing (ADR 6).
        ensure(all(is_safe_public_key(key) for key in keys), UnsafeKey)
        ensure(len(frozenset(keys)) == len(keys), KeyTaken)
        ensure(
            not any(self._is_taken(key, stash, is_proven=key != candidate.provider_key) for key in keys),
            KeyTaken,
        )
        previous = self.candidates[stash]
        # Neither this call nor a break may change the commission: only an announcement does.
        fixed_ppm = self.last_commission[stash] if previous is None else self.commission_of(stash)
        ensure(fixed_ppm is None or candidate.commission_ppm == max(fixed_ppm, self.commission_min), CommissionFixed)
        del self.last_commission[stash]
        if previous is None:
            ensure(self.candidate_count.get() < CANDIDATES_MAX, TooManyCandidates)
            self.candidate_count.set(self.candidate_count.get() + 1)
        self._forget_keys(stash)
        for key in keys:
            self.key_owner[key] = stash
        self.candidates[stash] = candidate
        self.note_newcomer(stash, was_candidate=was_candidate)
        self.emit(CandidateSet(stash, *keys, candidate.commission_ppm))

    def forget_newcomer(self, stash: bytes) -> None:
        """Mark a new candidate as known to the pallets that draw candidates."""
        del self.new_candidates[stash]

    def note_newcomer(self, stash: bytes, *, was_candidate: bool) -> None:
        """Record since when a candidate may be drawn, so that older records do not draw it.

        A candidate could otherwise choose its first block to suit a beacon value.
        """
        current_height = self.system.number.get()
        # Candidates of block 0 were there before any beacon value.
        if current_height and not was_candidate and self.is_candidate(stash):
            self.candidate_since[stash] = current_height
            self.new_candidates[stash] = True

    def _is_taken(self, key: bytes, stash: bytes, *, is_proven: bool) -> bool:
        """Return True if another stash has the key.

        A stash that only named it, as a provider key, gives way to the owner of its secret.
        """
        owner = self.key_owner[key]
        if owner in (None, stash):
            return False
        return not is_proven or self.past_session_keys[key] or self.stash_of(key) is None

    def _forget_keys(self, stash: bytes) -> None:
        previous = self.candidates[stash]
        if previous is not None:
            for key in (previous.session_key, previous.vrf_key, previous.provider_key):
                if self.key_owner[key] == stash and not self.past_session_keys[key]:
                    del self.key_owner[key]

    def remove_candidate(self, stash: bytes) -> None:
        """End a candidacy. Keys that were in no set become free for others."""
        self._forget_keys(stash)
        asked_ppm = self.commission_of(stash)
        assert asked_ppm is not None, "only a candidate can be removed"
        if self.pools[stash].delegators:
            # Otherwise a break would be a way to change the commission without notice.
            self.last_commission[stash] = asked_ppm
        del self.commission_changes[stash]
        del self.candidates[stash]
        del self.candidate_since[stash]
        self.candidate_count.set(self.candidate_count.get() - 1)
        self.emit(Chilled(stash))
