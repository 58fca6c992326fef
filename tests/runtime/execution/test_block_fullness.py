"""Limits of a block: excess extrinsics stay out, and inherents always fit."""

import pytest

from runtime.encoding.types import DispatchClass, Weight
from runtime.execution.block_fullness import BlockFullness
from runtime.frame.errors import InvalidReason, InvalidTransaction
from runtime.frame.weights import (
    BLOCK_BASE,
    BLOCK_MAX,
    EXTRINSIC_BASE,
    EXTRINSICS_PER_BLOCK_MAX,
    MICROSECOND,
    class_limit,
    length_limit,
)

NORMAL, OPERATIONAL, MANDATORY = DispatchClass


NOTHING = Weight()


def fits(fullness: BlockFullness, kind: DispatchClass, weight: Weight = NOTHING, length: int = 1) -> bool:
    try:
        fullness.check(kind, weight, length)
    except InvalidTransaction as error:
        return error.reason is not InvalidReason.EXHAUSTS_RESOURCES
    return True


def test_a_normal_extrinsic_may_fill_its_share_and_no_more() -> None:
    limit = class_limit(NORMAL)
    assert limit is not None
    room = limit.ref_time - BLOCK_BASE.ref_time - EXTRINSIC_BASE.ref_time
    assert fits(BlockFullness(), NORMAL, Weight(room))
    assert not fits(BlockFullness(), NORMAL, Weight(room + 1))
    assert not fits(BlockFullness(), NORMAL, Weight(0, limit.proof_size + 1))


@pytest.mark.parametrize("kind", [NORMAL, OPERATIONAL])
def test_lengths_add_up(kind: DispatchClass) -> None:
    fullness = BlockFullness()
    fullness.add(NORMAL, Weight(), length_limit(kind) - 10)
    assert fits(fullness, kind, length=10)
    assert not fits(fullness, kind, length=11)
    assert fits(fullness, MANDATORY, length=11)


def test_classes_share_the_block() -> None:
    fullness = BlockFullness()
    fullness.add(MANDATORY, Weight(BLOCK_MAX.ref_time), 0)
    assert not fits(fullness, NORMAL)
    assert not fits(fullness, OPERATIONAL)
    assert fits(fullness, MANDATORY)


def test_the_number_of_extrinsics_is_limited() -> None:
    fullness = BlockFullness()
    fullness.count = EXTRINSICS_PER_BLOCK_MAX - 1
    assert fits(fullness, NORMAL)
    fullness.count += 1
    assert not fits(fullness, NORMAL)


def test_what_hooks_weigh_takes_from_the_room_for_extrinsics() -> None:
    fullness, hook = BlockFullness(), Weight(600_000 * MICROSECOND, 5)
    before = fullness.consumed()
    fullness.add_hook(hook)
    assert fullness.consumed().mandatory == before.mandatory + hook
    room = BLOCK_MAX.ref_time - before.mandatory.ref_time - hook.ref_time - EXTRINSIC_BASE.ref_time
    assert fits(fullness, NORMAL, Weight(room))
    assert not fits(fullness, NORMAL, Weight(room + 1))
    assert fits(fullness, MANDATORY, BLOCK_MAX)
