"""Grains owned by shares: joining, leaving and a slash cost one change each, for any number of owners.

Invariants:

* `value * SHARES_PER_GRAIN <= shares`: a grain never costs fewer shares than the first one did. An owner that withdraws
  an amount within the worth of its shares therefore receives it to the grain, and nobody can inflate the price of a
  share.
* No step raises the worth of a share. Slashes lower it. The remainder of a division, less than one grain of the whole
  pool, is dust without an owner, which the caller burns.
"""

from dataclasses import dataclass

from runtime.encoding.codec import U128, struct
from runtime.encoding.types import Balance
from runtime.pallets.staking.slash_factors import SlashStep, lost

SHARES_PER_GRAIN = 1_000_000
"""The shares that the first grain of an empty pool buys: enough that a share lost to rounding is worth next to nothing.
"""
SPENT_BELOW = 1_000_000
"""A pool with less than a millionth of its value left accepts no stake: its shares would grow without bound."""


@struct
class SharePool:
    """A pool's value in grains, and the number of its shares."""

    value: Balance = 0
    shares: U128 = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """The result of joining: `shares` own all of `amount` but the `dust`."""

    pool: SharePool
    shares: int
    dust: int


@dataclass(frozen=True, slots=True)
class Left:
    """The result of leaving: the leaver receives `amount`, nobody owns `dust`."""

    pool: SharePool
    amount: int
    dust: int


@dataclass(frozen=True, slots=True)
class StruckPool:
    """The result of a slash: `amount` was taken."""

    pool: SharePool
    amount: int


def is_spent(pool: SharePool) -> bool:
    """Return True if slashes left too little for others to join."""
    return pool.value * SHARES_PER_GRAIN * SPENT_BELOW < pool.shares


def worth(pool: SharePool, share_count: int) -> int:
    """Return the worth of this many shares in grains, rounded down."""
    return pool.value * share_count // pool.shares if pool.shares else 0


def join(pool: SharePool, amount: int) -> Joined:
    """Put `amount` into a pool that is not spent, for shares at the pool's price, rounded down."""
    # With a value near 0 a grain would buy shares without bound.
    assert not is_spent(pool), "a spent pool accepts no stake"
    if not pool.shares:
        bought_shares = amount * SHARES_PER_GRAIN
        return Joined(SharePool(amount, bought_shares), bought_shares, 0)
    bought_shares = amount * pool.shares // pool.value
    # The pool grows by the worth of the new shares: otherwise rounding would favour the existing owners.
    grown_grains = bought_shares * pool.value // pool.shares
    return Joined(
        SharePool(pool.value + grown_grains, pool.shares + bought_shares),
        bought_shares,
        amount - grown_grains,
    )


def shares_for(pool: SharePool, amount: int, owned_shares: int) -> int:
    """Return the fewest of the owned shares that are worth `amount`, all if the rest would be worth nothing."""
    assert 0 <= amount <= worth(pool, owned_shares), "an owner withdraws at most the worth of its shares"
    needed_shares = -(-amount * pool.shares // pool.value) if pool.value else owned_shares
    return needed_shares if worth(pool, owned_shares - needed_shares) else owned_shares


def leave(pool: SharePool, leaving_shares: int) -> Left:
    """Take shares out with their worth, rounded down."""
    assert leaving_shares <= pool.shares, "leaving shares belong to the pool"
    amount = worth(pool, leaving_shares)
    # Rounded down too, so that leavers do not pay the remaining owners.
    kept_grains = worth(pool, pool.shares - leaving_shares)
    return Left(
        SharePool(kept_grains, pool.shares - leaving_shares),
        amount,
        pool.value - kept_grains - amount,
    )


def strike(pool: SharePool, step: SlashStep) -> StruckPool:
    """Slash a pool. The loss is rounded up, so that no owner keeps more than outside a pool."""
    taken_grains = lost(pool.value, step)
    return StruckPool(SharePool(pool.value - taken_grains, pool.shares), taken_grains)
