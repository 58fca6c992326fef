"""The local work for a task that buys time: prepare its program, start, meter, end and remove it.

Invariants:

* A program's start is in the journal before it happens, and its results before they are stated.
* An interval is noted when it is over.
* A program that a daemon's crash ended is not restarted under the same award, because its customer lost its state. The
  provider leaves such a task.
"""

from __future__ import annotations

import os

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.program_left import check_size
from gpu_tasks.market.training.orders import CheckedBy, is_replicated
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState, interval_end
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, NetworkPort
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import NOTHING_USED
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.journal.task_records import FoundMilestone, TaskEntry, TaskKey
from gpu_tasks.provider.programs.requests import ProgramError, UnfitProgramError
from gpu_tasks.provider.programs.results import NOTHING, UNKNOWN_EXIT, interval_of, result_of, stored, tell_lines
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks.checkpoint_blobs import spread
from gpu_tasks.provider.tasks.places import OnHand, OwnTask
from gpu_tasks.provider.tasks.replica_places import works_now
from gpu_tasks.provider.telemetry import failure

BEFORE_STATES = (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING)
READY_STATES = (TaskState.STARTING, TaskState.ASKING, TaskState.VOLUNTEERING)
SILENT_TIMES = 2
"""A replica's program is ended after this multiple of the promised time. Its outputs so far are its result."""


