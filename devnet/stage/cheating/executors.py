"""Executors that return wrong work and say that it is right: wrong outputs, wrong steps, another model.

Always: of a run in steps, what leaves is a state of the request, at the step that was asked for; everything before the
lie is honest, and everything behind it goes on from it, so that the trace is wrong at a single segment.
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
"""The training step whose result is bent, counted from 1."""
SKIPPED_PART = 10
"""One step of so many is skipped: the last ones."""
WEIGHTS_START = DIGEST_BYTES + 4


class BentRun:
    """An honest executor, for others that do one thing otherwise."""

    def __init__(self, honest: Executor) -> None:
        """Wrap another executor."""
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
    """Outputs leave with one bit flipped; of a batch the first."""

    async def run(self, request: bytes) -> Execution:
        """Return the right output, but for the lowest bit of its last byte."""
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
        """Return the place of the wrong answer of a batch."""
        return 0


class BentMiddle(FlippedBit):
    """Of a batch the output in the middle is wrong."""

    @staticmethod
    def bent_place(requests: int) -> int:
        """See `FlippedBit`."""
        return requests // 2


bent_place = BentMiddle.bent_place


class BitInOneWeight(BentRun):
    """One bit of one weight is another after one training step."""

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Go on honestly up to that step, change the bit, and go on from what that gives."""
        left = BENT_STEP - steps_done(state)
        if not 0 < left <= steps:
            return await self.honest.advance(request, state, steps)
        bent = await self.honest.advance(request, state, left)
        return await self.honest.advance(request, with_bit(bent.state), steps - left)


class SkippedTenth(BentRun):
    """The last tenth of the steps is not computed."""

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Go on honestly up to there; then keep the weights under another count of steps."""
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


def bent_by(kind: type[BentRun], of_workload: bytes | None, backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Make honest workers, each wrapped; with `of_workload` those of that workload alone."""
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
    """Make workers that compute text with other weights under the published model's name."""
    limits = limits_for(backend)
    command = [sys.executable, "-s", "-m", "devnet.stage.cheating.swapped_worker", json.dumps(asdict(limits))]
    return lambda _hardware, _form: WorkerExecutor(command, limits)
