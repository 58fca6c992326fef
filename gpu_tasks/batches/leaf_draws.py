"""Which leaves of a batch are looked at: points that the beacon names, on a line that the leaves share by weight.

    weight(leaf) = tokens out + tokens in * input share + floor
    floor        = ceil(tokens allowed / (2 * requests))

Laid one behind the other, the leaves cover the line from 0 to the weight of all, which the totals give: each point
names one leaf, and the sums left of a path show that it is this leaf. A leaf that claims more is drawn in proportion to
what is paid for it; the floor has those drawn too that claim nothing. What a cheat gains and risks: docs/batches.md.

Always: weights and points are integers, in millionths of a token that is written, so shares need no rounding. A token
that is read must weigh what is paid for it (`input_share`): beside long inputs that are paid little, a leaf that claims
many outputs would hide.
"""

from collections.abc import Sequence

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import TOKEN, work_of
from gpu_tasks.batches.sum_tree import LeafPath, Totals, before, holds
from runtime.cryptography.hashing import blake2_256

WHOLE = TOKEN
"""Millionths in a token that is written; the input share of a service where reading one is paid alike."""
REQUESTS_PER_LEAF = 32
CHECKED_MAX = 16
_DOMAIN = b"ogpu/leaf-draw/1"
_CHANCE_BITS = 256


def leaves_to_check(requests: int) -> int:
    """How many points are drawn of a batch: one for 32 requests, at least one, at most 16."""
    return min(CHECKED_MAX, -(-requests // REQUESTS_PER_LEAF))


def weight_floor(allowed: int, requests: int) -> int:
    """What every leaf weighs beside its tokens, in tokens: its part of half of what is allowed, rounded up.

    `allowed` is the work that the price is for, in tokens that are written. From one a request on, no lie pays.
    """
    return -(-allowed // (2 * requests))


def drawn_points(seed: bytes, unit: bytes, totals: Totals, floor: int, *, input_share: int = WHOLE) -> tuple[int, ...]:
    """The points to be looked at, in the order drawn; two may name one leaf. `seed` and `unit` have 32 bytes.

    A point is off its even chance by less than the weight of all / 2^256. ValueError where nothing has weight, which a
    floor of one prevents.
    """
    total = _weight(totals.tokens_in, totals.tokens_out, totals.requests, floor, input_share)
    if total <= 0 or not len(seed) == len(unit) == 32:
        raise ValueError("points are drawn of a batch with weight, by a seed and a unit of 32 bytes")
    count = leaves_to_check(totals.requests)
    return tuple(_chance(seed, unit, number) * total >> _CHANCE_BITS for number in range(count))


def index_at(leaves: Sequence[Leaf], floor: int, point: int, *, input_share: int = WHOLE) -> int:
    """The leaf that a point names; ValueError for a point that is not on the line of these leaves."""
    end = 0
    for index, leaf in enumerate(leaves):
        end += _weight(leaf.tokens_in, leaf.tokens_out, 1, floor, input_share)
        if 0 <= point < end:
            return index
    raise ValueError(f"no leaf at point {point}: the leaves weigh {end}")


def covers(totals: Totals, floor: int, path: LeafPath, point: int, *, input_share: int = WHOLE) -> bool:
    """Whether this path holds, and its leaf is the one that the point names."""
    if not holds(totals, path):
        return False
    start = _weight(*before(totals, path), path.index, floor, input_share)
    return start <= point < start + _weight(path.tokens_in, path.tokens_out, 1, floor, input_share)


def _weight(tokens_in: int, tokens_out: int, leaves: int, floor: int, input_share: int) -> int:
    """Of leaves with so many tokens together, in millionths of a token that is written."""
    return work_of(input_share, tokens_in, tokens_out + leaves * floor)


def _chance(seed: bytes, unit: bytes, number: int) -> int:
    """A uniform integer below 2^256."""
    return int.from_bytes(blake2_256(_DOMAIN + seed + unit + number.to_bytes(4, "little")), "big")
