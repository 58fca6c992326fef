"""Many requests in one question to a worker, with real processes."""

import asyncio

import pytest

from gpu_tasks.provider.execution.executor import ExecutionError, WorkerExecutor
from gpu_tasks.provider.execution.worker_process import WorkerProcess
from gpu_tasks.provider.execution.worker_wire import FinishedRequest, Ran, RanSome, WorkerAnswer
from gpu_tasks.workloads.model_forms import open_workload
from started_workers import TIGHT, hostile, started, worker_of
from text_requests import TEXTS, text_request

Outputs = dict[int, bytes | None]


async def test_a_worker_answers_a_batch_as_it_answers_each_request() -> None:
    asked = [text_request(bytes([65 + n]) * (n + 1), 5 + n) for n in range(9)]
    asked[4] = b"no request"
    found: Outputs = {}
    async with started(worker_of(TEXTS)) as executor:
        took = await executor.run_many(asked, found.update)
        assert took.cpu_ms > 0
        assert (await executor.run(asked[0])).output == found[0], "it goes on after a batch"
    workload = open_workload(TEXTS, "numpy")
    assert found == {place: None if place == 4 else workload.run(asked[place]) for place in range(9)}


@pytest.mark.parametrize(
    ("attack", "reason"),
    [(b"loop", "1 s of CPU"), (b"die", "ended with status 3"), (b"memory", "MemoryError")],
)
async def test_what_was_told_before_an_attack_is_kept(attack: bytes, reason: str) -> None:
    found: Outputs = {}
    async with started(hostile()) as executor:
        asked = [b"echo one", b"sleep 1.5", b"echo two", attack, b"echo three"]
        with pytest.raises(ExecutionError, match=reason):
            await executor.run_many(asked, found.update)
        assert (await executor.run(b"echo hello")).output == b"hello"
    assert found[0] == b"one"
    assert 4 not in found


class Deaf(WorkerProcess):
    """A worker without a process."""

    def write(self, body: bytes) -> None:
        """Discard the message."""


class Telling(WorkerExecutor):
    """A worker that sends scripted messages."""

    def __init__(self, *answers: WorkerAnswer) -> None:
        super().__init__(["false"], TIGHT)
        self._process = Deaf(["false"], {})
        self.answers = list(answers)

    async def _started_worker(self) -> None:
        """The worker exists."""

    async def _read_answer(self, cpu_seconds: int) -> WorkerAnswer:
        return self.answers.pop(0)


DONE = Ran(b"", 1, 1)


def some(*places: int) -> RanSome:
    return RanSome(tuple(FinishedRequest(place, b"x") for place in places))


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((some(0), some(0)), "twice"),
        ((some(0, 0),), "twice"),
        ((some(2),), "unknown request"),
        ((some(0), DONE), "1 request$"),
        ((DONE,), "2 requests$"),
    ],
)
def test_a_worker_that_tells_too_much_or_too_little_is_not_believed(
    answers: tuple[WorkerAnswer, ...], reason: str
) -> None:
    executor = Telling(*answers)
    with pytest.raises(ExecutionError, match=reason):
        asyncio.run(executor.run_many([b"a", b"b"], lambda _: None))


def test_a_worker_that_tells_of_all_is_believed() -> None:
    found: Outputs = {}
    took = asyncio.run(Telling(some(1), some(0), DONE).run_many([b"a", b"b"], found.update))
    assert (took.cpu_ms, found) == (1, {0: b"x", 1: b"x"})
