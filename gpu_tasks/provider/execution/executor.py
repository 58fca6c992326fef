"""Execution of work: an interface, and its implementation with a limited subprocess.

Invariants:

* The daemon's own process never computes a customer's request.
* A worker that exceeds a limit, answers nonsense or dies is killed with its children. This costs one request, not the
  daemon.
* A worker serves many requests, so the model loads and the conformance vectors run only once.
* A worker's limits follow the effort of its requests. `admit` refuses requests that exceed its memory or a given time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.limits import MIB, Limits
from gpu_tasks.provider.execution.pace import SLACK, WorkerPace, measured_pace
from gpu_tasks.provider.execution.worker_process import NoAnswerError, WorkerProcess
from gpu_tasks.workloads.form import Effort, WorkloadForm
from gpu_tasks.workloads.workload import none_for_none
from runtime.encoding.codec import DecodeError
from wallet.amounts import counted
from wallet.errors import CodedError

LOG = logging.getLogger("ogpu.provider")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_Answer = TypeVar("_Answer", wire.Ran, wire.Begun, wire.Advanced, wire.Weighed, wire.Fingerprinted)


class BadRequestError(CodedError):
    """The request is invalid on every machine. The fault is the customer's."""


class ExecutionError(CodedError):
    """This machine did not execute the request, because of a limit, a crash or a backend that does not conform."""


class TooLargeError(ExecutionError):
    """The requests are valid, and exceed the memory or the time that this machine has for them."""


class BadStateError(CodedError):
    """The bytes are no state of the request on any machine. Their maker lied, or a disk failed."""


@dataclass(frozen=True, slots=True)
class BegunRun:
    """The start of a run in steps: its first state, and the completed steps at each state of its trace."""

    state: bytes
    boundaries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaterState:
    """A state of a run, its completed steps, its trail if that was asked for, and the cost as far as it is known."""

    state: bytes
    done: int
    trail: bytes | None = None
    cpu_ms: int = 0
    memory_peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """An output and its cost."""

    output: bytes
    cpu_ms: int
    wall_ms: int
    memory_peak_bytes: int


@dataclass(frozen=True, slots=True)
class ManyExecuted:
    """The cost of many requests together."""

    cpu_ms: int
    wall_ms: int
    memory_peak_bytes: int


class CheckedOutput(NamedTuple):
    """The result of checking an output, and the fingerprint of a right one at the asked seed."""

    is_right: bool
    fingerprint: bytes | None


@dataclass(frozen=True, slots=True)
class _Load:
    """Requests, their effort together, and the most memory that one of them needs."""

    requests: tuple[bytes, ...]
    effort: Effort
    bytes_max: int


NO_LOAD = _Load((), Effort(0, 0), 0)
Finished = Callable[[Sequence[tuple[int, bytes | None]]], None]
"""A callback for finished requests: their places and outputs. An output is None for an invalid request."""


