"""The windows of a roll call, to the block, and the throughput that its proofs state."""

import pytest

from gpu_tasks.market.capacity.proofs import ProvenRate
from gpu_tasks.market.capacity.roll_call import (
    CALL_BLOCKS,
    PROOFS_FROM,
    PROOFS_TO,
    UNIT,
    RollCall,
    can_prove,
    is_over,
    next_at,
    over_at,
    rate,
)
from gpu_tasks.market.capacity.standing import standing_rate

CALL = RollCall(number=7, at=100, from_slot=100, seed=b"s" * 32)
OVER = over_at(CALL)
PERIOD = 100


def test_each_window_is_open_in_its_own_blocks() -> None:
    heights = range(80, 200)
    assert [height for height in heights if can_prove(CALL, height)] == list(range(105, 111))
    assert [height for height in heights if is_over(CALL, height)] == list(range(171, 200))
    assert CALL.at + CALL_BLOCKS == OVER == 171


def test_a_roll_call_begins_at_any_block_of_its_period_and_ends_within_it() -> None:
    begun = {next_at(300, PERIOD, bytes([value])) for value in range(256)}
    assert begun == set(range(301, 301 + PERIOD - CALL_BLOCKS))
    assert max(begun) + CALL_BLOCKS == 400


@pytest.mark.parametrize(
    ("proof", "before", "after"),
    [
        (None, 0, 0),
        (ProvenRate(7, 20, 10), 10, 20),
        (ProvenRate(7, 20), 0, 20),
        (ProvenRate(6, 10, 5), 10, 0),
        (ProvenRate(5, 10, 5), 0, 0),
    ],
)
def test_a_proof_counts_until_the_next_roll_call_is_over(proof: ProvenRate | None, before: int, after: int) -> None:
    assert standing_rate(CALL, OVER - 1, proof) == before
    assert standing_rate(CALL, OVER, proof) == after


@pytest.mark.parametrize("empty_before", [None, *range(1, PROOFS_TO + 1)])
@pytest.mark.parametrize("proving", [range(first, PROOFS_TO + 1) for first in range(PROOFS_FROM, PROOFS_TO + 1)])
def test_one_machine_proves_at_most_a_fifth_too_much_for_any_devices(proving: range, empty_before: int | None) -> None:
    """It may be the seed's author, so it computes from slot 0 on, for a device until each of the `proving` blocks.

    The slot before at most one block is empty.
    """
    machine, computed_until, total = 7_000, 0, 0
    for block in proving:
        slot = 1 + block + (empty_before is not None and block >= empty_before)
        total += rate(machine * UNIT * (slot - computed_until), 1, slot)
        computed_until = slot
    assert 5 * total <= 6 * machine
