"""The line of a batch's leaves: beacons name points on it (`item_draws`), and each point names one leaf.

    weight(leaf) = tokens out + tokens in * input share + floor
    floor        = ceil(tokens allowed / (2 * requests))

The leaves lie one after another on a line from 0 to the total weight, which the totals give. Each point names one leaf.
The chance of a leaf grows with the payment that it claims. The floor gives leaves that claim nothing a chance too.

Invariants: weights and points are integers, in millionths of an output token, so shares need no rounding. An input
token must weigh its share of the payment (`input_share`). With a greater weight, a leaf that claims many outputs could
hide among long inputs that cost little.
"""

from collections.abc import Sequence

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import TOKEN, work_of
from gpu_tasks.batches.sum_tree import Totals

WHOLE = TOKEN
"""Millionths in an output token: the input share of a service that pays the same for an input token."""


def weight_floor(allowed_work: int, requests: int) -> int:
    """Return the weight of every leaf beyond its tokens: its part of half the allowed work, in tokens, rounded up.

    `allowed_work` is the work that the price pays for, in output tokens. With at least one token a request, no lie
    pays.
    """
    return -(-allowed_work // (2 * requests))


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


def _weight_of(tokens_in: int, tokens_out: int, leaf_count: int, floor: int, input_share: int) -> int:
    """Return the weight of `leaf_count` leaves with these tokens in total, in millionths of an output token."""
    return work_of(input_share, tokens_in, tokens_out + leaf_count * floor)
