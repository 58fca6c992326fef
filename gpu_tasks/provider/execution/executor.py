"""Execution of work: an interface, and its implementation as a limited subprocess.

Always: the daemon's own process never computes a customer's request; a worker that exceeds a limit, answers nonsense or
dies is killed with everything that it started, and costs one failed request, not the daemon; a worker is used for many
requests, so that a model is loaded and its conformance vectors are checked once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import gpu_tasks
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.worker_wire import (
    ANSWER,
    LENGTH_BYTES,
    MESSAGE_BYTES_MAX,
    QUESTION,
    Advanced,
    AdvanceRun,
    BadRequest,
    BadState,
    BeginRun,
    Begun,
    Checked,
    Failed,
    MetricAt,
    Question,
    Ran,
    RanSome,
    Ready,
    RunMany,
    RunRequest,
    TraceAt,
    Traced,
    VerifyOutput,
    Weighed,
    WorkerAnswer,
    framed,
)
from runtime.encoding.codec import DecodeError

ERROR_TAIL_BYTES = 2_000
STOP_SECONDS = 5.0
SPENT_CPU = (-signal.SIGXCPU, 128 + signal.SIGXCPU)
"""How a worker ends that has used up its CPU time: by itself, and as a sandbox around it says it."""
ENVIRONMENT_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


class BadRequestError(Exception):
    """The request is none, on whatever machine: the customer's fault."""


class ExecutionError(Exception):
    """This machine did not execute the request: a limit, a crash, a backend that does not conform."""


