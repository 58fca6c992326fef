"""A delegator's position in a validator's pool, and the rewards of all positions, without ever listing them.

`Pool.index` is the total earned by one share since the pool began. An era's reward raises it once. A position earns the
difference since it was last touched. A share earns only in eras that it was in from start to end. Shares that joined in
an era are therefore counted apart until the position is next touched, and the era's reward per share is kept
(`EraPosting`).

Invariants:

* A pool's `shares` are the sum of its positions' shares, and its `delegators` the number of positions with shares.
* The claims of all positions, brought up to date, are at most the pool's `owed`. The rest, less than a grain for each
  time a position was touched, is dust. It is swept when the last share leaves.
* Shares that came from another validator are marked with their answer. Shares without an answer leave first.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from runtime.encoding.codec import U32, U128, Bounded, struct
from runtime.encoding.types import Balance
from runtime.pallets.staking import share_pool
from runtime.pallets.staking.share_pool import SharePool
from runtime.pallets.staking.slash_factors import Factors, Liability, left_of
from runtime.pallets.staking.stakers import EraIndex

INDEX_SCALE = 10**24
"""The scale of `Pool.index`. With a million shares to a grain, rounding costs less than one of all existing grains."""
MOVED_MAX = 8
"""The most remembered moves of a position. A move is dropped once evidence against the old validator is too old."""


@struct
class Pool:
    """The delegated stake behind a validator, and its rewards."""

    stake: SharePool = SharePool()
    joined: U128 = 0
    """The shares that came in `joined_era`: they earn from the next era on."""
    joined_era: EraIndex = 0
    index: U128 = 0
    owed: Balance = 0
    """The grains earned and not yet paid."""
    delegators: U32 = 0


@struct
class EraPosting:
    """An era's reward per share, kept for shares that joined in it and did not earn."""

    increment: U128 = 0
    shares: U128 = 0
    """The shares of positions that were not touched since."""


@struct
class MovedShares:
    """Shares that came from another validator, and still bear its slashes."""

    shares: U128
    answer: Liability


@struct
class Position:
    """An account's stake behind a validator."""

    shares: U128 = 0
    joined: U128 = 0
    """The shares that came in `era`."""
    era: EraIndex = 0
    index: U128 = 0
    """The pool's index when the position was last touched."""
    owed: Balance = 0
    moved: Annotated[tuple[MovedShares, ...], Bounded(MOVED_MAX)] = ()


@dataclass(frozen=True, slots=True)
class PoolStep:
    """A pool and a position in it, after a step."""

    pool: Pool
    position: Position


@dataclass(frozen=True, slots=True)
class Departed:
    """The result of leaving: the amount of the shares without an answer and of those with each answer, and dust."""

    pool: Pool
    position: Position
    amounts: tuple[tuple[Liability | None, int], ...]
    dust: int


def post(pool: Pool, reward_grains: int, era: int) -> tuple[Pool, EraPosting | None, int]:
    """Pay an ended era's reward to a pool's shares.

    Return the pool, the posting to keep if there is one, and the reward that no share was there to earn.
    """
    joined_shares = pool.joined if pool.joined_era == era else 0
    earning_shares = pool.stake.shares - joined_shares
    if not earning_shares:
        # No share stood in the era from start to end: the caller keeps the reward in the reserve.
        return pool, None, reward_grains
    increment = reward_grains * INDEX_SCALE // earning_shares
    posted = replace(pool, index=pool.index + increment, owed=pool.owed + reward_grains)
    return posted, (EraPosting(increment, joined_shares) if joined_shares and increment else None), 0


def earned(pool: Pool, position: Position, posting: EraPosting) -> int:
    """Return a position's earnings since it was last touched. `posting` is for the era of its newest shares."""
    full_earnings = position.shares * (pool.index - position.index)
    return (full_earnings - position.joined * posting.increment) // INDEX_SCALE


def touched(pool: Pool, position: Position, posting: EraPosting, era: int) -> tuple[Position, EraPosting]:
    """Bring a position up to date, before any other change."""
    owed_grains = position.owed + earned(pool, position, posting)
    joined_shares = position.joined if position.era == era else 0
    # A posting is for an ended era: shares that joined in the current one wait for its own posting.
    settled_shares = position.joined - joined_shares if posting.shares else 0
    return (
        replace(position, joined=joined_shares, era=era, index=pool.index, owed=owed_grains),
        replace(posting, shares=posting.shares - settled_shares),
    )


