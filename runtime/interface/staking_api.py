"""`OgpuApi`: queries of consensus, wallets and explorers about validators, stakes, holds and rewards."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.api import RuntimeApi, query
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon, FinalBlock
from runtime.pallets.hold_book import AccountHolds
from runtime.pallets.pots import RESERVE
from runtime.pallets.staking.elections import Chance, outlook
from runtime.pallets.staking.holdings import earned_by, is_free, is_kept, kept_until, stake_of, value_now
from runtime.pallets.staking.returns import ExpectedReturn, expected_returns
from runtime.pallets.staking.stakers import (
    CANDIDATES_MAX,
    UNLOCKING_MAX,
    VALIDATORS_MAX,
    Candidate,
    CommissionChange,
    EpochIndex,
    ProfileName,
    ProfileWeb,
    PublicKey,
    Seats,
)
from runtime.pallets.staking.trust_stake import TrustStake

STAKES_MAX = 4_096
PENDING_MAX = 16_384
HELD_CASES_MAX = 4_096


@struct
class Stake:
    """An account's stake behind one validator."""

    validator: AccountId
    value: Balance


@struct
class WaitingStake:
    """Unlocking stake, less its slashes."""

    validator: AccountId
    value: Balance
    until_epoch: EpochIndex
    """The first epoch in which it can be free, as known now. An offence or a kept seat delays it."""
    is_held: bool
    """True if a slash that it may bear is pending or may be raised. Then it is not free in any epoch."""


@struct
class StakeSummary:
    """An account's whole stake. A stake behind itself is its own bond."""

    stakes: Annotated[tuple[Stake, ...], Bounded(STAKES_MAX)]
    unlocking: Annotated[tuple[WaitingStake, ...], Bounded(UNLOCKING_MAX)]
    withdrawable: Balance
    holds: AccountHolds
    """Its holds by reason: stakes, and everything else at stake."""


@struct
class HeldCase:
    """An account's hold for one case."""

    hold: Hold
    amount: Balance


@struct
class ValidatorSummary:
    """A candidate in a list of validators."""

    stash: AccountId
    session_key: PublicKey
    provider_key: AccountId
    commission_ppm: U32
    commission_change: CommissionChange | None
    """The announced commission, and its first era."""
    name: ProfileName
    web: ProfileWeb
    """Its own, unchecked web address."""
    own: Balance
    total: Balance
    delegators: U32
    in_office: bool
    elected: bool
    tombstoned: bool
    slashes_held: U32
    """The number of its unapplied slashes. While there is one, no stake leaves it."""
    points: U32
    """The points of the current era, 20 for each block."""


@struct
class PendingReward:
    """An account's rewards from a validator, which `TrustStake.claim(validator)` will pay."""

    validator: AccountId
    amount: Balance


