"""Work without cost: a fake workload, and a fake worker that answers with the text reversed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gpu_tasks.provider.execution.executor import (
    BadRequestError,
    BegunRun,
    CheckedOutput,
    Execution,
    ExecutionError,
    Finished,
    LaterState,
    ManyExecuted,
    TooLargeError,
)
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.workload import Workload
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from simulation.chains.market_chain import MODEL, WORKLOAD


class FakeForm(WorkloadForm):
    """A fake workload with the ids of the test chain's service. A token is a byte."""

    name, workload_id, model_id, cost_unit = "reversed", WORKLOAD, MODEL, "token"
    backends: tuple[str, ...] = ("numpy",)

    def __init__(self, bytes_a_token: int = 1) -> None:
        self.bytes_a_token = bytes_a_token

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        return text.encode()

    def show_request(self, request: bytes) -> str:
        return request.decode()

    def show_output(self, output: bytes) -> str:
        return output.decode()

    def cost_asked(self, request: bytes) -> int:
        if request.startswith(b"no request"):
            raise DecodeError("not a request")
        return len(request) // self.bytes_a_token if request.startswith(b"complete") else 0

    def output_bytes(self, request: bytes) -> int:
        return len(request) if request.startswith(b"complete") else 0

    def cost(self, output: bytes) -> int:
        return len(output) // self.bytes_a_token

    def open(self, backend: str) -> Workload:
        raise LookupError(backend)


class FakeExecutor:
    """Answers a request with its text reversed; `spoil` makes it lie, `trouble` makes it fail."""

    workload_id, model_id = WORKLOAD, MODEL

    def __init__(self, form: WorkloadForm | None = None) -> None:
        if form is not None:
            self.workload_id, self.model_id = form.workload_id, form.model_id
        self.runs: list[bytes] = []
        self.checks = 0
        self.spoil = False
        self.trouble: Exception | None = None
        self.expected_seconds = 0.0

    async def start(self) -> None:
        """Nothing to load."""

    async def admit(self, requests: Sequence[bytes], seconds_max: float) -> None:
        """Expect the same time for all requests."""
        if self.expected_seconds > seconds_max:
            raise TooLargeError("too long", code="too_long_here")

    async def run(self, request: bytes) -> Execution:
        if self.trouble is not None:
            raise self.trouble
        if not request.startswith(b"complete"):
            raise BadRequestError("not a request")
        self.runs.append(request)
        await asyncio.sleep(0)
        output = request[::-1] + (b"!" if self.spoil else b"")
        return Execution(output, cpu_ms=3, wall_ms=4, memory_peak_bytes=5)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        for place, request in enumerate(requests):
            try:
                finished([(place, (await self.run(request)).output)])
            except BadRequestError:
                finished([(place, None)])
        return ManyExecuted(3 * len(requests), 4 * len(requests), 5)

    async def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        if not request.startswith(b"complete"):
            raise BadRequestError("not a request")
        return blake2_256(b"fingerprint" + request + seed)[:16]

    async def check(self, request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        fingerprint = await self.fingerprint(request, output, seed)
        self.checks += 1
        is_right = output == request[::-1]
        return CheckedOutput(is_right, fingerprint if is_right else None)

    async def begin(self, request: bytes) -> BegunRun:
        raise ExecutionError("nothing here runs in steps")

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        raise ExecutionError("nothing here runs in steps")

    async def metric(self, request: bytes, state: bytes) -> int:
        raise ExecutionError("nothing here runs in steps")

    async def close(self) -> None:
        """Nothing to stop."""

    def make(self, hardware: Hardware, form: WorkloadForm) -> FakeExecutor:
        """Make this executor the worker of every device and workload."""
        return self
