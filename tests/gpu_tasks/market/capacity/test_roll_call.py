"""The phases of a roll call, to the block. No two are open at once."""

from gpu_tasks.market.capacity.proofs import INSPECTORS, drawn_inspectors, drawn_rows
from gpu_tasks.market.capacity.roll_call import (
    CALL_BLOCKS,
    RollCall,
    can_commit,
    can_object,
    can_open,
    inspectors_at,
    is_over,
    rows_at,
)

CALL = RollCall(number=1, at=100, from_slot=100, seed=b"s" * 32)
HEIGHTS = range(80, 200)


def test_each_part_is_open_in_its_own_blocks() -> None:
    assert (rows_at(CALL), inspectors_at(CALL)) == (112, 133)
    for may, first, last in ((can_commit, 105, 110), (can_open, 112, 132), (can_object, 133, 173)):
        assert [height for height in HEIGHTS if may(CALL, height)] == list(range(first, last + 1)), may
    assert [height for height in HEIGHTS if is_over(CALL, height)] == list(range(174, 200))
    assert 174 - CALL.at == CALL_BLOCKS


def test_what_is_drawn_of_a_device_says_nothing_of_another() -> None:
    entrants = [(bytes([number]) * 32, 1) for number in range(40)]
    seed, devices = b"s" * 32, [bytes([number]) * 32 for number in range(5)]
    assert len({tuple(drawn_rows(seed, device, 4_096)) for device in devices}) == len(devices)
    drawn = {tuple(drawn_inspectors(seed, device, entrants)) for device in devices}
    assert len(drawn) == len(devices)
    assert {len(each) for each in drawn} == {INSPECTORS}
