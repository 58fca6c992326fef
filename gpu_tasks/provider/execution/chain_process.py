"""Matrix chains in a process beside the workers: what a device answers roll calls with.

Always: it takes no turn in a device's line, so a device that is at work answers too, both slower; a process that dies
or answers nonsense costs one answer, and is started anew; it ends with the daemon, whose pipe it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from typing import Protocol

from gpu_tasks.provider.execution.chain_worker import ROWS, WORK, ChainRows, ChainWork
from gpu_tasks.provider.execution.executor import ENVIRONMENT_KEPT, ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_start import CUDA, NUMPY
from gpu_tasks.provider.execution.worker_wire import LENGTH_BYTES, framed
from runtime.encoding.codec import DecodeError

ANSWER_BYTES_MAX = 64 * 1024 * 1024
START_SECONDS, ANSWER_SECONDS = 120.0, 300.0


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
        self._environment = dict(environment or {})
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """See `ChainComputer`."""
        async with self._turn:
            await self._running()

    async def rows(self, work: ChainWork) -> ChainRows:
        """See `ChainComputer`."""
        async with self._turn:
            process = await self._running()
            assert process.stdin is not None, "made with a pipe"
            try:
                process.stdin.write(framed(WORK.encode(work)))
                found: ChainRows = ROWS.decode(await self._answer(process, ANSWER_SECONDS))
            except (DecodeError, OSError) as error:
                await self._end()
                raise ExecutionError(f"the process for roll calls failed: {error}") from None
            return found

    async def close(self) -> None:
        """See `ChainComputer`."""
        await self._end()

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            kept = {name: os.environ[name] for name in ENVIRONMENT_KEPT if name in os.environ}
            module = ("-m", "gpu_tasks.provider.execution.chain_worker", "--backend", self._backend)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-s", *module, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=kept | self._environment
            )
            await self._answer(self._process, START_SECONDS)
        return self._process

    async def _answer(self, process: Process, seconds: float) -> bytes:
        """The next answer; ExecutionError, and the process ends, if there is none in time."""
        assert process.stdout is not None, "made with a pipe"
        try:
            async with asyncio.timeout(seconds):
                length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "little")
                return await process.stdout.readexactly(min(length, ANSWER_BYTES_MAX))
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            await self._end()
            raise ExecutionError(f"the process for roll calls ({self._backend}) gives no answer: {error!r}") from None
        except BaseException:  # cancelled in the midst of an answer: the next one would be read as this one's end
            await self._end()
            raise

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def chains_with(backend: str) -> MakeChains:
    """Processes that compute chains with the backend that the operator chose: a GPU's own where there is one."""

    def make(hardware: Hardware) -> ChainProcess:
        if not backend.startswith(CUDA):
            return ChainProcess(backend)
        if hardware.index is None:
            return ChainProcess(NUMPY)
        return ChainProcess(f"{CUDA}:0", {"CUDA_VISIBLE_DEVICES": hardware.uuid})

    return make