def enter(
    pool: Pool, position: Position, amount: int, era: int, new_answer: Liability | None = None
) -> tuple[PoolStep, int]:
    """Add `amount` to an up-to-date position, marked if `new_answer` is given. Also return the dust.

    `new_answer` is the answer of stake that comes from another validator.
    """
    joining = share_pool.join(pool.stake, amount)
    # Newcomers of an earlier era earn like all others by now: they are no longer counted apart.
    new_pool = replace(
        pool,
        stake=joining.pool,
        joined=joining.shares + (pool.joined if pool.joined_era == era else 0),
        joined_era=era,
        delegators=pool.delegators + (position.shares == 0 < joining.shares),
    )
    moved = (
        position.moved if new_answer is None else _with_moved(position.moved, MovedShares(joining.shares, new_answer))
    )
    new_position = replace(
        position,
        shares=position.shares + joining.shares,
        joined=position.joined + joining.shares,
        era=era,
        moved=moved,
    )
    return PoolStep(new_pool, new_position), joining.dust


def free_shares(position: Position) -> int:
    """Return the number of shares that answer for no other validator."""
    return position.shares - sum(part.shares for part in position.moved)


def depart(pool: Pool, position: Position, leaving_shares: int, era: int) -> Departed:
    """Take shares out of an up-to-date position: those without an answer first, then the oldest moves."""
    departure = share_pool.leave(pool.stake, leaving_shares)
    remaining_shares, taken_parts, still_moved = leaving_shares, [], []
    for share_count, answered in (
        (free_shares(position), None),
        *((part.shares, part.answer) for part in position.moved),
    ):
        taken_shares = min(remaining_shares, share_count)
        remaining_shares -= taken_shares
        if taken_shares:
            taken_parts.append((answered, taken_shares))
        if answered is not None and taken_shares < share_count:
            still_moved.append(MovedShares(share_count - taken_shares, answered))
    assert not remaining_shares, "a position has the shares that leave it"
    # Each part is rounded down on its own: stake with an answer gets no more than its own shares are worth.
    part_amounts = tuple((answered, share_pool.worth(pool.stake, part_shares)) for answered, part_shares in taken_parts)
    dust = departure.dust + departure.amount - sum(amount for _, amount in part_amounts)
    standing = _without(
        replace(pool, stake=departure.pool), replace(position, moved=tuple(still_moved)), leaving_shares, era
    )
    return Departed(standing.pool, standing.position, part_amounts, dust)


def charge(pool: Pool, position: Position, move_index: int, factors: Factors, era: int) -> Departed:
    """Charge the shares of one move with the slashes of its old validator since they were last charged."""
    part = position.moved[move_index]
    kept_shares = left_of(part.shares, part.answer, factors)
    departure = share_pool.leave(pool.stake, part.shares - kept_shares)
    charged_part = (MovedShares(kept_shares, replace(part.answer, borne=factors)),) if kept_shares else ()
    moved = (*position.moved[:move_index], *charged_part, *position.moved[move_index + 1 :])
    standing = _without(
        replace(pool, stake=departure.pool),
        replace(position, moved=moved),
        part.shares - kept_shares,
        era,
    )
    return Departed(
        standing.pool,
        standing.position,
        ((part.answer, departure.amount),) if departure.amount else (),
        departure.dust,
    )


def pay(pool: Pool, position: Position) -> tuple[PoolStep, int]:
    """Take the owed reward out of an up-to-date position."""
    paid_grains = position.owed
    assert paid_grains <= pool.owed, "positions claim at most their pool's rewards"
    return PoolStep(replace(pool, owed=pool.owed - paid_grains), replace(position, owed=0)), paid_grains


def _with_moved(moved: tuple[MovedShares, ...], added_part: MovedShares) -> tuple[MovedShares, ...]:
    same_answer = [part for part in moved if part.answer == added_part.answer]
    other_parts = tuple(part for part in moved if part.answer != added_part.answer)
    assert len(other_parts) < MOVED_MAX, "the caller checks the limit of moved shares"
    return (
        *other_parts,
        MovedShares(added_part.shares + sum(part.shares for part in same_answer), added_part.answer),
    )


def _without(pool: Pool, position: Position, left_shares: int, era: int) -> PoolStep:
    """Remove shares that have left the pool's stake. The newest go first, because they earn nothing yet."""
    # The newest shares first, because older ones already earn in this era.
    unearned = min(left_shares, position.joined)
    remaining = position.shares - left_shares
    unearned_in_era = unearned if pool.joined_era == era else 0
    new_pool = replace(
        pool,
        joined=pool.joined - unearned_in_era,
        delegators=pool.delegators - (left_shares > 0 and remaining == 0),
    )
    return PoolStep(new_pool, replace(position, shares=remaining, joined=position.joined - unearned))
