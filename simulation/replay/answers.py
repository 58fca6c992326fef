"""The right and the false results of units and tasks on a random chain, as if every actor could compute them.

Invariant: the results of a unit or a task are functions of it. All its liars give the same false result.
"""

from functools import lru_cache

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import Totals, batch_root, leaf_claim, totals_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit
from runtime.cryptography.hashing import blake2_256
from simulation.actors import INPUT_BAD, World, portion

ALL_WRONG = 0.5
"""The share of falsified batches without any right leaf. The others have one false leaf."""

Leaves = tuple[Leaf, ...]


def unit_of(world: World, unit_id: bytes) -> Unit:
    """Return the record of a unit that is not over."""
    unit = world.bound[InferenceMarket].units[unit_id]
    assert unit is not None, "it is open"
    return unit


def has_bad_input(unit_id: bytes) -> bool:
    """Return whether the input cannot be opened."""
    return portion(unit_id, b"input") < INPUT_BAD


def totals_for(unit_id: bytes, unit: Unit, *, is_right: bool) -> Totals:
    """Return the totals of the right result, or of the liars'. Some outputs take fewer tokens than allowed."""
    if unit.terms.requests > 1:
        return _totals_of_batch(*_shape(unit_id, unit), is_right)
    return Totals(
        requests=unit.terms.requests,
        tokens_in=unit.terms.tokens_in,
        tokens_out=_tokens_out(unit_id, unit),
        top=blake2_256((b"right" if is_right else b"wrong") + unit_id),
    )


def leaves_of(unit_id: bytes, unit: Unit, *, is_right: bool) -> Leaves:
    """Return the right leaves of a batch, or the liars' leaves."""
    return _leaves(*_shape(unit_id, unit), is_right)


def leaves_under(unit_id: bytes, unit: Unit, root: bytes) -> Leaves:
    """Return the leaves of a batch's root: the right ones, or the liars'."""
    is_right = batch_root(totals_for(unit_id, unit, is_right=True)) == root
    return leaves_of(unit_id, unit, is_right=is_right)


def answer_of(unit_id: bytes, unit: Unit, index: int, *, is_right: bool = True) -> bytes:
    """Return the right claim of an item, or the liars'."""
    if unit.terms.requests > 1:
        return leaf_claim(index, leaves_of(unit_id, unit, is_right=is_right)[index])
    return batch_root(totals_for(unit_id, unit, is_right=is_right))


def is_false(unit_id: bytes, unit: Unit, root: bytes, index: int) -> bool:
    """Return whether an item of the result with this root is false."""
    if unit.terms.requests > 1:
        return leaves_under(unit_id, unit, root)[index] != leaves_of(unit_id, unit, is_right=True)[index]
    return root != answer_of(unit_id, unit, index)


def _shape(unit_id: bytes, unit: Unit) -> tuple[bytes, int, int, int]:
    return unit_id, unit.terms.requests, unit.terms.tokens_in, _tokens_out(unit_id, unit)


def _tokens_out(unit_id: bytes, unit: Unit) -> int:
    return unit.terms.tokens_max * int(3 * portion(unit_id, b"spent")) // 2


@lru_cache(maxsize=1_024)
def _totals_of_batch(unit_id: bytes, requests: int, tokens_in: int, tokens_out: int, is_right: bool) -> Totals:
    return totals_of(_leaves(unit_id, requests, tokens_in, tokens_out, is_right))


@lru_cache(maxsize=128)
def _leaves(unit_id: bytes, requests: int, tokens_in: int, tokens_out: int, is_right: bool) -> Leaves:
    wrong = (
        range(requests)
        if portion(unit_id, b"all wrong") < ALL_WRONG
        else (int(requests * portion(unit_id, b"wrong leaf")),)
    )
    names = (b"right" if is_right or index not in wrong else b"wrong" for index in range(requests))
    return tuple(
        Leaf(
            tokens_in // requests + (index < tokens_in % requests),
            tokens_out // requests + (index < tokens_out % requests),
            blake2_256(name + unit_id + index.to_bytes(4, "little")),
        )
        for index, name in enumerate(names)
    )
