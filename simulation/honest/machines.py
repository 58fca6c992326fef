"""The machine of a provider: a process that computes with one backend, and its folder on the disk.

A *kill* ends the process at a random point, as kill -9 does: in the middle of a computation, or when a call is sent.
The next process has the folder alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar, cast

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.deliveries import Deliverer
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import Identity, TaskPort, View
from gpu_tasks.provider.daemon import TASKS_FOLDER
from gpu_tasks.provider.duties.checking import CheckingDuty
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.item_sources import ItemSources
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.duties.unit_items import UnitItemSource
from gpu_tasks.provider.duties.voting import VotingDuty
from gpu_tasks.provider.earnings import EarningsBook, LossBook
from gpu_tasks.provider.execution.executor import (
    BadRequestError,
    BadStateError,
    BegunRun,
    CheckedOutput,
    Execution,
    ExecutionError,
    Finished,
    LaterState,
    ManyExecuted,
)
from gpu_tasks.provider.execution.gpu import CPU_NAME, Hardware
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.task_items import TaskItemSource
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.provider.telemetry import Detail
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.stepwise import SegmentedRun, stepwise
from gpu_tasks.workloads.workload import Workload
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import DecodeError
from simulation.chains.named_keys import NamedKeys
from wallet.keypair import Keypair

GENESIS = b"genesis of honest parties".ljust(32, b".")
DEVICE = b"device of honest parties".ljust(32, b".")
KILL_AFTER_MAX = 12
"""A kill comes at the latest after so many operations of the process."""
_Done = TypeVar("_Done")


class Killed(BaseException):
    """The process was killed."""


class KilledLog(logging.Handler):
    """Collects failures of background work, except kills."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a failure."""
        kind, error = (record.exc_info or (None, None, None))[:2]
        if kind is not Killed:
            self.failures.append(f"{record.getMessage()}: {error!r}")


@dataclass
class Kill:
    """The end of a process after some of its operations; 0 spares it."""

    left: int = 0
    is_done: bool = False

    def point(self) -> None:
        """Raise Killed at the chosen operation, and at each one after it."""
        if self.left:
            self.left -= 1
            self.is_done = self.left == 0
        if self.is_done:
            raise Killed


@dataclass
class Problems:
    """The events of a process that name a problem. Implements `Telemetry`."""

    told: list[str] = field(default_factory=list)

    def tell(self, event: str, **fields: Detail) -> None:
        """Note an event with a problem."""
        if "problem" in fields:
            self.told.append(f"{event}: {fields['problem']!r} ({fields.get('code')!r})")