class Executor(Protocol):
    """The executor of one device's work, one request at a time."""

    @property
    def workload_id(self) -> bytes:
        """The computation's identifier, 32 bytes."""
        ...

    @property
    def model_id(self) -> bytes:
        """The model's identifier, 32 bytes."""
        ...

    async def start(self) -> None:
        """Prepare for work. Raise ExecutionError if this machine cannot do it correctly."""
        ...

    async def admit(self, requests: Sequence[bytes], seconds_max: float) -> None:
        """Raise TooLargeError if the requests together exceed this machine's memory or `seconds_max`."""
        ...

    async def run(self, request: bytes) -> Execution:
        """Return the output of a request. Raise BadRequestError or ExecutionError."""
        ...

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """Execute all requests, and report each once in any order. Raise ExecutionError on failure."""
        ...

    async def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        """Return the fingerprint of a right output at a seed, 16 bytes. Raise BadRequestError or ExecutionError."""
        ...

    async def check(self, request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        """Compare an output with that of `run`, and fingerprint a right one.

        Raise BadRequestError or ExecutionError.
        """
        ...

    async def begin(self, request: bytes) -> BegunRun:
        """Begin a run in steps: return its first state and boundaries. Raise BadRequestError or ExecutionError."""
        ...

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        """Return the state after `steps` more steps and, from the trail at `state`, the trail there.

        Raise BadStateError for bytes that are no state of the request, or BadRequestError or ExecutionError.
        """
        ...

    async def metric(self, request: bytes, state: bytes) -> int:
        """Return the metric of a state. It raises the errors of `advance`."""
        ...

    async def close(self) -> None:
        """Stop all work."""
        ...


class WorkerExecutor:
    """An `Executor` that works in a separate process."""

    def __init__(
        self,
        command: Sequence[str],
        limits: Limits,
        environment: Mapping[str, str] | None = None,
        form: WorkloadForm | None = None,
    ) -> None:
        """`command` starts a process that speaks `worker_wire` and limits itself. It also sees `environment`.

        `form` is the workload whose efforts set the time limits. Without it, each request has the usual ones.
        """
        self._process = WorkerProcess(command, ONE_THREAD | dict(environment or {}))
        self._limits = limits
        self._form = form
        self._pace: WorkerPace | None = None
        self._load = NO_LOAD
        self._ready: wire.Ready | None = None
        self._turn = asyncio.Lock()

    @property
    def workload_id(self) -> bytes:
        """The workload of the started worker."""
        return self._known.workload

    @property
    def model_id(self) -> bytes:
        """The model of the started worker."""
        return self._known.model

    @property
    def _known(self) -> wire.Ready:
        if self._ready is None:
            raise RuntimeError("start the executor first")
        return self._ready

    async def start(self) -> None:
        """Start the worker, and wait until it has loaded its workload."""
        async with self._turn:
            await self._started_worker()

    async def admit(self, requests: Sequence[bytes], seconds_max: float) -> None:
        """See `Executor`."""
        load = await self._load_of(requests)
        async with self._turn:
            await self._started_worker()
            # Another program may have used the machine during the measurement, so it is repeated before a refusal.
            if self._expected_seconds(load) > seconds_max:
                await self._measure()
        expected_seconds = self._expected_seconds(load)
        if expected_seconds > seconds_max:
            raise TooLargeError(
                f"{counted(len(requests), 'request')} would take {expected_seconds:,.0f} s on this machine, of "
                f"{seconds_max:,.0f} s",
                code="too_long_here",
            )

    async def _load_of(self, requests: Sequence[bytes]) -> _Load:
        """Return the load of requests. Raise TooLargeError if one of them needs more memory than there is."""
        requests = tuple(requests)
        if self._form is None or not requests:
            return NO_LOAD
        # In a thread, and once: to decode 16 MiB of token ids takes a second, and blocks do not wait.
        if self._load.requests != requests:
            self._load = await asyncio.to_thread(_load, self._form, requests, self._limits.room_mib * MIB)
        if self._load.bytes_max > self._limits.room_mib * MIB:
            raise TooLargeError(
                f"a request needs {self._load.bytes_max // MIB:,} MiB beside the model, and "
                f"{self._limits.room_mib:,} MiB are free",
                code="too_large_here",
            )
        return self._load

    def _expected_seconds(self, load: _Load) -> float:
        """Return the time that requests take at the measured pace; 0 if it is unknown."""
        return 0.0 if self._pace is None else self._pace.seconds(load.effort)

    async def run(self, request: bytes) -> Execution:
        """See `Executor`."""
        began_ns = time.monotonic_ns()
        run_answer = await self._expected_answer(wire.RunRequest(request), wire.Ran)
        elapsed_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        return Execution(run_answer.output, run_answer.cpu_ms, elapsed_ms, run_answer.memory_peak_bytes)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """See `Executor`. The time limits apply to each report."""
        began_ns = time.monotonic_ns()
        missing_places = set(range(len(requests)))

        def told(answer: wire.RanSome) -> None:
            finished_places = [finished_run.place for finished_run in answer.finished]
            # The worker ran a customer's data, so its reports are checked: each place once, and none beyond the batch.
            if len(set(finished_places)) != len(finished_places) or not missing_places.issuperset(finished_places):
                raise ExecutionError("the worker answered an unknown request, or one twice", code="wrong_worker_answer")
            missing_places.difference_update(finished_places)
            finished([(finished_run.place, finished_run.output) for finished_run in answer.finished])

        last_answer = await self._expected_answer(wire.RunMany(tuple(requests)), wire.Ran, told)
        if missing_places:
            raise ExecutionError(
                f"the worker ended before it answered {counted(len(missing_places), 'request')}", code="worker_ended"
            )
        elapsed_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        return ManyExecuted(last_answer.cpu_ms, elapsed_ms, last_answer.memory_peak_bytes)

    async def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        """See `Executor`."""
        answer = await self._expected_answer(wire.FingerprintAt(request, output, seed), wire.Fingerprinted)
        if answer.fingerprint is None:
            raise ExecutionError("the worker returned no fingerprint", code="wrong_worker_answer")
        return answer.fingerprint

    async def check(self, request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        """See `Executor`."""
        answer = await self._expected_answer(wire.CheckOutput(request, output, seed), wire.Fingerprinted)
        if answer.is_right != (answer.fingerprint is not None):
            raise ExecutionError("the worker fingerprints right outputs only", code="wrong_worker_answer")
        return CheckedOutput(answer.is_right, answer.fingerprint)

    async def begin(self, request: bytes) -> BegunRun:
        """See `Executor`."""
        begin_answer = await self._expected_answer(wire.BeginRun(request), wire.Begun)
        return BegunRun(begin_answer.state, begin_answer.boundaries)

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        """See `Executor`."""
        answer = await self._expected_answer(wire.AdvanceRun(request, state, steps, trail), wire.Advanced)
        if (answer.trail is None) != (trail is None):
            raise ExecutionError("the worker returns a trail exactly if it gets one", code="wrong_worker_answer")
        return LaterState(answer.state, answer.done, answer.trail, answer.cpu_ms, answer.memory_peak_bytes)

    async def metric(self, request: bytes, state: bytes) -> int:
        """See `Executor`."""
        return (await self._expected_answer(wire.MetricAt(request, state), wire.Weighed)).metric

    async def close(self) -> None:
        """Kill the worker."""
        await self._process.kill()

    async def _expected_answer(
        self,
        question: wire.Question,
        answer_type: type[_Answer],
        report_progress: Callable[[wire.RanSome], None] | None = None,
    ) -> _Answer:
        """Return the answer to a question. Raise ExecutionError if it has another type than `answer_type`."""
        answer = await self._ask_worker(question, report_progress)
        if not isinstance(answer, answer_type):
            raise ExecutionError(f"the worker answered {type(answer).__name__}", code="wrong_worker_answer")
        return answer

    async def _ask_worker(
        self, question: wire.Question, report_progress: Callable[[wire.RanSome], None] | None = None
    ) -> wire.WorkerAnswer:
        # The kernel of a machine that is short of memory would end a worker, or the daemon.
        load = await self._load_of(_requests_of(question))
        async with self._turn:
            await self._started_worker()
            answer = await self._answer_to(question, load, report_progress)
        # After the lock is released: a bad request is no fault of the worker, which continues.
        if isinstance(answer, wire.BadRequest):
            raise BadRequestError(answer.reason)
        if isinstance(answer, wire.BadState):
            raise BadStateError(answer.reason)
        return answer

    async def _answer_to(
        self, question: wire.Question, load: _Load, report_progress: Callable[[wire.RanSome], None] | None = None
    ) -> wire.WorkerAnswer:
        """Return the running worker's answer, within the time for the question's requests."""
        seconds = int(SLACK * self._expected_seconds(load))
        try:
            answer = await self._exchange(question, report_progress, seconds)
        except BaseException:  # also when cancelled: the answer must not reach the next request
            await self._process.kill()
            raise
        if isinstance(answer, wire.Failed):
            await self._process.kill()  # a failed GPU context fails every later request
            raise ExecutionError(answer.reason, code="execution_failed")
        return answer

    async def _exchange(
        self, question: wire.Question, report_progress: Callable[[wire.RanSome], None] | None, seconds: int
    ) -> wire.WorkerAnswer:
        """Return the answer. `seconds` are those beside the usual limits, for each report."""
        # A process has a limit for its whole life too, and a U32 holds no more.
        seconds = min(seconds, self._limits.cpu_seconds_life)
        cpu_seconds, wall_seconds = self._limits.cpu_seconds + seconds, self._limits.wall_seconds + seconds
        try:
            self._process.write(wire.ASKED.encode(wire.Asked(question, cpu_seconds)))
            while True:
                # The kernel limits CPU time only, so the daemon limits a worker that sleeps or waits.
                answer = await asyncio.wait_for(self._read_answer(cpu_seconds), wall_seconds)
                if report_progress is None or not isinstance(answer, wire.RanSome):
                    return answer
                report_progress(answer)
        except TimeoutError:
            raise ExecutionError(f"stopped after more than {wall_seconds} s", code="execution_too_long") from None

    async def _read_answer(self, cpu_seconds: int) -> wire.WorkerAnswer:
        try:
            answer: wire.WorkerAnswer = wire.ANSWER.decode(
                await self._process.read(wire.MESSAGE_BYTES_MAX, cpu_seconds)
            )
        except DecodeError as error:
            raise ExecutionError(
                f"the worker's output is not an answer: {error}", code="wrong_worker_answer"
            ) from error
        except NoAnswerError as error:
            raise ExecutionError(str(error), code="worker_ended") from None
        return answer

    async def _started_worker(self) -> None:
        """Start a worker unless one runs."""
        if self._process.is_running:
            return
        await self._process.start()
        try:
            ready_answer = await asyncio.wait_for(
                self._read_answer(self._limits.cpu_seconds), self._limits.start_seconds
            )
        except TimeoutError:
            await self._process.kill()
            raise ExecutionError(
                f"the worker was not ready within {self._limits.start_seconds} s", code="worker_not_ready"
            ) from None
        except BaseException:
            await self._process.kill()
            raise
        if not isinstance(ready_answer, wire.Ready):
            await self._process.kill()
            failure_reason = ready_answer.reason if isinstance(ready_answer, wire.Failed) else ready_answer
            raise ExecutionError(f"the worker did not start: {failure_reason}", code="worker_not_started")
        self._ready = ready_answer
        # A worker that was killed by one request starts again for the next one, on the same machine.
        if self._pace is None:
            await self._measure()

    async def _measure(self) -> None:
        """Measure the running worker's pace, if its workload has probes."""
        if self._form is None:
            return

        async def cpu_seconds_of(probe: bytes) -> float:
            answer = await self._answer_to(wire.RunRequest(probe), NO_LOAD)
            if not isinstance(answer, wire.Ran):
                raise ExecutionError(f"the worker answered {type(answer).__name__}", code="wrong_worker_answer")
            return answer.cpu_ms / 1_000

        self._pace = await measured_pace(self._form, cpu_seconds_of)
        if self._pace is not None:
            of_prompt, of_answer = self._pace.tokens_per_second(self._form)
            LOG.info(
                "measured workload=%s prompt_tokens_per_second=%.1f answer_tokens_per_second=%s "
                "model_mib=%d room_mib=%d",
                self._form.name,
                of_prompt,
                "-" if of_answer is None else f"{of_answer:.1f}",
                self._form.memory_bytes() // MIB,
                self._limits.room_mib,
            )


def _load(form: WorkloadForm, requests: tuple[bytes, ...], room_bytes: int) -> _Load:
    bytes_max = max(none_for_none(form.request_bytes, request) or 0 for request in requests)
    return _Load(requests, form.effort(requests, room_bytes), bytes_max)


def _requests_of(question: wire.Question) -> Sequence[bytes]:
    """Return the requests that a question computes. A run in steps has limits for each step."""
    if isinstance(question, wire.RunMany):
        return question.requests
    if isinstance(question, wire.OneRequest):
        return (question.request,)
    return ()
