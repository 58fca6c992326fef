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
        self._over_tasks: set[TaskKey] = set()
        self._waiting: set[TaskKey] = set()

    def on_hand(self, own_task: OwnTask, task: Task, *, is_refused: bool) -> OnHand:
        """Return the state of a task's program: ready, lost, or without an available input."""
        is_ready = self.programs.is_ready(own_task.key) and own_task.key not in self._lost and not is_refused
        return OnHand(is_ready, is_lost=self._is_lost(own_task, task), may_report=own_task.key in self._without_input)

    def _is_lost(self, own_task: OwnTask, task: Task) -> bool:
        """Return True if the program of a running task is gone or cannot run."""
        if task.state is not TaskState.RUNNING or is_replicated(task.order):  # a replica restarts with the same result
            return False
        entry = self.parts.journal.tasks.get(own_task.key)
        has_vanished = entry is not None and entry.is_begun and not self.programs.is_begun(own_task.key)
        return own_task.key in self._lost or (has_vanished and own_task.key not in self._starting)

    def beside(self, own_task: OwnTask, task: Task, entry: TaskEntry, place: int | None, newest_height: int) -> None:
        """Start long work."""
        task_key = own_task.key
        if task.state in BEFORE_STATES:
            return
        if task.state in READY_STATES:
            if entry.result is None and not self.programs.is_ready(task_key) and task_key not in self._lost:
                self._tasks.start(task_key, self._prepare_program(task_key, task, entry))
        elif task.state is TaskState.RUNNING and is_replicated(task.order):
            if place is not None and works_now(task, place):
                self._run_replica(task_key, task, entry, place, newest_height)
        elif task.state is TaskState.RUNNING and place is not None:
            self._run_beside(task_key, task, entry, place, newest_height)
        elif self.programs.is_ready(task_key):
            self._tasks.start((*task_key, "remove"), self._remove(task_key))

    def forget(self, key: TaskKey) -> None:
        """Forget a task with no work left except the removal of its program."""
        self._lost.discard(key)
        self._without_input.discard(key)
        self._waiting.discard(key)
        self._over_tasks.add(key)
        self.tidy()

    def tidy(self) -> None:
        """Remove ended programs, repeatedly until it succeeds, so that an engine's error leaves no container behind."""
        self._over_tasks = {task_key for task_key in self._over_tasks if self.programs.is_ready(task_key)}
        for task_key in self._over_tasks:
            self._tasks.start((*task_key, "remove"), self._remove(task_key))

    def _run_beside(self, task_key: TaskKey, task: Task, entry: TaskEntry, place: int, newest_height: int) -> None:
        if entry.result is not None or task_key in self._lost:
            return
        is_waiting = self.programs.lacks_secrets(task_key)
        # By the journal and not the engine: a restarted daemon would begin the program anew, for time that is paid
        # already.
        if not entry.is_begun and not is_waiting:
            self._tasks.start((*task_key, "begin"), self._begin_program(task_key, task, entry, place))
            return
        if is_waiting:
            self._tell_waiting(task_key, entry, place)
        elif not self.programs.is_begun(task_key):
            return
        is_interval_over, is_last_interval = newest_height + 1 >= interval_end(task), task.owed + 1 == task.milestones
        is_job_done = (
            task.order.checked_by is CheckedBy.METERED and not is_waiting and self.programs.has_ended(task_key)
        )
        number = task.behind + task.owed + 1
        if is_job_done or (is_interval_over and is_last_interval):
            self._tasks.start((*task_key, "end"), self._end_program(task_key))
        elif is_interval_over and number not in entry.milestones:
            self._tasks.start((*task_key, number), self._note_interval(task_key, number))

    def _tell_waiting(self, task_key: TaskKey, entry: TaskEntry, place: int) -> None:
        """Report once that a program waits for its customer's secrets. The bought time runs meanwhile."""
        if task_key not in self._waiting:
            self._waiting.add(task_key)
            self.parts.watch.begin(task_key[0], place, entry.device, self.programs.reply_key(task_key))
            self.parts.telemetry.tell("waits_for_secrets", task=task_key[0])

    def _run_replica(self, task_key: TaskKey, task: Task, entry: TaskEntry, place: int, newest_height: int) -> None:
        """Start a replica, also after a restart, and find its result when it ends or takes too long."""
        if entry.result is not None or task_key in self._lost:
            return
        is_time_up = newest_height + 1 >= task.started_at + SILENT_TIMES * task.slots[0].promised
        if not self.programs.is_begun(task_key):
            self._tasks.start((*task_key, "begin"), self._begin_program(task_key, task, entry, place))
        elif is_time_up or self.programs.has_ended(task_key):
            self._tasks.start((*task_key, "end"), self._end_program(task_key))

    async def _prepare_program(self, task_key: TaskKey, task: Task, entry: TaskEntry) -> None:
        try:
            await self.programs.prepare(self.parts, task_key, task, entry.device)
            self._without_input.discard(task_key)
        except (UnusableInputError, BlobError) as error:
            self._without_input.add(task_key)
            self.parts.telemetry.tell("hindered", task=task_key[0], **failure(error))
        except UnfitProgramError as error:
            self._give_up(task_key, error)
        except (ProgramError, ChainError, OSError) as error:
            self.parts.telemetry.tell("hindered", task=task_key[0], **failure(error))

    def _give_up(self, task_key: TaskKey, error: Exception) -> None:
        """Note a program that can no longer run here. If it is due, the provider leaves the task."""
        self._lost.add(task_key)
        self.parts.telemetry.tell("program_lost", task=task_key[0], **failure(error))

    async def _begin_program(self, task_key: TaskKey, task: Task, entry: TaskEntry, place: int) -> None:
        """Start the program. If it cannot start, it is lost."""
        await self._prepare_program(task_key, task, entry)
        if not self.programs.is_ready(task_key) or self.programs.lacks_secrets(task_key):
            return
        self._starting.add(task_key)
        try:
            if not entry.is_begun:
                # Before the start: after a crash in between, the provider must assume that the program ran.
                self.parts.journal.tasks.change(task_key, is_begun=True)
            await self.programs.begin(task_key)
        except ProgramError as error:
            self._give_up(task_key, error)
            return
        finally:
            self._starting.discard(task_key)
        self.parts.watch.begin(task_key[0], place, entry.device, self.programs.reply_key(task_key))
        self.parts.telemetry.tell("program_begun", task=task_key[0], device=entry.device)
        self.telling.start(task_key, tell_lines(self.programs.log(task_key), self.parts.watch, task_key[0]))
        self.telling.start((*task_key, "time"), self._hold_device(task_key, entry.device))

    async def _hold_device(self, task_key: TaskKey, device_id: bytes) -> None:
        """Count the device's time as task work while the program runs, even if it computes nothing."""
        with self.parts.workers.times.at(device_id, Activity.TASKS):
            await self.programs.ended(task_key)

    async def _note_interval(self, task_key: TaskKey, number: int) -> None:
        # a program that waits for secrets uses nothing
        program_usage = await self.programs.usage(task_key) if self.programs.is_begun(task_key) else NOTHING_USED
        entry = self.parts.journal.tasks.get(task_key)
        if entry is not None and number not in entry.milestones:
            self.parts.journal.tasks.add(
                task_key, found=FoundMilestone(interval_of(number, program_usage), program_usage)
            )

    async def _end_program(self, task_key: TaskKey) -> None:
        """Stop the program if it runs, seal its outputs and note the result. A job's end is the task's end."""
        task_journal = self.parts.journal.tasks
        if task_key not in task_journal or task_journal[task_key].result is not None:
            return
        if self.programs.lacks_secrets(task_key):  # the customer never sent them
            task_journal.change(task_key, result=TaskResult(NOTHING, NOTHING, UNKNOWN_EXIT), result_usage=NOTHING_USED)
            return
        if not self.programs.is_begun(task_key):
            return
        program_usage = await self.programs.usage(task_key)
        program_end = await self.programs.stop(task_key)
        self.parts.telemetry.tell(
            "program_ended", task=task_key[0], why=program_end.reason.value, exit=program_end.exit_code
        )
        output_root, output_blob = await self._store_outputs(task_key)
        if task_journal[task_key].result is None:
            commitment_salt = os.urandom(32)  # of the commitment, if there is one
            task_journal.change(
                task_key,
                result=result_of(program_end, output_root, output_blob),
                result_usage=program_usage,
                result_salt=commitment_salt,
            )
        if output_blob != NOTHING:
            try:
                await spread(self.parts, output_blob)
            except ChainError as error:
                self.parts.telemetry.tell("not_spread", **failure(error))

    async def _store_outputs(self, task_key: TaskKey) -> tuple[bytes, bytes]:
        """Seal the outputs and last lines. Return the outputs' hash and the blob's address."""
        output_archive, output_root = b"", NOTHING
        try:
            program_outputs = await self.programs.outputs(task_key)
            check_size(program_outputs.archive)
            output_archive, output_root = program_outputs.archive, program_outputs.blake2_256
        except (ProgramError, ValueError) as error:
            self.parts.telemetry.tell("no_outputs", task=task_key[0], **failure(error))
        try:
            return output_root, stored(
                self.parts, output_archive, self.programs.log(task_key), self.programs.reply_key(task_key)
            )
        except OSError as error:
            self.parts.telemetry.tell("no_outputs", task=task_key[0], **failure(error))
            return NOTHING, NOTHING

    async def _remove(self, task_key: TaskKey) -> None:
        try:
            await self.programs.remove(task_key)
        except ProgramError as error:
            self.parts.telemetry.tell("not_removed", task=task_key[0], **failure(error))
