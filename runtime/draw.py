"""Weighted draws that every node repeats exactly: integers only, all chance from a seed that the chain agreed on."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from runtime.hashing import blake2_256

_TICKET_BITS = 256


def roulette(seed: bytes, label: bytes, weights: Sequence[int], k: int) -> list[int]:
    """Up to `k` different positions of `weights`, in the order drawn; each draw by weight among those not drawn yet.

    Positions of weight 0 are never drawn; fewer than `k` come back when fewer have weight. `label` keeps draws of
    different purpose from the same seed independent. The bias of one draw is below (sum of weights) / 2^256.
    Raises ValueError for a negative weight or count.
    """
    if k < 0 or any(weight < 0 for weight in weights):
        raise ValueError("weights and counts are not negative")
    remaining = list(weights)
    drawn: list[int] = []
    while len(drawn) < k:
        cumulative = list(accumulate(remaining))
        if not cumulative or cumulative[-1] == 0:
            break
        mark = _ticket(seed, label, len(drawn)) * cumulative[-1] >> _TICKET_BITS
        position = bisect_right(cumulative, mark)
        drawn.append(position)
        remaining[position] = 0
    return drawn


def _ticket(seed: bytes, label: bytes, number: int) -> int:
    """A uniform integer below 2^256 for draw `number`; lengths go before the parts so that no two inputs meet."""
    parts = b"".join(len(part).to_bytes(4, "little") + part for part in (b"ogpu/draw", seed, label))
    return int.from_bytes(blake2_256(parts + number.to_bytes(4, "little")), "big")
