"""Executors that return wrong work and say that it is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from devnet.proofs.cheating.lies import flipped
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
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.starting import workers_with


class FlippedBit:
    """An honest executor whose outputs leave with one bit flipped."""

    def __init__(self, honest: Executor) -> None:
        """Wraps another executor."""
        self._honest = honest

    @property
    def workload_id(self) -> bytes:
        """The honest one's."""
        return self._honest.workload_id

    @property
    def model_id(self) -> bytes:
        """The honest one's."""
        return self._honest.model_id

    async def start(self) -> None:
        """See `Executor`."""
        await self._honest.start()

    async def run(self, request: bytes) -> Execution:
        """The right output, but for the lowest bit of its last byte."""
        execution = await self._honest.run(request)
        return replace(execution, output=flipped(execution.output))

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """Of a batch the first output is wrong, and the others are right."""

        def told(part: Sequence[tuple[int, bytes | None]]) -> None:
            finished([(place, flipped(output) if output and place == 0 else output) for place, output in part])

        return await self._honest.run_many(requests, told)

    async def verify(self, request: bytes, output: bytes) -> bool:
        """Honest: this cheat races, it does not judge."""
        return await self._honest.verify(request, output)

    async def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """Honest too."""
        return await self._honest.trace(request, output, place)

    async def begin(self, request: bytes) -> BegunRun:
        """Honest: this cheat takes no tasks."""
        return await self._honest.begin(request)

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """Honest too."""
        return await self._honest.advance(request, state, steps)

    async def metric(self, request: bytes, state: bytes) -> int:
        """Honest too."""
        return await self._honest.metric(request, state)

    async def close(self) -> None:
        """See `Executor`."""
        await self._honest.close()


def flipping(backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Honest workers, each wrapped."""
    honest = workers_with(backend, sandbox)
    return lambda hardware, form: FlippedBit(honest(hardware, form))


def swapping(backend: str, _sandbox: Sandbox | None) -> MakeExecutor:
    """Workers that compute text with other weights under the published model's name, whatever they are asked for."""
    limits = limits_for(backend)
    command = [sys.executable, "-s", "-m", "devnet.proofs.cheating.swapped_worker", json.dumps(asdict(limits))]
    return lambda _hardware, _form: WorkerExecutor(command, limits)
