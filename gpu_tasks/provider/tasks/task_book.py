"""The tasks of this daemon: their runs in memory, their reported waits, and their promises.

Invariant: each reason for waiting is reported once. Only one piece of work prepares a run at a time.
"""

from __future__ import annotations

from pathlib import Path

from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.journal.task_records import TaskKey
from gpu_tasks.provider.tasks.run_folder import RunFolder, remove_all, remove_others
from gpu_tasks.provider.tasks.task_runs import TaskRun, prepared_run

TOLD_MAX = 1_024

RunName = tuple[bytes, int]
"""A task, and the number of milestones before its leg."""


class TaskBook:
    """The tasks of a daemon, shared by the duties that bid and those that work."""

    def __init__(self, parts: Parts[NetworkPort], base_path: Path) -> None:
        """States are under `base_path`. Those of tasks without remaining work are deleted."""
        self._parts = parts
        self._base = base_path
        self._runs: dict[RunName, TaskRun] = {}
        self._told: dict[bytes, str] = {}
        self._opened: set[TaskKey] = set()
        self.standing: dict[bytes, bytes] = {}
        """The standby devices by task, as last read from the chain."""
        remove_others(base_path, [task for (task, _), _ in parts.journal.open_tasks()])

    def run(self, task_id: bytes, task: Task) -> TaskRun | None:
        """Return the run of a task's leg if it is prepared."""
        return self._runs.get((task_id, task.behind))

    async def prepare(self, task_id: bytes, task: Task, device: bytes) -> TaskRun:
        """Return the run of a task's leg, preparing it if needed. It raises the errors of `prepared_run`."""
        task_run = self.run(task_id, task)
        # Another device continues from the same files, but with its own worker.
        if task_run is None or task_run.device != device:
            task_run = await prepared_run(self._parts, self._base, task_id, task, device)
            self._runs[task_id, task.behind] = task_run
        return task_run

    def folder(self, task_id: bytes, task: Task) -> RunFolder:
        """Return the folder of a leg's states."""
        return RunFolder(self._base, task_id, task.behind)

    def wait(
        self, task_id: bytes, event_name: str, reason: str, *, is_problem: bool = False, code: str | None = None
    ) -> None:
        """Report the reason that a task waits or gets no bid, once for each reason. A problem needs attention.

        `code` is that of the error behind it.
        """
        if self._told.get(task_id) == reason:
            return
        # Anyone can post tasks, so the memory of reasons needs a bound.
        while len(self._told) >= TOLD_MAX:
            del self._told[next(iter(self._told))]
        self._told[task_id] = reason
        reason_fields = {"problem" if is_problem else "why": reason} | ({} if code is None else {"code": code})
        self._parts.telemetry.tell(event_name, task=task_id, **reason_fields)

    def forget(self, task_id: bytes) -> None:
        """Forget a task without remaining work, and delete its states."""
        # A bid of an earlier auction may end while a later one has won.
        if any(open_task == task_id for (open_task, _), _ in self._parts.journal.open_tasks()):
            return
        for run_name in [run_name for run_name in self._runs if run_name[0] == task_id]:
            del self._runs[run_name]
        self._opened = {task_key for task_key in self._opened if task_key[0] != task_id}
        remove_all(self._base, task_id)

    def devices_in_use(self) -> set[bytes]:
        """Return the devices of open bids. A device is in one bid at a time."""
        return {entry.device for _, entry in self._parts.journal.open_tasks()}

    def note_opened(self, task_key: TaskKey) -> None:
        """Note an opened bid. Its collateral is locked, and no longer part of the spendable balance."""
        self._opened.add(task_key)

    def promised(self) -> int:
        """Return the grains that unopened bids will lock. Each counts in full, even if a part is locked already."""
        unopened = (entry for task_key, entry in self._parts.journal.open_tasks() if task_key not in self._opened)
        return sum(entry.offer.collateral for entry in unopened)
