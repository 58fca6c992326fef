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

from devnet.stage.cheating.lies import with_flipped_bit
from gpu_tasks.models.model_store import FOLDER_VARIABLE, default_folder
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import (
    BegunRun,
    CheckedOutput,
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
from gpu_tasks.provider.execution.worker_start import backend_for, workers_with
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_ID as DECODER_ID
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

    def __init__(self, honest_executor: Executor) -> None:
        """Wrap an honest executor."""
        self.honest = honest_executor

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

    async def admit(self, requests: Sequence[bytes], seconds_max: float) -> None:
        """See `Executor`."""
        await self.honest.admit(requests, seconds_max)

    async def run(self, request: bytes) -> Execution:
        """See `Executor`."""
        return await self.honest.run(request)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """See `Executor`."""
        return await self.honest.run_many(requests, finished)

    async def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        """See `Executor`."""
        return await self.honest.fingerprint(request, output, seed)

    async def check(self, request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        """See `Executor`."""
        return await self.honest.check(request, output, seed)

    async def begin(self, request: bytes) -> BegunRun:
        """See `Executor`."""
        return await self.honest.begin(request)

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        """See `Executor`."""
        return await self.honest.advance(request, state, steps, trail)

    async def metric(self, request: bytes, state: bytes) -> int:
        """See `Executor`."""
        return await self.honest.metric(request, state)

    async def close(self) -> None:
        """See `Executor`."""
        await self.honest.close()


class FlippedBit(BentRun):
    """An executor that flips one bit of each output, or of the first output of a batch."""

    async def run(self, request: bytes) -> Execution:
        """Return the right output with the lowest bit of its last byte flipped."""
        execution = await self.honest.run(request)
        return replace(execution, output=with_flipped_bit(execution.output))

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """Flip a bit of the first output of the batch."""

        def told(finished_part: Sequence[tuple[int, bytes | None]]) -> None:
            finished(
                [
                    (output_index, with_flipped_bit(output) if output and not output_index else output)
                    for output_index, output in finished_part
                ]
            )

        return await self.honest.run_many(requests, told)


class BitInOneWeight(BentRun):
    """An executor that flips one bit of one weight after one training step."""

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        """Advance honestly up to that step, flip the bit, and advance from the changed state."""
        steps_before = BENT_STEP - declared_steps(state)
        if not 0 < steps_before <= steps:
            return await self.honest.advance(request, state, steps, trail)
        # One bit changes every later state, so only one segment is wrong.
        bent = await self.honest.advance(request, state, steps_before, trail)
        return await self.honest.advance(request, with_flipped_weight(bent.state), steps - steps_before, bent.trail)


class SkippedTenth(BentRun):
    """An executor that does not compute the last tenth of the steps."""

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        """Advance honestly up to that tenth. From there keep the weights and the trail, and raise the step count."""
        wanted_steps = declared_steps(state) + steps
        training_request = decode_request(request)
        last_honest_step = training_request.steps - training_request.steps // SKIPPED_PART
        # A stretch that begins inside the last tenth has no honest step left.
        honest_steps = max(0, min(wanted_steps, last_honest_step) - declared_steps(state))
        later = await self.honest.advance(request, state, honest_steps, trail)
        return LaterState(with_step_count(later.state, wanted_steps), wanted_steps, later.trail)


def declared_steps(state: bytes) -> int:
    """Return the step count that a state declares."""
    return int.from_bytes(state[DIGEST_BYTES:WEIGHTS_START], "little")


def with_step_count(state: bytes, step_count: int) -> bytes:
    """Return the state with another step count."""
    return state[:DIGEST_BYTES] + step_count.to_bytes(4, "little") + state[WEIGHTS_START:]


def with_flipped_weight(state: bytes) -> bytes:
    """Return the state with the lowest bit of its first weight flipped."""
    return state[:WEIGHTS_START] + bytes((state[WEIGHTS_START] ^ 1,)) + state[WEIGHTS_START + 1 :]


def wrapped_workers(
    executor_kind: type[BentRun], of_workload: bytes | None, backend: str, sandbox: Sandbox | None
) -> MakeExecutor:
    """Return a factory of honest workers, each wrapped. With `of_workload`, wrap only that workload's workers."""
    make_honest = workers_with(backend, sandbox)

    def make(hardware: Hardware, workload_form: WorkloadForm) -> Executor:
        honest_worker = make_honest(hardware, workload_form)
        return executor_kind(honest_worker) if of_workload in (None, workload_form.workload_id) else honest_worker

    return make


flipping_workers = partial(wrapped_workers, FlippedBit, None)
bit_in_one_weight = partial(wrapped_workers, BitInOneWeight, WORKLOAD_ID)
skipped_tenth = partial(wrapped_workers, SkippedTenth, WORKLOAD_ID)


SWAPPED_MODEL, FEWER_LAYERS = "swapped-model", "fewer-layers"
MODEL_CHEATS = (SWAPPED_MODEL, FEWER_LAYERS, "four-bits", "other-seed")
"""The names of the wrong computations of language models (`wrong_models`)."""


def wrong_workers(cheat: str, backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Return a factory of workers that compute language models wrongly, and other workloads honestly."""
    make_honest = workers_with(backend, sandbox)

    def make(hardware: Hardware, workload_form: WorkloadForm) -> Executor:
        if workload_form.workload_id != DECODER_ID:
            return make_honest(hardware, workload_form)
        chosen_backend = backend_for(backend, hardware, workload_form)
        worker_limits = limits_for(chosen_backend, workload_form.memory_bytes())
        module_arguments = [cheat, workload_form.name, chosen_backend, json.dumps(asdict(worker_limits))]
        command = [sys.executable, "-s", "-m", "devnet.stage.cheating.wrong_worker", *module_arguments]
        return WorkerExecutor(command, worker_limits, {FOLDER_VARIABLE: str(default_folder())})

    return make