class BadStateError(Exception):
    """The bytes are no state of the request, on whatever machine: who made them lied, or a disk lost them."""


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run in steps: its first state, and the steps that are done at each state of its trace."""

    state: bytes
    boundaries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaterState:
    """A state of a run, the steps that are done there, and what it took, as far as that is known."""

    state: bytes
    done: int
    cpu_ms: int = 0
    memory_peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """An output and what it took."""

    output: bytes
    cpu_ms: int
    wall_ms: int
    memory_peak_bytes: int


@dataclass(frozen=True, slots=True)
class ManyExecuted:
    """What many requests took together."""

    cpu_ms: int
    wall_ms: int
    memory_peak_bytes: int


Finished = Callable[[Sequence[tuple[int, bytes | None]]], None]
"""Told of requests that are done, by their places, with their outputs; None for one that is no request."""


class Executor(Protocol):
    """Does the work of one device, one request at a time."""

    @property
    def workload_id(self) -> bytes:
        """32 bytes: which computation it does."""
        ...

    @property
    def model_id(self) -> bytes:
        """32 bytes: on which model."""
        ...

    async def start(self) -> None:
        """Make ready; ExecutionError if this machine cannot do the work right."""
        ...

    async def run(self, request: bytes) -> Execution:
        """The output of a request; BadRequestError, ExecutionError."""
        ...

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """Execute all requests, each told of once, in any order; ExecutionError."""
        ...

    async def verify(self, request: bytes, output: bytes) -> bool:
        """Whether `output` is what `run` would give; BadRequestError, ExecutionError."""
        ...

    async def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """The hash of the computation of a right output at a place; BadRequestError, ExecutionError."""
        ...

    async def begin(self, request: bytes) -> BegunRun:
        """Where a run in steps begins, and where its states stand; BadRequestError, ExecutionError."""
        ...

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """The state so many steps later; BadStateError for no state of the request, BadRequestError, ExecutionError."""
        ...

    async def metric(self, request: bytes, state: bytes) -> int:
        """How good a state is; errors as `advance`."""
        ...

    async def close(self) -> None:
        """Stop whatever runs."""
        ...


class WorkerExecutor:
    """An `Executor` whose work happens in a process of its own."""

    def __init__(self, command: Sequence[str], limits: Limits, environment: Mapping[str, str] | None = None) -> None:
        """`command` starts a process that speaks `worker_wire` and limits itself, and sees `environment` too."""
        self._command = tuple(command)
        self._limits = limits
        self._environment = dict(environment or {})
        self._process: Process | None = None
        self._ready: Ready | None = None
        self._complaints = b""
        self._reader: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    @property
    def workload_id(self) -> bytes:
        """Known once started."""
        return self._known.workload

    @property
    def model_id(self) -> bytes:
        """Known once started."""
        return self._known.model

    @property
    def _known(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("start the executor first")
        return self._ready

    async def start(self) -> None:
        """Start the worker and wait until it has loaded its workload."""
        async with self._turn:
            await self._worker()

    async def run(self, request: bytes) -> Execution:
        """See `Executor`."""
        began = time.monotonic_ns()
        answer = await self._ask(RunRequest(request))
        if not isinstance(answer, Ran):
            raise ExecutionError(f"the worker answered {answer}")
        wall_ms = (time.monotonic_ns() - began) // 1_000_000
        return Execution(answer.output, answer.cpu_ms, wall_ms, answer.memory_peak_bytes)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """See `Executor`. The limits of a request hold for each part that is told of."""
        began = time.monotonic_ns()
        missing = set(range(len(requests)))

        def told(part: RanSome) -> None:
            places = [each.place for each in part.finished]
            if len(set(places)) != len(places) or not missing.issuperset(places):
                raise ExecutionError("the worker told of a request twice, or of one that there is not")
            missing.difference_update(places)
            finished([(each.place, each.output) for each in part.finished])

        answer = await self._ask(RunMany(tuple(requests)), told)
        if not isinstance(answer, Ran) or missing:
            raise ExecutionError(f"the worker answered {type(answer).__name__} with {len(missing)} requests left")
        wall_ms = (time.monotonic_ns() - began) // 1_000_000
        return ManyExecuted(answer.cpu_ms, wall_ms, answer.memory_peak_bytes)

    async def verify(self, request: bytes, output: bytes) -> bool:
        """See `Executor`."""
        answer = await self._ask(VerifyOutput(request, output))
        if not isinstance(answer, Checked):
            raise ExecutionError(f"the worker answered {answer}")
        return answer.is_right

    async def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """See `Executor`."""
        answer = await self._ask(TraceAt(request, output, place))
        if not isinstance(answer, Traced):
            raise ExecutionError(f"the worker answered {answer}")
        return answer.trace

    async def begin(self, request: bytes) -> BegunRun:
        """See `Executor`."""
        answer = await self._ask(BeginRun(request))
        if not isinstance(answer, Begun):
            raise ExecutionError(f"the worker answered {type(answer).__name__}")
        return BegunRun(answer.state, answer.boundaries)

    async def advance(self, request: bytes, state: bytes, steps: int) -> LaterState:
        """See `Executor`."""
        answer = await self._ask(AdvanceRun(request, state, steps))
        if not isinstance(answer, Advanced):
            raise ExecutionError(f"the worker answered {type(answer).__name__}")
        return LaterState(answer.state, answer.done, answer.cpu_ms, answer.memory_peak_bytes)

    async def metric(self, request: bytes, state: bytes) -> int:
        """See `Executor`."""
        answer = await self._ask(MetricAt(request, state))
        if not isinstance(answer, Weighed):
            raise ExecutionError(f"the worker answered {type(answer).__name__}")
        return answer.metric

    async def close(self) -> None:
        """Kill the worker."""
        await self._kill()

    async def _ask(self, question: Question, told: Callable[[RanSome], None] | None = None) -> WorkerAnswer:
        async with self._turn:
            process = await self._worker()
            try:
                answer = await self._exchange(process, question, told)
            except BaseException:  # a cancelled request too: its answer must not reach the next one
                await self._kill()
                raise
            if isinstance(answer, Failed):
                await self._kill()  # a GPU's context that has failed once fails every request after it
                raise ExecutionError(answer.reason)
        if isinstance(answer, BadRequest):
            raise BadRequestError(answer.reason)
        if isinstance(answer, BadState):
            raise BadStateError(answer.reason)
        return answer

    async def _exchange(
        self, process: Process, question: Question, told: Callable[[RanSome], None] | None
    ) -> WorkerAnswer:
        assert process.stdin is not None  # asked for as a pipe
        try:
            process.stdin.write(framed(QUESTION.encode(question)))
            while True:
                answer = await asyncio.wait_for(self._answer(process), self._limits.wall_seconds)
                if told is None or not isinstance(answer, RanSome):
                    return answer
                told(answer)
        except TimeoutError:
            raise ExecutionError(f"took longer than {self._limits.wall_seconds} s and was stopped") from None

    async def _answer(self, process: Process) -> WorkerAnswer:
        assert process.stdout is not None  # asked for as a pipe
        try:
            length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "little")
            if not 0 < length <= MESSAGE_BYTES_MAX:
                raise ExecutionError("the worker wrote something else than an answer")
            answer: WorkerAnswer = ANSWER.decode(await process.stdout.readexactly(length))
        except DecodeError as error:
            raise ExecutionError(f"the worker wrote something else than an answer: {error}") from error
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ExecutionError(await self._cause_of_death(process)) from None
        return answer

    async def _worker(self) -> Process:
        """The running worker, or a new one."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._kill()
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            env=_environment() | self._environment,
        )
        self._process, self._complaints = process, b""
        self._reader = asyncio.create_task(self._listen(process))
        try:
            answer = await asyncio.wait_for(self._answer(process), self._limits.start_seconds)
        except TimeoutError:
            await self._kill()
            raise ExecutionError(f"the worker was not ready within {self._limits.start_seconds} s") from None
        except BaseException:
            await self._kill()
            raise
        if not isinstance(answer, Ready):
            await self._kill()
            reason = answer.reason if isinstance(answer, Failed) else answer
            raise ExecutionError(f"the worker did not start: {reason}")
        self._ready = answer
        return process

    async def _listen(self, process: Process) -> None:
        """Keep the end of what the worker complains about; a flood of it costs no memory."""
        assert process.stderr is not None  # asked for as a pipe
        while part := await process.stderr.read(4096):
            self._complaints = (self._complaints + part)[-ERROR_TAIL_BYTES:]

    async def _cause_of_death(self, process: Process) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
            if self._reader is not None:
                await asyncio.wait_for(self._reader, STOP_SECONDS)
        status = process.returncode
        if status in SPENT_CPU:
            return f"used more than {self._limits.cpu_seconds} s of CPU and was stopped"
        text = self._complaints.decode(errors="replace").strip().rpartition("\n")[2]
        return f"the worker ended with status {status}: {text or 'it left no message'}"

    async def _kill(self) -> None:
        """End the worker and all processes that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        transport = getattr(process, "_transport", None)
        answers = None if transport is None else transport.get_pipe_transport(1)
        if answers is not None:
            answers.close()  # an answer that nobody reads on pauses its pipe, whose end `wait` would await for ever
        await process.wait()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)
        if transport is not None:
            transport.close()


def _environment() -> dict[str, str]:
    """What a worker sees of ours: no key, no address, no proxy."""
    kept = {name: os.environ[name] for name in ENVIRONMENT_KEPT if name in os.environ}
    code = Path(gpu_tasks.__file__).parent.parent
    return kept | {"PYTHONPATH": str(code), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HOME": "/nonexistent"}
