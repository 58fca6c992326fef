"""Stepwise runs in a real worker process: the states of an uninterrupted run, from any of them, and invalid states."""

import pytest

from gpu_tasks.provider.execution.executor import BadRequestError, BadStateError, ExecutionError
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.request import REQUEST
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from started_workers import started, worker_of
from training_requests import SMALL

ASKED = REQUEST.encode(SMALL)


async def test_a_worker_goes_from_state_to_state_as_an_undisturbed_run_does() -> None:
    run = IntegerTraining(arithmetic("numpy")).begin(ASKED)
    right = list(states(run))
    async with started(worker_of("train-int8")) as executor:
        begun = await executor.begin(ASKED)
        assert begun.state == right[0]
        assert begun.boundaries == (0, 4, 8, 11)
        middle = await executor.advance(ASKED, right[1], 3)
        assert middle.done == 7
        assert middle.memory_peak_bytes > 10_000_000, "of a process that holds NumPy"
        assert (await executor.advance(ASKED, middle.state, 1)).state == right[2]
        assert (await executor.advance(ASKED, right[2], 0)).done == 8
        assert await executor.metric(ASKED, right[3]) == run.metric(right[3])


async def test_what_is_no_state_or_no_request_costs_one_question() -> None:
    right = list(states(IntegerTraining(arithmetic("numpy")).begin(ASKED)))
    async with started(worker_of("train-int8")) as executor:
        for state, steps in ((b"", 1), (right[1][:-1], 1), (b"x" * len(right[1]), 1), (right[3], 1)):
            with pytest.raises(BadStateError):
                await executor.advance(ASKED, state, steps)
        with pytest.raises(BadStateError):
            await executor.metric(ASKED, b"")
        with pytest.raises(BadRequestError):
            await executor.begin(ASKED[:-1])
        with pytest.raises(BadRequestError):
            await executor.advance(b"", right[1], 1)
        assert (await executor.advance(ASKED, right[0], 4)).state == right[1]


async def test_a_workload_without_steps_says_so() -> None:
    async with started(worker_of("matmul-hash")) as executor:
        with pytest.raises(ExecutionError, match="run in steps"):
            await executor.begin(b"")