class TimeDuty:
    """The programs of tasks that this provider has or may get."""

    def __init__(self, parts: Parts[NetworkPort], programs: ContainerSupervisor, tasks: KeyedTasks) -> None:
        """Nothing runs yet."""
        self.parts = parts
        self.programs = programs
        self._tasks = tasks
        self.telling = KeyedTasks()
        """Work as long as the programs run: their lines for customers, and their devices' times."""
        self._lost: set[TaskKey] = set()
        self._starting: set[TaskKey] = set()
        self._without_input: set[TaskKey] = set()
        self._over: set[TaskKey] = set()
        self._waiting: set[TaskKey] = set()

    def on_hand(self, own: OwnTask, task: Task, *, is_refused: bool) -> OnHand:
        """Return the state of a task's program: ready, lost, or without an available input."""
        is_ready = self.programs.is_ready(own.key) and own.key not in self._lost and not is_refused
        return OnHand(is_ready, is_lost=self._is_lost(own, task), may_report=own.key in self._without_input)

    def _is_lost(self, own: OwnTask, task: Task) -> bool:
        """Return True if the program of a running task is gone or cannot run."""
        if task.state is not TaskState.RUNNING or is_replicated(task.order):  # a replica restarts with the same result
            return False
        entry = self.parts.journal.tasks.get(own.key)
        is_gone = entry is not None and entry.is_begun and not self.programs.is_begun(own.key)
        return own.key in self._lost or (is_gone and own.key not in self._starting)

    def beside(self, own: OwnTask, task: Task, entry: TaskEntry, place: int | None, newest: int) -> None:
        """Start long work."""
        key = own.key
        if task.state in BEFORE_STATES:
            return
        if task.state in READY_STATES:
            if entry.result is None and not self.programs.is_ready(key) and key not in self._lost:
                self._tasks.start(key, self._prepare(key, task, entry))
        elif task.state is TaskState.RUNNING and is_replicated(task.order):
            if place is not None and works_now(task, place):
                self._run_replica(key, task, entry, place, newest)
        elif task.state is TaskState.RUNNING and place is not None:
            self._run_beside(key, task, entry, place, newest)
        elif self.programs.is_ready(key):
            self._tasks.start((*key, "remove"), self._remove(key))

    def forget(self, key: TaskKey) -> None:
        """Forget a task with no work left except the removal of its program."""
        self._lost.discard(key)
        self._without_input.discard(key)
        self._waiting.discard(key)
        self._over.add(key)
        self.tidy()

    def tidy(self) -> None:
        """Remove ended programs, repeatedly until it succeeds, so that an engine's error leaves no container behind."""
        self._over = {key for key in self._over if self.programs.is_ready(key)}
        for key in self._over:
            self._tasks.start((*key, "remove"), self._remove(key))

    def _run_beside(self, key: TaskKey, task: Task, entry: TaskEntry, place: int, newest: int) -> None:
        if entry.result is not None or key in self._lost:
            return
        is_waiting = self.programs.lacks_secrets(key)
        if not entry.is_begun and not is_waiting:
            self._tasks.start((*key, "begin"), self._begin(key, task, entry, place))
            return
        if is_waiting:
            self._tell_waiting(key, entry, place)
        elif not self.programs.is_begun(key):
            return
        is_over, is_last = newest + 1 >= interval_end(task), task.owed + 1 == task.milestones
        is_job_done = task.order.checked_by is CheckedBy.METERED and not is_waiting and self.programs.has_ended(key)
        number = task.behind + task.owed + 1
        if is_job_done or (is_over and is_last):
            self._tasks.start((*key, "end"), self._end(key))
        elif is_over and number not in entry.milestones:
            self._tasks.start((*key, number), self._note_interval(key, number))

    def _tell_waiting(self, key: TaskKey, entry: TaskEntry, place: int) -> None:
        """Report once that a program waits for its customer's secrets. The bought time runs meanwhile."""
        if key not in self._waiting:
            self._waiting.add(key)
            self.parts.watch.begin(key[0], place, entry.device, self.programs.reply_key(key))
            self.parts.telemetry.tell("waits_for_secrets", task=key[0])

    def _run_replica(self, key: TaskKey, task: Task, entry: TaskEntry, place: int, newest: int) -> None:
        """Start a replica, also after a restart, and find its result when it ends or takes too long."""
        if entry.result is not None or key in self._lost:
            return
        is_over = newest + 1 >= task.started_at + SILENT_TIMES * task.slots[0].promised
        if not self.programs.is_begun(key):
            self._tasks.start((*key, "begin"), self._begin(key, task, entry, place))
        elif is_over or self.programs.has_ended(key):
            self._tasks.start((*key, "end"), self._end(key))

    async def _prepare(self, key: TaskKey, task: Task, entry: TaskEntry) -> None:
        try:
            await self.programs.prepare(self.parts, key, task, entry.device)
            self._without_input.discard(key)
        except (UnusableInputError, BlobError) as error:
            self._without_input.add(key)
            self.parts.telemetry.tell("hindered", task=key[0], **failure(error))
        except UnfitProgramError as error:
            self._lose(key, error)
        except (ProgramError, ChainError, OSError) as error:
            self.parts.telemetry.tell("hindered", task=key[0], **failure(error))

    def _lose(self, key: TaskKey, error: Exception) -> None:
        """Note a program that can no longer run here. If it is due, the provider leaves the task."""
        self._lost.add(key)
        self.parts.telemetry.tell("program_lost", task=key[0], **failure(error))

    async def _begin(self, key: TaskKey, task: Task, entry: TaskEntry, place: int) -> None:
        """Start the program. If it cannot start, it is lost."""
        await self._prepare(key, task, entry)
        if not self.programs.is_ready(key) or self.programs.lacks_secrets(key):
            return
        self._starting.add(key)
        try:
            if not entry.is_begun:
                # Before the start: after a crash in between, the provider must assume that the program ran.
                self.parts.journal.tasks.change(key, is_begun=True)
            await self.programs.begin(key)
        except ProgramError as error:
            self._lose(key, error)
            return
        finally:
            self._starting.discard(key)
        self.parts.watch.begin(key[0], place, entry.device, self.programs.reply_key(key))
        self.parts.telemetry.tell("program_begun", task=key[0], device=entry.device)
        self.telling.start(key, tell_lines(self.programs.log(key), self.parts.watch, key[0]))
        self.telling.start((*key, "time"), self._hold(key, entry.device))

    async def _hold(self, key: TaskKey, device: bytes) -> None:
        """Count the device's time as task work while the program runs, even if it computes nothing."""
        with self.parts.workers.times.at(device, Activity.TASKS):
            await self.programs.ended(key)

    async def _note_interval(self, key: TaskKey, number: int) -> None:
        # a program that waits for secrets uses nothing
        usage = await self.programs.usage(key) if self.programs.is_begun(key) else NOTHING_USED
        entry = self.parts.journal.tasks.get(key)
        if entry is not None and number not in entry.milestones:
            self.parts.journal.tasks.add(key, found=FoundMilestone(interval_of(number, usage), usage))

    async def _end(self, key: TaskKey) -> None:
        """Stop the program if it runs, seal its outputs and note the result. A job's end is the task's end."""
        tasks = self.parts.journal.tasks
        if key not in tasks or tasks[key].result is not None:
            return
        if self.programs.lacks_secrets(key):  # the customer never sent them
            tasks.change(key, result=TaskResult(NOTHING, NOTHING, UNKNOWN_EXIT), result_usage=NOTHING_USED)
            return
        if not self.programs.is_begun(key):
            return
        usage = await self.programs.usage(key)
        end = await self.programs.stop(key)
        self.parts.telemetry.tell("program_ended", task=key[0], why=end.reason.value, exit=end.exit_code)
        root, blob = await self._left(key)
        if tasks[key].result is None:
            salt = os.urandom(32)  # of the commitment, if there is one
            tasks.change(key, result=result_of(end, root, blob), result_usage=usage, result_salt=salt)
        if blob != NOTHING:
            try:
                await spread(self.parts, blob)
            except ChainError as error:
                self.parts.telemetry.tell("not_spread", **failure(error))

    async def _left(self, key: TaskKey) -> tuple[bytes, bytes]:
        """Seal the outputs and last lines. Return the outputs' hash and the blob's address."""
        archive, root = b"", NOTHING
        try:
            outputs = await self.programs.outputs(key)
            check_size(outputs.archive)
            archive, root = outputs.archive, outputs.blake2_256
        except (ProgramError, ValueError) as error:
            self.parts.telemetry.tell("no_outputs", task=key[0], **failure(error))
        try:
            return root, stored(self.parts, archive, self.programs.log(key), self.programs.reply_key(key))
        except OSError as error:
            self.parts.telemetry.tell("no_outputs", task=key[0], **failure(error))
            return NOTHING, NOTHING

    async def _remove(self, key: TaskKey) -> None:
        try:
            await self.programs.remove(key)
        except ProgramError as error:
            self.parts.telemetry.tell("not_removed", task=key[0], **failure(error))
