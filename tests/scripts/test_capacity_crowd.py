"""Fake devices on one machine: together they claim less than 1.2 times its real throughput."""

import pytest

from scripts.capacity.crowd import RATE_MIN, outcome, shape_of

MACHINE = 10 * RATE_MIN


@pytest.mark.parametrize(("devices", "working"), [(1, 1), (14, 10), pytest.param(100, 10, marks=pytest.mark.nightly)])
def test_devices_claim_no_more_than_their_machine_computes(devices: int, working: int) -> None:
    found = outcome(devices, MACHINE, shape_of(RATE_MIN))
    assert found.working == working
    assert 5 * found.claimed <= 5 * found.proven <= 6 * MACHINE
    assert (found.lost > 0) is (devices > working)


@pytest.mark.nightly
def test_a_machine_shared_evenly_by_too_many_lets_none_work() -> None:
    found = outcome(100, MACHINE, shape_of(1))
    assert (found.working_at_first, found.working, found.lost) == (0, 0, 0)
    assert 5 * found.proven <= 6 * MACHINE
