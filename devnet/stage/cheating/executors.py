"""Executors that return wrong work as if it were right: wrong outputs, wrong steps, another model.

Invariant: every state of a run in steps belongs to the request and to the step that the caller asked for. Everything
before the lie is honest, and everything after it continues from it, so the trace is wrong at a single segment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from devnet.stage.cheating.lies import flipped
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import (
    BegunRun,
    Execution,
    Executor,
    Finished,
    LaterState,
    ManyExecuted,
    WorkerExecutor,
)
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.train_int8.request import WORKLOAD_ID, decode_request
from gpu_tasks.workloads.train_int8.state import DIGEST_BYTES

BENT_STEP = 25
"""The training step with a changed result, counted from 1."""
SKIPPED_PART = 10
"""The last 1/SKIPPED_PART of the steps is skipped."""
WEIGHTS_START = DIGEST_BYTES + 4


class BentRun:
    """An honest executor, as the base of executors that change one thing."""

    def __init__(self, honest: Executor) -> None:
        """Wrap an honest executor."""
        self.honest = honest

    @property
    def workload_id(self) -> bytes:
        """The honest executor's workload id."""
        return self.honest.workload_id

    @property
    def model_id(self) -> bytes:
        """The honest executor's model id."""
        return self.honest.model_id

    async def start(self) -> None:
        """See `Executor`."""
        await self.honest.start()

    async def run(self, request: bytes) -> Execution:
        """See `Executor`."""
        return await self.honest.run(request)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """See `Executor`."""
        return await self.honest.run_many(requests, finished)

    async def verify(self, request: bytes, output: bytes) -> bool:
        """See `Executor`."""
        return await self.honest.verify(request, output)

    async def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """See `Executor`."""
        return await self.honest.trace(request, output, place)

    async def begin(self, request: bytes) -> BegunRun:
        """See `Executor`."""
        return await self.honest.begin(request)

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """See `Executor`."""
        return await self.honest.advance(request, state, steps)

    async def metric(self, request: bytes, state: bytes) -> int:
        """See `Executor`."""
        return await self.honest.metric(request, state)

    async def close(self) -> None:
        """See `Executor`."""
        await self.honest.close()


class FlippedBit(BentRun):
    """An executor that flips one bit of each output, or of one output of a batch: the first."""

    async def run(self, request: bytes) -> Execution:
        """Return the right output with the lowest bit of its last byte flipped."""
        execution = await self.honest.run(request)
        return replace(execution, output=flipped(execution.output))

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """Flip a bit of one output of the batch."""
        bent = self.bent_place(len(requests))

        def told(part: Sequence[tuple[int, bytes | None]]) -> None:
            finished([(place, flipped(output) if output and place == bent else output) for place, output in part])

        return await self.honest.run_many(requests, told)

    @staticmethod
    def bent_place(_requests: int) -> int:
        """Return the index of the wrong answer of a batch."""
        return 0


class BentMiddle(FlippedBit):
    """An executor that flips a bit in the middle output of a batch."""

    @staticmethod
    def bent_place(requests: int) -> int:
        """See `FlippedBit`."""
        return requests // 2


bent_place = BentMiddle.bent_place


class BitInOneWeight(BentRun):
    """An executor that flips one bit of one weight after one training step."""

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Advance honestly up to that step, flip the bit, and advance from the changed state."""
        left = BENT_STEP - steps_done(state)
        if not 0 < left <= steps:
            return await self.honest.advance(request, state, steps)
        bent = await self.honest.advance(request, state, left)
        return await self.honest.advance(request, with_bit(bent.state), steps - left)


class SkippedTenth(BentRun):
    """An executor that does not compute the last tenth of the steps."""

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Advance honestly up to that tenth. From there keep the weights and raise the step count."""
        wanted = steps_done(state) + steps
        asked = decode_request(request)
        last = asked.steps - asked.steps // SKIPPED_PART
        computed = max(0, min(wanted, last) - steps_done(state))
        later = await self.honest.advance(request, state, computed)
        return LaterState(counted(later.state, wanted), wanted)


def steps_done(state: bytes) -> int:
    """Return the step count that a state declares."""
    return int.from_bytes(state[DIGEST_BYTES:WEIGHTS_START], "little")


def counted(state: bytes, steps: int) -> bytes:
    """Return the state with another step count."""
    return state[:DIGEST_BYTES] + steps.to_bytes(4, "little") + state[WEIGHTS_START:]


def with_bit(state: bytes) -> bytes:
    """Return the state with the lowest bit of its first weight flipped."""
    return state[:WEIGHTS_START] + bytes((state[WEIGHTS_START] ^ 1,)) + state[WEIGHTS_START + 1 :]


def bent_by(kind: type[BentRun], of_workload: bytes | None, backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Return a factory of honest workers, each wrapped. With `of_workload`, wrap only that workload's workers."""
    honest = workers_with(backend, sandbox)

    def make(hardware: Hardware, form: WorkloadForm) -> Executor:
        worker = honest(hardware, form)
        return kind(worker) if of_workload in (None, form.workload_id) else worker

    return make


flipping = partial(bent_by, FlippedBit, None)
bending = partial(bent_by, BentMiddle, None)
bit_in_one_weight = partial(bent_by, BitInOneWeight, WORKLOAD_ID)
skipped_tenth = partial(bent_by, SkippedTenth, WORKLOAD_ID)


def swapping(backend: str, _sandbox: Sandbox | None) -> MakeExecutor:
    """Return a factory of text workers with other weights under the published model's id."""
    limits = limits_for(backend)
    command = [sys.executable, "-s", "-m", "devnet.stage.cheating.swapped_worker", json.dumps(asdict(limits))]
    return lambda _hardware, _form: WorkerExecutor(command, limits)
