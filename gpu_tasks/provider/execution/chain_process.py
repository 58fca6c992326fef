"""Matrix chains in a process beside the workers: what a device answers roll calls with.

Always: it takes no turn in a device's line, so a device that is at work answers too, both slower; a process that dies
or answers nonsense costs one answer, and is started anew; it ends with the daemon, whose pipe it reads.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Protocol

from gpu_tasks.provider.execution.chain_worker import ROWS, WORK, ChainRows, ChainWork
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.worker_process import NoAnswerError, WorkerProcess
from gpu_tasks.provider.execution.worker_start import CUDA, NUMPY
from runtime.encoding.codec import DecodeError

ANSWER_BYTES_MAX = 64 * 1024 * 1024
START_SECONDS, ANSWER_SECONDS = 120.0, 300.0
LIMITS = Limits()


class ChainComputer(Protocol):
    """Computes chains on one piece of hardware."""

    async def start(self) -> None:
        """Make ready, so that the first answer costs no loading; ExecutionError."""
        ...

    async def rows(self, work: ChainWork) -> ChainRows:
        """The hashes that are asked for; ExecutionError."""
        ...

    async def close(self) -> None:
        """End what runs."""
        ...


MakeChains = Callable[[Hardware], ChainComputer]


class ChainProcess:
    """A `ChainComputer` in a process of its own."""

    def __init__(self, backend: str, environment: Mapping[str, str] | None = None) -> None:
        """Nothing runs. `environment` is seen by the process besides what every worker sees."""
        self._backend = backend
        module = ("-m", "gpu_tasks.provider.execution.chain_worker", "--backend", backend)
        self._process = WorkerProcess((sys.executable, "-s", *module), environment or {})
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """See `ChainComputer`."""
        async with self._turn:
            await self._run()

    async def rows(self, work: ChainWork) -> ChainRows:
        """See `ChainComputer`."""
        async with self._turn:
            await self._run()
            self._process.write(WORK.encode(work))
            answer = await self._answer(ANSWER_SECONDS)
            try:
                found: ChainRows = ROWS.decode(answer)
            except DecodeError as error:
                await self.close()
                raise ExecutionError(f"the process for roll calls failed: {error}") from None
            return found

    async def close(self) -> None:
        """See `ChainComputer`."""
        await self._process.kill()

    async def _run(self) -> None:
        if not self._process.is_running:
            await self._process.start()
            await self._answer(START_SECONDS)

    async def _answer(self, seconds: float) -> bytes:
        """The next answer; ExecutionError, and the process ends, if there is none in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._process.read(ANSWER_BYTES_MAX, LIMITS.cpu_seconds_life)
        except (TimeoutError, NoAnswerError) as error:
            await self.close()
            raise ExecutionError(f"the process for roll calls ({self._backend}) gives no answer: {error!r}") from None
        except BaseException:  # cancelled in the midst of an answer: the next one would be read as this one's end
            await self.close()
            raise


def chains_with(backend: str) -> MakeChains:
    """Processes that compute chains with the backend that the operator chose: a GPU's own where there is one."""

    def make(hardware: Hardware) -> ChainProcess:
        if not backend.startswith(CUDA):
            return ChainProcess(backend)
        if hardware.index is None:
            return ChainProcess(NUMPY)
        return ChainProcess(f"{CUDA}:0", {"CUDA_VISIBLE_DEVICES": hardware.uuid})

    return make