class LocalExecutor:
    """An `Executor` that computes in this process, between points at which it may be killed."""

    def __init__(self, workload: Workload, kill: Kill) -> None:
        self._workload = workload
        self._kill = kill
        self.workload_id, self.model_id = workload.workload_id, workload.model_id

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to stop."""

    async def admit(self, requests: Sequence[bytes], seconds_max: float) -> None:
        """Admit all."""

    async def run(self, request: bytes) -> Execution:
        """See `Executor`."""
        return Execution(self._computed(lambda: self._workload.run(request)), 1, 1, 1)

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """See `Executor`. Each finished request is reported apart, so that a kill can come after any of them."""
        outputs = self._workload.run_many(requests)
        while (done := self._computed(lambda: next(outputs, None))) is not None:
            finished([done])
        return ManyExecuted(1, 1, 1)

    async def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        """See `Executor`."""
        return self._computed(lambda: self._workload.fingerprint(request, output, seed))

    async def check(self, request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        """See `Executor`."""
        found = self._computed(lambda: self._workload.check(request, output, seed))
        return CheckedOutput(found.output_check.valid, found.fingerprint)

    async def begin(self, request: bytes) -> BegunRun:
        """See `Executor`."""
        run = self._computed(lambda: stepwise(self._workload).begin(request))
        return BegunRun(run.initial_state(), tuple(run.boundary(index) for index in range(run.segments + 1)))

    async def advance(self, request: bytes, state: bytes, steps: int, trail: bytes | None = None) -> LaterState:
        """See `Executor`."""
        run = self._computed(lambda: stepwise(self._workload).begin(request))
        return self._computed(lambda: _later(run, state, steps, trail), BadStateError)

    async def metric(self, request: bytes, state: bytes) -> int:
        """See `Executor`."""
        run = self._computed(lambda: stepwise(self._workload).begin(request))
        return self._computed(lambda: run.metric(state), BadStateError)

    def _computed(self, compute: Callable[[], _Done], invalid: Callable[[str], Exception] = BadRequestError) -> _Done:
        self._kill.point()
        try:
            return compute()
        except DecodeError as error:
            raise invalid(str(error)) from None
        # A worker's process would end, or answer that it failed.
        except Exception as error:
            raise ExecutionError(repr(error), code="execution_failed") from error


def _later(run: SegmentedRun, state: bytes, steps: int, trail: bytes | None) -> LaterState:
    if trail is None:
        later = run.advance(state, steps)
        return LaterState(later, run.steps_done(later))
    later, found = run.trailed(state, steps, trail)
    return LaterState(later, run.steps_done(later), found)


@dataclass
class Process:
    """A running provider: its parts over a folder, its duties, and the answers to checkers and voters."""

    parts: Parts[TaskPort]
    book: TaskBook
    races: RaceDuty
    work: WorkDuty
    checking: CheckingDuty
    voting: VotingDuty
    deliverer: Deliverer
    kill: Kill
    problems: Problems

    @property
    def duties(self) -> tuple[Duty, ...]:
        """All duties."""
        return self.races, self.work, self.checking, self.voting

    async def step(self, view: View, *duties: Duty) -> None:
        """Give duties a view, and complete the work that they start. Raise Killed."""
        for duty in duties:
            await duty.step(view)
            while tasks := [task for keyed in duty.running for task in keyed._tasks.values()]:  # noqa: SLF001 # to wait
                await asyncio.wait(tasks)
                await asyncio.sleep(0)
        if self.kill.is_done:
            raise Killed

    async def end(self) -> None:
        """Drop all memory. The folder stays as it is."""
        for duty in self.duties:
            await duty.close()
        self.parts.journal.close()


class Machine:
    """A provider with its keys and its folder. It has a process from `start` until `end` or a kill."""

    def __init__(self, name: str, forms: Sequence[WorkloadForm]) -> None:
        """The keys follow from the name."""
        keys = NamedKeys(name)
        self.identity = Identity.of(keys.stash, Keypair.from_seed(Scheme.ED25519, keys.seed("provider")), GENESIS)
        self.endpoint = f"http://{name}.example:9000"
        self._forms = forms
        self.process: Process | None = None

    def start(self, folder: Path, port: TaskPort, blobs: object, workloads: Mapping[bytes, Workload]) -> Process:
        """Start a process from a folder. `workloads` are those that it computes, by workload id."""
        folder.mkdir(exist_ok=True)
        kill, problems, identity = Kill(), Problems(), self.identity
        store, client = BlobStore(folder / "blobs"), cast(BlobClient, blobs)

        def make(_hardware: Hardware, form: WorkloadForm) -> LocalExecutor:
            return LocalExecutor(workloads[form.workload_id], kill)

        workers = WorkerPool([Hardware(CPU_NAME, "CPU", DeviceClass.CPU, 0, None)], Workloads(self._forms), make)
        workers.serve({DEVICE: workers.hardware[0]})
        journal = Journal(folder / JOURNAL_FILE)
        parts: Parts[TaskPort] = Parts(
            identity=identity, chain=port, journal=journal, workers=workers,
            inputs=Inputs(identity, port, client, store, problems), store=store, blobs=client, telemetry=problems,
            earnings=EarningsBook(journal.database), losses=LossBook(journal.database),
            pauses=PauseBook(journal.database),
        )  # fmt: skip
        book = TaskBook(parts, folder / TASKS_FOLDER)
        sources: ItemSources = {
            InferenceMarket.index: UnitItemSource(parts),
            TrainingMarket.index: TaskItemSource(parts, book),
        }
        programs = ContainerSupervisor(None, BidPolicy().containers.container_policy(()), lambda: workers.devices)
        self.process = Process(
            parts, book, RaceDuty(parts), WorkDuty(parts, book, programs, lambda: False),
            CheckingDuty(parts, sources), VotingDuty(parts, sources), Deliverer(GENESIS, port, sources), kill, problems,
        )  # fmt: skip
        return self.process

    async def end(self) -> None:
        """End the process if one runs."""
        if self.process is not None:
            await self.process.end()
            self.process = None


def lose_a_file(folder: Path, chance: Random) -> str:
    """Delete or cut a file whose loss may only cost work: an input, or a part of a run.

    The journal and own blobs are synced before any other party learns of them. Return the kind of file, or nothing.
    """
    files = [*folder.glob("tasks/*/*"), *folder.glob("blobs/*.input")]
    if not files:
        return ""
    path = chance.choice(sorted(files))
    with suppress(FileNotFoundError):
        if chance.random() < 0.5:
            path.unlink()
        elif path.suffix != ".input":  # a store syncs a blob before it has its name
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.truncate(chance.randrange(size) if size else 0)
    return path.parent.name if path.parent.name == "blobs" else path.name.partition("-")[0]


async def spared(work: Awaitable[None]) -> bool:
    """Return False if the process was killed meanwhile."""
    try:
        await work
    except Killed:
        return False
    return True
