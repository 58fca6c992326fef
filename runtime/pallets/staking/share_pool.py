"""Grains that many own by shares: joining, leaving and a slash cost one change each, however many they are.

Always:
* `value * SHARES_PER_GRAIN <= shares`: a grain never costs fewer shares than the first one did. So whoever asks for an
  amount within what its shares are worth gets that amount to the grain, and nobody can make a share dear.
* No step raises what a share is worth. It falls by slashes; where a step does not divide, less than one grain of the
  whole pool is dust, which belongs to nobody and which the caller burns.
"""

from dataclasses import dataclass

from runtime.encoding.codec import U128, struct
from runtime.encoding.types import Balance
from runtime.pallets.staking.slash_factors import SlashStep, lost

SHARES_PER_GRAIN = 1_000_000
"""What the first grain of an empty pool buys: a share is too little to be worth rounding for."""
SPENT_BELOW = 1_000_000
"""A pool of which less than one part in so many is left takes in nobody: its shares would grow without bound."""


@struct
class SharePool:
    """What lies in a pool, and by how many shares it is owned."""

    value: Balance = 0
    shares: U128 = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """After a join: all of `amount` came in, but for `dust`; `shares` own it."""

    pool: SharePool
    shares: int
    dust: int


@dataclass(frozen=True, slots=True)
class Left:
    """After a leave: `amount` goes with the shares, `dust` to nobody."""

    pool: SharePool
    amount: int
    dust: int


@dataclass(frozen=True, slots=True)
class StruckPool:
    """After a slash: `amount` was taken."""

    pool: SharePool
    amount: int


def is_spent(pool: SharePool) -> bool:
    """Whether slashes left too little to join."""
    return pool.value * SHARES_PER_GRAIN * SPENT_BELOW < pool.shares


def worth(pool: SharePool, shares: int) -> int:
    """What so many shares are worth now, rounded down."""
    return pool.value * shares // pool.shares if pool.shares else 0


def join(pool: SharePool, amount: int) -> Joined:
    """Put `amount` into a pool that is not spent: shares by the pool's price, rounded down."""
    assert not is_spent(pool), "nobody joins what slashes took"
    if not pool.shares:
        shares = amount * SHARES_PER_GRAIN
        return Joined(SharePool(amount, shares), shares, 0)
    shares = amount * pool.shares // pool.value
    # The pool grows by what the shares are worth: else rounding would pay those who are in it already.
    grown = shares * pool.value // pool.shares
    return Joined(SharePool(pool.value + grown, pool.shares + shares), shares, amount - grown)


def shares_for(pool: SharePool, amount: int, owned: int) -> int:
    """The fewest of `owned` shares that bring `amount`; all of them if the rest would be worth nothing."""
    assert 0 <= amount <= worth(pool, owned), "nobody takes out more than its shares are worth"
    shares = -(-amount * pool.shares // pool.value) if pool.value else owned
    return shares if worth(pool, owned - shares) else owned


def leave(pool: SharePool, shares: int) -> Left:
    """Take shares out with what they are worth, rounded down."""
    assert shares <= pool.shares, "a share leaves once"
    amount = worth(pool, shares)
    # Rounded down too: those who stay are not paid by those who go.
    kept = worth(pool, pool.shares - shares)
    return Left(SharePool(kept, pool.shares - shares), amount, pool.value - kept - amount)


def strike(pool: SharePool, step: SlashStep) -> StruckPool:
    """Take the part that a slash takes from each, rounded up: nobody keeps more than by its own account."""
    amount = lost(pool.value, step)
    return StruckPool(SharePool(pool.value - amount, pool.shares), amount)
