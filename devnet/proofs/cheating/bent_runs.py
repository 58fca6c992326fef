"""Executors that compute runs in steps wrongly, and say that they are right: for tasks of `train-int8`.

Always: what leaves is a state of the request, at the step that was asked for; everything before the lie is honest, and
everything behind it goes on from it, so that the trace is wrong at a single segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import BegunRun, Execution, Executor, Finished, LaterState, ManyExecuted
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.starting import workers_with
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.train_int8.request import WORKLOAD_ID, decode_request
from gpu_tasks.workloads.train_int8.state import DIGEST_BYTES

BENT_STEP = 25
"""The training step whose result is bent, counted from 1."""
SKIPPED_PART = 10
"""One step of so many is skipped: the last ones."""
WEIGHTS_START = DIGEST_BYTES + 4


class BentRun:
    """An honest executor, whose runs in steps go wrong somewhere."""

    def __init__(self, honest: Executor) -> None:
        """Wraps another executor."""
        self.honest = honest

    @property
    def workload_id(self) -> bytes:
        """The honest one's."""
        return self.honest.workload_id

    @property
    def model_id(self) -> bytes:
        """The honest one's."""
        return self.honest.model_id

    async def start(self) -> None:
        """See `Executor`."""
        await self.honest.start()

    async def run(self, request: bytes) -> Execution:
        """Honest: this cheat is about tasks."""
        return await self.honest.run(request)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """Honest too."""
        return await self.honest.run_many(requests, finished)

    async def verify(self, request: bytes, output: bytes) -> bool:
        """Honest too."""
        return await self.honest.verify(request, output)

    async def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """Honest too."""
        return await self.honest.trace(request, output, place)

    async def begin(self, request: bytes) -> BegunRun:
        """Honest: anybody knows where a run begins."""
        return await self.honest.begin(request)

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """See `Executor`."""
        return await self.honest.advance(request, state, steps)

    async def metric(self, request: bytes, state: bytes) -> int:
        """Honest: of the state that there is."""
        return await self.honest.metric(request, state)

    async def close(self) -> None:
        """See `Executor`."""
        await self.honest.close()


class BitInOneWeight(BentRun):
    """One bit of one weight is another after one training step."""

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Honest up to that step, then the bit, then honest from what that gives."""
        left = BENT_STEP - steps_done(state)
        if not 0 < left <= steps:
            return await self.honest.advance(request, state, steps)
        bent = await self.honest.advance(request, state, left)
        return await self.honest.advance(request, with_bit(bent.state), steps - left)


class SkippedTenth(BentRun):
    """The last tenth of the steps is not computed."""

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Honest up to there; then the same weights, and another count of steps."""
        wanted = steps_done(state) + steps
        asked = decode_request(request)
        last = asked.steps - asked.steps // SKIPPED_PART
        computed = max(0, min(wanted, last) - steps_done(state))
        later = await self.honest.advance(request, state, computed)
        return LaterState(counted(later.state, wanted), wanted)


def steps_done(state: bytes) -> int:
    """What a state says of itself."""
    return int.from_bytes(state[DIGEST_BYTES:WEIGHTS_START], "little")


def counted(state: bytes, steps: int) -> bytes:
    """The state, as if so many steps were done."""
    return state[:DIGEST_BYTES] + steps.to_bytes(4, "little") + state[WEIGHTS_START:]


def with_bit(state: bytes) -> bytes:
    """The state with the lowest bit of its first weight flipped."""
    return state[:WEIGHTS_START] + bytes((state[WEIGHTS_START] ^ 1,)) + state[WEIGHTS_START + 1 :]


def bending(kind: type[BentRun], backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Honest workers; those that train are wrapped."""
    honest = workers_with(backend, sandbox)

    def make(hardware: Hardware, form: WorkloadForm) -> Executor:
        worker = honest(hardware, form)
        return kind(worker) if form.workload_id == WORKLOAD_ID else worker

    return make


def bit_in_one_weight(backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Workers as `BitInOneWeight`."""
    return bending(BitInOneWeight, backend, sandbox)


def skipped_tenth(backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Workers as `SkippedTenth`."""
    return bending(SkippedTenth, backend, sandbox)
