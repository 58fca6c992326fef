"""The draw of a batch's leaves to check: the beacon names points on a line that the leaves share by weight.

    weight(leaf) = tokens out + tokens in * input share + floor
    floor        = ceil(tokens allowed / (2 * requests))

The leaves lie one after another on a line from 0 to the total weight, which the totals give. Each point names one leaf,
and the sums left of its path prove which one. The chance of a leaf grows with the payment that it claims. The floor
gives leaves that claim nothing a chance too. docs/batches.md computes the gain and the risk of a cheat.

Invariants: weights and points are integers, in millionths of an output token, so shares need no rounding. An input
token must weigh its share of the payment (`input_share`). With a greater weight, a leaf that claims many outputs could
hide among long inputs that cost little.
"""

from collections.abc import Sequence

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import TOKEN, work_of
from gpu_tasks.batches.sum_tree import LeafPath, Totals, before, holds
from runtime.cryptography.hashing import blake2_256

WHOLE = TOKEN
"""Millionths in an output token: the input share of a service that pays the same for an input token."""
REQUESTS_PER_LEAF = 32
CHECKED_MAX = 16
_DOMAIN = b"ogpu/leaf-draw/1"
_CHANCE_BITS = 256


def leaves_to_check(requests: int) -> int:
    """Return the number of points drawn of a batch: one for each 32 requests, at least 1, at most 16."""
    return min(CHECKED_MAX, -(-requests // REQUESTS_PER_LEAF))


def weight_floor(allowed_work: int, requests: int) -> int:
    """Return the weight of every leaf beyond its tokens: its part of half the allowed work, in tokens, rounded up.

    `allowed_work` is the work that the price pays for, in output tokens. With at least one token a request, no lie
    pays.
    """
    return -(-allowed_work // (2 * requests))


def drawn_points(seed: bytes, unit: bytes, totals: Totals, floor: int, *, input_share: int = WHOLE) -> tuple[int, ...]:
    """Return the points to check, in the order drawn. Two points may name one leaf.

    `seed` and `unit` have 32 bytes. The bias of a point is below total weight / 2^256. Raise ValueError if the
    total weight is 0, which a floor of one prevents.
    """
    total = total_weight(totals, floor, input_share=input_share)
    if total <= 0 or not len(seed) == len(unit) == 32:
        raise ValueError("a draw needs a batch with weight, and a seed and a unit of 32 bytes")
    point_count = leaves_to_check(totals.requests)
    # A product and a shift instead of a remainder: the bias stays below total / 2^256.
    return tuple(_uniform_number(seed, unit, number) * total >> _CHANCE_BITS for number in range(point_count))


def total_weight(totals: Totals, floor: int, *, input_share: int = WHOLE) -> int:
    """Return the weight of all leaves, in millionths of an output token."""
    return _weight_of(totals.tokens_in, totals.tokens_out, totals.requests, floor, input_share)


def leaf_weight(leaf: Leaf, floor: int, *, input_share: int = WHOLE) -> int:
    """Return the weight of one leaf, in millionths of an output token."""
    return _weight_of(leaf.tokens_in, leaf.tokens_out, 1, floor, input_share)


def index_at(leaves: Sequence[Leaf], floor: int, point: int, *, input_share: int = WHOLE) -> int:
    """Return the leaf at a point. Raise ValueError if the point is outside the line of these leaves."""
    weight_end = 0
    for index, leaf in enumerate(leaves):
        weight_end += leaf_weight(leaf, floor, input_share=input_share)
        if 0 <= point < weight_end:
            return index
    raise ValueError(f"no leaf at point {point}: the leaves weigh {weight_end} in total")


def covers(totals: Totals, floor: int, leaf_path: LeafPath, point: int, *, input_share: int = WHOLE) -> bool:
    """Return True if the path holds and its leaf contains the point."""
    if not holds(totals, leaf_path):
        return False
    weight_start = _weight_of(*before(totals, leaf_path), leaf_path.index, floor, input_share)
    return (
        weight_start
        <= point
        < weight_start + _weight_of(leaf_path.tokens_in, leaf_path.tokens_out, 1, floor, input_share)
    )


def _weight_of(tokens_in: int, tokens_out: int, leaf_count: int, floor: int, input_share: int) -> int:
    """Return the weight of `leaf_count` leaves with these tokens in total, in millionths of an output token."""
    return work_of(input_share, tokens_in, tokens_out + leaf_count * floor)


def _uniform_number(seed: bytes, unit: bytes, number: int) -> int:
    """Return a uniform integer below 2^256."""
    return int.from_bytes(blake2_256(_DOMAIN + seed + unit + number.to_bytes(4, "little")), "big")
