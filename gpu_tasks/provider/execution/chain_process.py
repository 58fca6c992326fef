"""Matrix chains for roll calls, computed in a process beside the workers.

Invariants:

* It takes no turn in a device's queue. A working device answers too, and both computations are slower meanwhile.
* A process that dies or answers nonsense costs one answer, and a new process replaces it.
* It ends with the daemon, because its input pipe closes.
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
    """A computer of matrix chains on one piece of hardware."""

    async def start(self) -> None:
        """Prepare, so that the first answer does not wait for loading. Raise ExecutionError on failure."""
        ...

    async def rows(self, work: ChainWork) -> ChainRows:
        """Return the hashes or the rows that the work requests. Raise ExecutionError on failure."""
        ...

    async def close(self) -> None:
        """End the process."""
        ...


MakeChains = Callable[[Hardware], ChainComputer]


class ChainProcess:
    """A `ChainComputer` in a separate process."""

    def __init__(self, backend_name: str, environment: Mapping[str, str] | None = None) -> None:
        """Nothing runs yet. The process sees `environment` beside the variables of every worker."""
        self._backend = backend_name
        module_arguments = ("-m", "gpu_tasks.provider.execution.chain_worker", "--backend", backend_name)
        self._process = WorkerProcess((sys.executable, "-sP", *module_arguments), environment or {})
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
            rows_answer = await self._answer(ANSWER_SECONDS)
            try:
                chain_rows: ChainRows = ROWS.decode(rows_answer)
            except DecodeError as error:
                await self.close()
                raise ExecutionError(
                    f"the process for roll calls failed: {error}", code="roll_call_process_failed"
                ) from None
            return chain_rows

    async def close(self) -> None:
        """See `ChainComputer`."""
        await self._process.kill()

    async def _run(self) -> None:
        if not self._process.is_running:
            await self._process.start()
            # The process sends one empty message when its backend is loaded.
            await self._answer(START_SECONDS)

    async def _answer(self, timeout_seconds: float) -> bytes:
        """Return the next answer. Kill the process and raise ExecutionError if none arrives in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._process.read(ANSWER_BYTES_MAX, LIMITS.cpu_seconds_life)
        except (TimeoutError, NoAnswerError) as error:
            await self.close()
            raise ExecutionError(
                f"the process for roll calls ({self._backend}) does not answer: {error!r}",
                code="roll_call_process_silent",
            ) from None
        except BaseException:  # if cancelled halfway, the rest of this answer would be read as the next
            await self.close()
            raise


def chains_with(backend_name: str) -> MakeChains:
    """Return a factory of processes with the operator's backend, on the device's own GPU if it has one."""

    def make(hardware: Hardware) -> ChainProcess:
        if not backend_name.startswith(CUDA):
            return ChainProcess(backend_name)
        if hardware.index is None:
            return ChainProcess(NUMPY)
        # The process sees this GPU only, so it is number 0 there.
        return ChainProcess(f"{CUDA}:0", {"CUDA_VISIBLE_DEVICES": hardware.uuid})

    return make
