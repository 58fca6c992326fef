"""A delegator's position in a validator's pool, and the rewards of all positions, without ever listing them.

`Pool.index` is what one share has earned since the pool began. An era's reward raises it once; a position takes the
difference since it was last touched. A share earns in the eras that it stood for from beginning to end: what joined in
an era is told apart until the position is next touched, and what the era paid by share is kept (`EraPosting`).

Always:
* A pool's `shares` are the sum of its positions' shares, its `delegators` those that have any.
* What positions may claim, with what they will have when touched, is at most the pool's `owed`; the rest of it, less
  than a grain for each time that a position was touched, is dust, and swept when the last share goes.
* Shares that came from another validator are marked with their answer, and those without one leave first.
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
"""Of `Pool.index`: a million shares to a grain, so that all grains there are lose less than one to its rounding."""
MOVED_MAX = 8
"""Moves that a position remembers; each is forgotten when evidence against the validator it came from is too old."""


@struct
class Pool:
    """What others have behind a validator, and what it has earned them."""

    stake: SharePool = SharePool()
    joined: U128 = 0
    """Of the shares, those that came in `joined_era`: they earn from the next era on."""
    joined_era: EraIndex = 0
    index: U128 = 0
    owed: Balance = 0
    """Earned and not yet paid."""
    delegators: U32 = 0


@struct
class EraPosting:
    """What an era paid for each share, kept for those that joined in it and did not earn."""

    increment: U128 = 0
    shares: U128 = 0
    """Of positions that were not touched since."""


@struct
class MovedShares:
    """Shares that came from another validator, and bear its slashes still."""

    shares: U128
    answer: Liability


@struct
class Position:
    """What an account has behind a validator."""

    shares: U128 = 0
    joined: U128 = 0
    """Of the shares, those that came in `era`."""
    era: EraIndex = 0
    index: U128 = 0
    """The pool's, when the position was last touched."""
    owed: Balance = 0
    moved: Annotated[tuple[MovedShares, ...], Bounded(MOVED_MAX)] = ()


@dataclass(frozen=True, slots=True)
class PoolStep:
    """A pool and a position in it, after a step."""

    pool: Pool
    position: Position


@dataclass(frozen=True, slots=True)
class Departed:
    """After shares left: `amount` goes with those without an answer and those with each, `dust` to nobody."""

    pool: Pool
    position: Position
    amounts: tuple[tuple[Liability | None, int], ...]
    dust: int


def post(pool: Pool, reward: int, era: int) -> tuple[Pool, EraPosting | None, int]:
    """Share an ended era's reward; the posting to keep if there is one, and what nobody is there to earn."""
    joined = pool.joined if pool.joined_era == era else 0
    standing = pool.stake.shares - joined
    if not standing:
        return pool, None, reward
    increment = reward * INDEX_SCALE // standing
    posted = replace(pool, index=pool.index + increment, owed=pool.owed + reward)
    return posted, (EraPosting(increment, joined) if joined and increment else None), 0


def earned(pool: Pool, position: Position, posting: EraPosting) -> int:
    """What a position earned since it was last touched; `posting` is of the era in which its newest shares came."""
    every = position.shares * (pool.index - position.index)
    return (every - position.joined * posting.increment) // INDEX_SCALE


def touched(pool: Pool, position: Position, posting: EraPosting, era: int) -> tuple[Position, EraPosting]:
    """Bring a position up to date, before anything else is done to it."""
    owed = position.owed + earned(pool, position, posting)
    joined = position.joined if position.era == era else 0
    # A posting is of an ended era: who joined in this one waits for another.
    settled = position.joined - joined if posting.shares else 0
    return (
        replace(position, joined=joined, era=era, index=pool.index, owed=owed),
        replace(posting, shares=posting.shares - settled),
    )


