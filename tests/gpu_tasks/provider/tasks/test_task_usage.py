"""The resources used by steps, and by several pieces of work together."""

import pytest

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.provider.duties.work import NOTHING_USED, usage_of
from gpu_tasks.provider.execution.executor import LaterState
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.tasks.task_runs import together

LATER = LaterState(b"", 9, cpu_ms=40, memory_peak_bytes=700)


@pytest.mark.parametrize(
    ("reading", "usage"),
    [
        (Reading(is_gpu=False, energy_mj=0, memory_peak_bytes=0), Usage(5, 0, 0, 40, 61, 700)),
        (Reading(is_gpu=True, energy_mj=8, memory_peak_bytes=900), Usage(5, 61, 8, 40, 61, 900)),
        (Reading(is_gpu=True, energy_mj=8, memory_peak_bytes=600), Usage(5, 61, 8, 40, 61, 700)),
    ],
)
def test_a_unit_of_work_is_a_step_and_a_gpu_works_while_it_is_waited_for(reading: Reading, usage: Usage) -> None:
    assert usage_of(5, 61, LATER, reading) == usage


def test_pieces_add_up_but_for_their_peaks() -> None:
    first, second = Usage(1, 2, 3, 4, 5, 60), Usage(10, 20, 30, 40, 50, 6)
    assert together(first, second) == together(second, first) == Usage(11, 22, 33, 44, 55, 60)
    assert together(first, NOTHING_USED) == first
