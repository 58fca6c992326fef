"""`OgpuApi`: what consensus, wallets and explorers ask about validators, stakes, holds and rewards."""

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
from runtime.pallets.staking.exposures import reward_shares
from runtime.pallets.staking.stakers import CANDIDATES_MAX, Candidate, EraIndex, PublicKey, Seats, Unlockings
from runtime.pallets.staking.trust_stake import TrustStake

STAKES_MAX = 4_096
PENDING_MAX = 16_384
HELD_CASES_MAX = 4_096


@struct
class Stake:
    """What an account has behind one validator."""

    validator: AccountId
    value: Balance


@struct
class StakeSummary:
    """All that an account has at stake; a stake behind itself is its own bond."""

    stakes: Annotated[tuple[Stake, ...], Bounded(STAKES_MAX)]
    unlocking: Unlockings
    withdrawable: Balance
    holds: AccountHolds
    """What is held of it, by reason: stakes, and what else is at stake."""


@struct
class HeldCase:
    """What an account holds for one case."""

    hold: Hold
    amount: Balance


@struct
class ValidatorSummary:
    """A candidate as lists of validators show it."""

    stash: AccountId
    session_key: PublicKey
    provider_key: AccountId
    commission_ppm: U32
    own: Balance
    total: Balance
    delegators: U32
    in_office: bool
    elected: bool
    tombstoned: bool
    points: U32
    """Earned in the current era, 20 for each block."""


@struct
class PendingReward:
    """A reward of an ended era that `TrustStake.payout_stakers(validator, era)` will pay."""

    era: EraIndex
    validator: AccountId
    amount: Balance


class OgpuApi(RuntimeApi, version=1):
    """Validators, stakes and rewards."""

    @query
    def validators(self, epoch: U32) -> Seats:
        """Who may propose and vote in an epoch, by ascending stash."""
        return self.bound[TrustStake].validators(epoch)

    @query
    def epoch(self) -> U32:
        """The epoch of this block."""
        return self.bound[Beacon].epoch()

    @query
    def epoch_seed(self, epoch: U32) -> Hash | None:
        """The seed that an epoch's slots are drawn with; None while it is not settled, or if it is long past."""
        return self.bound[Beacon].seed_of(epoch)

    @query
    def final_block(self) -> FinalBlock:
        """The newest final block that this block refers to."""
        return self.bound[Beacon].final.get()

    @query
    def candidates(self) -> Annotated[tuple[ValidatorSummary, ...], Bounded(CANDIDATES_MAX)]:
        """Everybody who offers to validate and to mine, by ascending stash."""
        offers = sorted(self.bound[TrustStake].candidates.items(), key=lambda offer: offer[0])
        return tuple(self._summary(stash, candidate) for stash, candidate in offers if candidate is not None)

    @query
    def stakes(self, account: AccountId) -> StakeSummary:
        """What an account has bonded, delegated, unbonded and held."""
        stake = self.bound[TrustStake]
        epoch = self.bound[Beacon].epoch()
        chunks = stake.unlocking[account]
        everywhere = [Stake(validator, stake.stakes[validator, account]) for validator in sorted(stake.backing.keys())]
        return StakeSummary(
            tuple(behind for behind in everywhere if behind.value)[:STAKES_MAX],
            chunks,
            sum(chunk.value for chunk in chunks if chunk.until_epoch <= epoch),
            self.bound[Balances].holds[account],
        )

    @query
    def held_cases(self, account: AccountId) -> Annotated[tuple[HeldCase, ...], Bounded(HELD_CASES_MAX)]:
        """What an account holds, case by case, in the order of the storage keys."""
        cases = islice(self.bound[Balances].held_cases.under(account), HELD_CASES_MAX)
        return tuple(HeldCase(hold, amount) for hold, amount in cases)

    @query
    def pending_rewards(self, account: AccountId) -> Annotated[tuple[PendingReward, ...], Bounded(PENDING_MAX)]:
        """What an account can claim, oldest era first."""
        return tuple(self._pending(account))[:PENDING_MAX]

    def _pending(self, account: bytes) -> Iterator[PendingReward]:
        stake = self.bound[TrustStake]
        now = stake.current_era.get()
        for era in range(max(0, now - stake.history_eras), now):
            for validator in sorted(entry.stash for entry in stake.eras_points[era]):
                amount, exposed = stake.era_reward(era, validator)
                shares = reward_shares(amount, validator, exposed) if exposed else ()
                mine = sum(share.amount for share in shares if share.payee == account)
                if mine and not stake.claimed[era, validator]:
                    yield PendingReward(era, validator, mine)

    def _summary(self, stash: bytes, candidate: Candidate) -> ValidatorSummary:
        stake = self.bound[TrustStake]
        points = stake.eras_points[stake.current_era.get()]
        return ValidatorSummary(
            stash=stash,
            session_key=candidate.session_key,
            provider_key=candidate.provider_key,
            commission_ppm=candidate.commission_ppm,
            own=stake.stakes[stash, stash],
            total=stake.backing[stash],
            delegators=stake.delegator_count[stash],
            in_office=stake.seat_of(stash) is not None,
            elected=any(standing.stash == stash for standing in stake.elected.get()),
            tombstoned=stash in stake.tombstones,
            points=sum(entry.points for entry in points if entry.stash == stash),
        )
