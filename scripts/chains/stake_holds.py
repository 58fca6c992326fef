"""The books of stakes, counted independently of the pallet: what is held, by whom it is owned, and what is owed."""

from collections import Counter
from collections.abc import Iterator

from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.pots import STAKES, STAKING_REWARDS
from runtime.pallets.staking.delegations import Position
from runtime.pallets.staking.holdings import earned_by
from runtime.pallets.staking.stakers import PROFILE, STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System


def stake_holds(bound: Bound) -> Iterator[tuple[bytes, Hold, int]]:
    """What each account should hold for each validator: its own bond, all delegations, and what waits of both."""
    stake = bound[TrustStake]
    for stash, bond in stake.bonds.items():
        yield stash, Hold(STAKE, stash), bond
    for validator, pool in stake.pools.items():
        yield STAKES, Hold(STAKE, validator), pool.stake.value
    for staker, chunks in stake.unlocking.items():
        for chunk in chunks:
            yield stake.holder(staker, chunk.validator), Hold(STAKE, chunk.validator), chunk.value
    for stash, profile in stake.profiles.items():
        assert profile is not None
        yield stash, Hold(PROFILE, stash), profile.deposit


def check_stakes(bound: Bound) -> None:
    """Pools are their positions, who has one lives, what leaves is counted, and what was earned is there."""
    stake = bound[TrustStake]
    behind: dict[bytes, list[tuple[bytes, Position]]] = {}
    for (delegator, validator), position in stake.positions.items():
        assert position is not None
        assert position.shares > 0
        assert delegator != validator
        behind.setdefault(validator, []).append((delegator, position))
    assert behind.keys() == dict(stake.pools.items()).keys()
    for validator, pool in stake.pools.items():
        assert pool.stake.shares == sum(position.shares for _, position in behind[validator])
        assert pool.delegators == len(behind[validator])
        assert pool.owed >= sum(earned_by(stake, delegator, validator) for delegator, _ in behind[validator])
    assert all(posting.shares > 0 for _, posting in stake.postings.items())
    assert stake.candidate_count.get() == len(list(stake.candidates.keys()))
    held = Counter(offender for (offender, _), _ in stake.held_slashes.items())
    assert held == Counter(dict(stake.frozen.items()))
    _check_leaving(bound, Counter(delegator for each in behind.values() for delegator, _ in each))
    _check_owed(bound)


def _check_leaving(bound: Bound, positions: Counter[bytes]) -> None:
    """What waits to leave each validator; and whoever waits or stands lives."""
    stake = bound[TrustStake]
    leaving: Counter[bytes] = Counter()
    for staker, chunks in stake.unlocking.items():
        assert chunks
        positions[staker] += 1
        for chunk in chunks:
            leaving[chunk.validator] += chunk.value if staker != chunk.validator else 0
    assert +leaving == Counter(dict(stake.leaving.items()))
    sustained = {who: info.sufficients for who, info in bound[System].account.items() if info.sufficients}
    assert sustained == positions


def _check_owed(bound: Bound) -> None:
    """The pot has what is owed, but for what it burned as dust when it held next to nothing."""
    stake = bound[TrustStake]
    owed = sum(amount for _, amount in stake.earned.items()) + sum(pool.owed for _, pool in stake.pools.items())
    assert abs(bound[Balances].free_balance(STAKING_REWARDS) - owed) < bound[Balances].existential_deposit
