"""TrustStake: bonds, pools and their positions, what leaves, and what was earned."""

from typing import Any

from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.pots import STAKES, STAKING_REWARDS
from runtime.pallets.staking.holdings import earned_by
from runtime.pallets.staking.stakers import PROFILE, STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.books import EVERYBODY, Books, Keys, PalletBooks, Rule, claims, counts
from simulation.pallets.money import SUSTAINED

SHARES = Rule("shares of a pool, and of its positions")
DELEGATORS = Rule("delegators, and positions")
LEAVING = Rule("leaving a validator, and delegations on their way out")
FROZEN = Rule("slashes of a validator that wait, and those held")
CANDIDATES = Rule("candidates, and those listed")


def _bond(books: Books, keys: Keys, value: int, sign: int) -> None:
    books.case(keys[0], Hold(STAKE, keys[0]), sign * value)


def _pool(books: Books, keys: Keys, pool: Any, sign: int) -> None:
    books.case(STAKES, Hold(STAKE, keys[0]), sign * pool.stake.value)
    books[SHARES].claim(keys[0], sign * pool.stake.shares)
    books[DELEGATORS].claim(keys[0], sign * pool.delegators)


def _position(books: Books, keys: Keys, position: Any, sign: int) -> None:
    delegator, validator = keys
    assert position.shares > 0
    assert delegator != validator
    books[SHARES].count(validator, sign * position.shares)
    books[DELEGATORS].count(validator, sign)
    books[SUSTAINED].count(delegator, sign)


def _unlocking(books: Books, keys: Keys, chunks: Any, sign: int) -> None:
    assert chunks
    books[SUSTAINED].count(keys[0], sign)
    for chunk in chunks:
        is_own = chunk.validator == keys[0]
        books.case(keys[0] if is_own else STAKES, Hold(STAKE, chunk.validator), sign * chunk.value)
        if not is_own:
            books[LEAVING].count(chunk.validator, sign * chunk.value)


def _profile(books: Books, keys: Keys, profile: Any, sign: int) -> None:
    books.case(keys[0], Hold(PROFILE, keys[0]), sign * profile.deposit)


def _check(bound: Bound) -> None:
    """What was earned is there, but for what the pot burned as dust when it held next to nothing."""
    stake = bound[TrustStake]
    earned = dict.fromkeys((validator for validator, _ in stake.pools.items()), 0)
    for (delegator, validator), _ in stake.positions.items():  # noqa: PERF102 - a storage map has no keys alone
        earned[validator] += earned_by(stake, delegator, validator)
    assert all(pool.owed >= earned[validator] for validator, pool in stake.pools.items())
    assert all(posting.shares > 0 for _, posting in stake.postings.items())
    owed = sum(amount for _, amount in stake.earned.items()) + sum(pool.owed for _, pool in stake.pools.items())
    assert abs(bound[Balances].free_balance(STAKING_REWARDS) - owed) < bound[Balances].existential_deposit


WORLDS = (
    PalletBooks(
        TrustStake,
        (
            (TrustStake.bonds, _bond),
            (TrustStake.pools, _pool),
            (TrustStake.positions, _position),
            (TrustStake.unlocking, _unlocking),
            (TrustStake.leaving, claims(LEAVING)),
            (TrustStake.profiles, _profile),
            (TrustStake.held_slashes, counts(FROZEN, lambda keys: keys[0])),
            (TrustStake.frozen, claims(FROZEN)),
            (TrustStake.candidate_count, claims(CANDIDATES)),
            (TrustStake.candidates, counts(CANDIDATES, lambda _: EVERYBODY)),
        ),
        _check,
    ),
)
