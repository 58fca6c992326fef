"""How much stake stands behind a validator in an era: election, rewards and the share of an offence are read off it.

Always: the parts of a reward add up to it.
"""

from collections.abc import Iterable

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


def by_stake(candidates: Iterable[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Candidates with what is behind each, the most first; equal stakes go by ascending account."""
    return sorted(candidates, key=lambda candidate: (-candidate[1], candidate[0]))


def own_part(reward: int, exposed: Exposure) -> int:
    """Of a validator's reward its commission and what its own bond earned; the rest is its delegators', rounded up."""
    commission = part(reward, exposed.commission_ppm)
    return commission + ((reward - commission) * exposed.own // exposed.total if exposed.total else 0)
