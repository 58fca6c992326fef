"""The units of one device, in their order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.records import QUEUE_MAX, Device, DeviceClass

DEVICE = Device(b"o" * 32, DeviceClass.CPU, b"u" * 32, 10, 1, 1, queue=2)
FIRST, SECOND, THIRD = (bytes([number]) * 32 for number in (1, 2, 3))


def test_a_device_that_works_on_a_task_takes_no_units() -> None:
    busy = replace(DEVICE, assignment=FIRST, is_dedicated=True)
    assert not run_queue.has_place(busy)
    assert run_queue.has_place(run_queue.without_unit(busy, FIRST, 3))


def test_who_takes_fewer_keeps_what_it_has() -> None:
    full = replace(DEVICE, assignment=FIRST, behind=(SECOND, THIRD), queue=0)
    assert run_queue.units_of(full) == (FIRST, SECOND, THIRD)
    assert not run_queue.has_place(full)
    assert not run_queue.has_place(run_queue.without_unit(full, FIRST, 3))


@given(st.integers(0, QUEUE_MAX), st.lists(st.booleans(), max_size=60))
def test_units_keep_their_order_and_the_blocks_of_as_many_ends_are_kept_as_there_are_places(
    queue: int, moves: list[bool]
) -> None:
    device, units, ends = replace(DEVICE, queue=queue), list[bytes](), list[int]()
    for height, is_end in enumerate(moves, 2):
        assert run_queue.has_place(device) == (len(units) <= queue)
        if is_end and units:
            ended = units.pop(height % len(units))
            device, ends = run_queue.without_unit(device, ended, height), [height, *ends]
        elif run_queue.has_place(device):
            units.append(height.to_bytes(32, "big"))
            device = run_queue.with_unit(device, units[-1])
        assert run_queue.units_of(device) == tuple(units)
        assert device.freed_at == tuple(ends[: queue + 1])