def enter(
    pool: Pool, position: Position, amount: int, era: int, answered: Liability | None = None
) -> tuple[PoolStep, int]:
    """Add `amount` to a position that is up to date, marked if it comes from another validator; and the dust."""
    joined = share_pool.join(pool.stake, amount)
    new_pool = replace(
        pool,
        stake=joined.pool,
        joined=joined.shares + (pool.joined if pool.joined_era == era else 0),
        joined_era=era,
        delegators=pool.delegators + (position.shares == 0 < joined.shares),
    )
    moved = position.moved if answered is None else _with_moved(position.moved, MovedShares(joined.shares, answered))
    new_position = replace(
        position, shares=position.shares + joined.shares, joined=position.joined + joined.shares, era=era, moved=moved
    )
    return PoolStep(new_pool, new_position), joined.dust


def free_shares(position: Position) -> int:
    """The shares that answer for no other validator."""
    return position.shares - sum(move.shares for move in position.moved)


def depart(pool: Pool, position: Position, shares: int, era: int) -> Departed:
    """Take shares out of a position that is up to date: those that answer for nobody first, then the oldest moves."""
    left = share_pool.leave(pool.stake, shares)
    rest, parts, moved = shares, [], []
    for share_count, answered in (
        (free_shares(position), None),
        *((move.shares, move.answer) for move in position.moved),
    ):
        taken = min(rest, share_count)
        rest -= taken
        if taken:
            parts.append((answered, taken))
        if answered is not None and taken < share_count:
            moved.append(MovedShares(share_count - taken, answered))
    assert not rest, "a position has the shares that it gives up"
    # Each part by itself, rounded down: what answers for an offence is no more than came to it.
    amounts = tuple((answered, share_pool.worth(pool.stake, part)) for answered, part in parts)
    dust = left.dust + left.amount - sum(amount for _, amount in amounts)
    standing = _without(replace(pool, stake=left.pool), replace(position, moved=tuple(moved)), shares, era)
    return Departed(standing.pool, standing.position, amounts, dust)


def charge(pool: Pool, position: Position, place: int, factors: Factors, era: int) -> Departed:
    """Take from the shares of one move what its old validator's offences took since."""
    move = position.moved[place]
    kept = left_of(move.shares, move.answer, factors)
    left = share_pool.leave(pool.stake, move.shares - kept)
    after = (MovedShares(kept, replace(move.answer, borne=factors)),) if kept else ()
    moved = (*position.moved[:place], *after, *position.moved[place + 1 :])
    standing = _without(replace(pool, stake=left.pool), replace(position, moved=moved), move.shares - kept, era)
    return Departed(standing.pool, standing.position, ((move.answer, left.amount),) if left.amount else (), left.dust)


def pay(pool: Pool, position: Position) -> tuple[PoolStep, int]:
    """Take out what a position that is up to date was owed."""
    paid = position.owed
    assert paid <= pool.owed, "positions claim no more than their pool earned"
    return PoolStep(replace(pool, owed=pool.owed - paid), replace(position, owed=0)), paid


def _with_moved(moves: tuple[MovedShares, ...], added: MovedShares) -> tuple[MovedShares, ...]:
    same = [move for move in moves if move.answer == added.answer]
    others = tuple(move for move in moves if move.answer != added.answer)
    assert len(others) < MOVED_MAX, "the caller asks whether there is a place"
    return (*others, MovedShares(added.shares + sum(move.shares for move in same), added.answer))


def _without(pool: Pool, position: Position, shares: int, era: int) -> PoolStep:
    """Less so many shares, which left the pool's stake already; what joined last goes first: it earns nothing yet."""
    unearned = min(shares, position.joined)
    remaining = position.shares - shares
    in_era = unearned if pool.joined_era == era else 0
    new_pool = replace(
        pool,
        joined=pool.joined - in_era,
        delegators=pool.delegators - (shares > 0 and remaining == 0),
    )
    return PoolStep(new_pool, replace(position, shares=remaining, joined=position.joined - unearned))
