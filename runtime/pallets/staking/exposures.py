"""How much stake stands behind a validator in an era: election, rewards and the share of an offence are read off it.

Always: the parts of a reward add up to it.
"""

from collections.abc import Sequence

from runtime.encoding.codec import U32, struct
from runtime.encoding.types import Balance
from runtime.pallets.staking.slashing import part


@struct
class Exposure:
    """The stake behind one validator when its era began."""

    total: Balance
    own: Balance
    commission_ppm: U32 = 0
    """What the validator asked of its delegators when the era began."""


def elect(candidates: Sequence[tuple[bytes, int]], seats: int) -> tuple[tuple[bytes, int], ...]:
    """The `seats` candidates with the most stake behind them; equal stakes go by ascending account."""
    by_stake = sorted(candidates, key=lambda candidate: (-candidate[1], candidate[0]))
    return tuple(by_stake[:seats])


def own_part(reward: int, exposed: Exposure) -> int:
    """Of a validator's reward its commission and what its own bond earned; the rest is its delegators', rounded up."""
    commission = part(reward, exposed.commission_ppm)
    return commission + ((reward - commission) * exposed.own // exposed.total if exposed.total else 0)