class OgpuApi(RuntimeApi, version=3):
    """Validators, stakes and rewards."""

    @query
    def validators(self, epoch: U32) -> Seats:
        """Return the active set of an epoch, by ascending stash."""
        return self.bound[TrustStake].validators(epoch)

    @query
    def epoch(self) -> U32:
        """Return the epoch of this block."""
        return self.bound[Beacon].epoch()

    @query
    def epoch_seed(self, epoch: U32) -> Hash | None:
        """Return the seed that draws an epoch's slots, None if it is not settled yet or long past."""
        return self.bound[Beacon].seed_of(epoch)

    @query
    def final_block(self) -> FinalBlock:
        """Return the newest final block that this block refers to."""
        return self.bound[Beacon].final.get()

    @query
    def candidates(self) -> Annotated[tuple[ValidatorSummary, ...], Bounded(CANDIDATES_MAX)]:
        """Return every candidate, by ascending stash."""
        entries = sorted(self.bound[TrustStake].candidates.items(), key=lambda entry: entry[0])
        return tuple(self._summary(stash, candidate) for stash, candidate in entries if candidate is not None)

    @query
    def election(self) -> Annotated[tuple[Chance, ...], Bounded(CANDIDATES_MAX + VALIDATORS_MAX)]:
        """Return the result of an election held now, with the reason, for each candidate and member.

        It uses the signs of life of the last whole epoch.
        """
        # The newest whole epoch: in the current one signs of life may still come.
        return outlook(self.bound[TrustStake], max(0, self.bound[Beacon].epoch() - 1))

    @query
    def stakes(self, account: AccountId) -> StakeSummary:
        """Return an account's bond, delegations, unlocking stake and holds."""
        stake = self.bound[TrustStake]
        validators = [account] if stake.bonds[account] else []
        # An account may delegate to more validators than one answer may list.
        validators += islice((validator for validator, _ in stake.delegations.under(account)), STAKES_MAX - 1)
        chunks_and_values = [(chunk, value_now(stake, chunk)) for chunk in stake.unlocking[account]]
        waiting = tuple(
            WaitingStake(
                chunk.validator,
                remaining_grains,
                kept_until(stake, chunk),
                is_kept(stake, chunk),
            )
            for chunk, remaining_grains in chunks_and_values
        )
        return StakeSummary(
            tuple(Stake(validator, stake_of(stake, account, validator)) for validator in sorted(validators)),
            waiting,
            sum(remaining_grains for chunk, remaining_grains in chunks_and_values if is_free(stake, chunk)),
            self.bound[Balances].holds[account],
        )

    @query
    def held_cases(self, account: AccountId) -> Annotated[tuple[HeldCase, ...], Bounded(HELD_CASES_MAX)]:
        """Return an account's holds, case by case, in the order of the storage keys."""
        entries = islice(self.bound[Balances].held_cases.under(account), HELD_CASES_MAX)
        return tuple(HeldCase(hold, held_grains) for hold, held_grains in entries)

    @query
    def pending_rewards(self, account: AccountId) -> Annotated[tuple[PendingReward, ...], Bounded(PENDING_MAX)]:
        """Return an account's claimable rewards, by ascending validator."""
        return tuple(self._pending(account))[:PENDING_MAX]

    @query
    def expected_returns(self, eras: U32) -> Annotated[tuple[ExpectedReturn, ...], Bounded(VALIDATORS_MAX)]:
        """Return the least payment of `eras` eras like the last behind each elected validator, if nothing changes."""
        reserve_grains = self.bound[Balances].free_balance(RESERVE)
        return expected_returns(self.bound[TrustStake], reserve_grains, eras)

    def _pending(self, account: bytes) -> Iterator[PendingReward]:
        stake = self.bound[TrustStake]
        validators = {
            account,
            *(validator for validator, _ in islice(stake.delegations.under(account), STAKES_MAX)),
        }
        for validator in sorted(validators):
            earned_grains = earned_by(stake, account, validator)
            if earned_grains:
                yield PendingReward(validator, earned_grains)

    def _summary(self, stash: bytes, candidate: Candidate) -> ValidatorSummary:
        stake = self.bound[TrustStake]
        era_points = stake.eras_reward_points[stake.current_era.get()]
        pool, profile = stake.pools[stash], stake.profiles[stash]
        return ValidatorSummary(
            stash=stash,
            session_key=candidate.session_key,
            provider_key=candidate.provider_key,
            commission_ppm=stake.commission_of(stash) or 0,
            commission_change=stake.commission_changes[stash],
            name=profile.name if profile else b"",
            web=profile.web if profile else b"",
            own=stake.bonds[stash],
            total=stake.behind(stash),
            delegators=pool.delegators,
            in_office=stake.seat_of(stash) is not None,
            elected=any(standing.stash == stash for standing in stake.elected.get()),
            tombstoned=stash in stake.tombstones,
            slashes_held=stake.pending_slash_counts[stash],
            points=sum(entry.points for entry in era_points if entry.stash == stash),
        )
