"""Stepwise runs in a real worker process: the states of an uninterrupted run, from any of them, and invalid states."""

from typing import Any

import pytest

from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.executor import BadRequestError, BadStateError, ExecutionError
from gpu_tasks.workloads.fingerprints import TRAIL_BYTES, first_trail
from gpu_tasks.workloads.stepwise import states, trailed_segments
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


async def test_a_worker_continues_a_trail_and_makes_none_unasked() -> None:
    run = IntegerTraining(arithmetic("numpy")).begin(ASKED)
    state, trail = next(trailed_segments(run))
    start = run.initial_state()
    async with started(worker_of("train-int8")) as executor:
        middle = await executor.advance(ASKED, start, 3, first_trail(start))
        end = await executor.advance(ASKED, middle.state, 1, middle.trail)
        assert (end.state, end.trail) == (state, trail)
        assert (await executor.advance(ASKED, state, 0, trail)).trail == trail
        assert (await executor.advance(ASKED, start, 4)).trail is None


@pytest.mark.parametrize("trail", [None, bytes(TRAIL_BYTES)])
async def test_a_worker_that_drops_or_invents_a_trail_fails(
    trail: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(*_: Any) -> wire.Advanced:
        return wire.Advanced(b"", 0, bytes(TRAIL_BYTES) if trail is None else None, 0, 0)

    executor = worker_of("train-int8")
    monkeypatch.setattr(executor, "_expected_answer", answer)
    with pytest.raises(ExecutionError) as refused:
        await executor.advance(ASKED, b"", 0, trail)
    assert refused.value.code == "wrong_worker_answer"


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
