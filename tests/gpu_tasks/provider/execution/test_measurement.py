"""A device's computation at roll calls, the chosen work, and the computing process."""

import asyncio

import pytest

from chain_computers import HereComputer
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MIN, WorkShape, is_sound, operations
from gpu_tasks.market.capacity.roll_call import UNIT
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.commands.bench import class_reached, shape_of, text_of
from gpu_tasks.provider.commands.options import ProviderError
from gpu_tasks.provider.execution.chain_process import ChainProcess
from gpu_tasks.provider.execution.chain_rates import WORK_SLOTS, MeasuredRate, measured_rate, shape_for
from gpu_tasks.provider.execution.chain_worker import ChainRows, ChainWork
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape, row_hash

CHALLENGE = ChainChallenge(b"\7" * 32, ChainShape(16, 40, 3))


class EmptyComputer(HereComputer):
    """Takes no time at all."""

    async def rows(self, work: ChainWork) -> ChainRows:
        return ChainRows(bytes(32), b"")


@pytest.mark.parametrize("rate", [1, 10, 400, 1_000, 20_000, 100_000, 10**7])
def test_work_is_sound_and_no_more_than_was_wanted(rate: int) -> None:
    shape = shape_for(rate * UNIT)
    assert is_sound(shape)
    assert operations(shape) <= max(rate * UNIT, operations(WorkShape(SIZE_MIN, ROWS_MIN, 1)))
    assert 2 * operations(shape) >= rate * UNIT or shape.rounds == ROUNDS_MAX


def test_whoever_takes_no_time_is_offered_the_largest_work() -> None:
    found = asyncio.run(measured_rate(EmptyComputer(), 1_000))
    assert found.work().rounds == ROUNDS_MAX
    assert is_sound(found.work())


def test_less_time_is_less_work() -> None:
    works = [operations(MeasuredRate(1_000).work(slots)) for slots in (1, 3, WORK_SLOTS)]
    assert works == sorted(set(works))
    assert operations(MeasuredRate(1_000).work()) == works[-1]


def test_a_class_is_reached_by_its_least() -> None:
    least = (10, 1_000, 20_000)
    found = [class_reached(rate, least) for rate in (9, 10, 999, 1_000, 20_000)]
    assert found == [None, DeviceClass.CPU, DeviceClass.CPU, DeviceClass.CONSUMER, DeviceClass.DATACENTER]


def test_a_work_is_written_and_read() -> None:
    shape = WorkShape(256, 4_096, 500)
    assert shape_of(text_of(shape)) == shape
    for text in ("256x4096", "a", "1x4096x1", "256x4096x513", "256x-4096x1"):
        with pytest.raises(ProviderError):
            shape_of(text)


async def test_a_process_gives_the_rows_that_are_right_and_is_started_anew_when_it_died() -> None:
    process = ChainProcess("numpy")
    right = await HereComputer().rows(ChainWork(CHALLENGE))
    assert await process.rows(ChainWork(CHALLENGE)) == right
    await process.close()
    some = await process.rows(ChainWork(CHALLENGE, (3, 0)))
    size = CHALLENGE.shape.size
    assert row_hash(some.ends[:size]) + row_hash(some.ends[size:]) == right.digests[96:128] + right.digests[:32]
    await process.close()
    with pytest.raises(ExecutionError, match="torch-nothing"):
        await ChainProcess("torch-nothing").start()
