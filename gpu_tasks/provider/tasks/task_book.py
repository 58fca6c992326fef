"""The tasks that this daemon has to do with: their runs in memory, what it told of each, and what it may promise.

Always: a wait is told once for each reason; a run is prepared by one piece of work at a time.
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
"""A task, and how many milestones are behind its leg."""


class TaskBook:
    """Shared by the duties that bid and those that work."""

    def __init__(self, parts: Parts[NetworkPort], base: Path) -> None:
        """States lie under `base`; those of tasks that nothing is left to do for are removed."""
        self._parts = parts
        self._base = base
        self._runs: dict[RunName, TaskRun] = {}
        self._told: dict[bytes, str] = {}
        self._opened: set[TaskKey] = set()
        self.standing: dict[bytes, bytes] = {}
        """The devices that stand by, by task, as the chain said last."""
        remove_others(base, [task for (task, _), _ in parts.journal.open_tasks()])

    def run(self, task_id: bytes, task: Task) -> TaskRun | None:
        """The run of a task's leg, if it is prepared."""
        return self._runs.get((task_id, task.behind))

    async def prepare(self, task_id: bytes, task: Task, device: bytes) -> TaskRun:
        """The run of a task's leg; errors as `prepared_run`."""
        found = self.run(task_id, task)
        if found is None or found.device != device:
            found = await prepared_run(self._parts, self._base, task_id, task, device)
            self._runs[task_id, task.behind] = found
        return found

    def folder(self, task_id: bytes, task: Task) -> RunFolder:
        """Where a leg's states lie."""
        return RunFolder(self._base, task_id, task.behind)

    def wait(self, task_id: bytes, event: str, why: str, *, is_problem: bool = False) -> None:
        """Tell why a task waits, or is let pass, once for each reason; a problem wants somebody's attention."""
        if self._told.get(task_id) == why:
            return
        while len(self._told) >= TOLD_MAX:
            del self._told[next(iter(self._told))]
        self._told[task_id] = why
        self._parts.telemetry.tell(event, task=task_id, **{"problem" if is_problem else "why": why})

    def forget(self, task_id: bytes) -> None:
        """Nothing is left to do for a task: its states go."""
        for name in [name for name in self._runs if name[0] == task_id]:
            del self._runs[name]
        self._opened = {key for key in self._opened if key[0] != task_id}
        remove_all(self._base, task_id)

    def devices_in_use(self) -> set[bytes]:
        """Those of open bids: a device is bid for one task at a time."""
        return {entry.device for _, entry in self._parts.journal.open_tasks()}

    def note_opened(self, key: TaskKey) -> None:
        """The chain shows a bid opened: its collateral is locked, and counts as spendable no more."""
        self._opened.add(key)

    def promised(self) -> int:
        """Grains that bids will lock when they are opened: counted whole, though a part is locked by then."""
        unopened = (entry for key, entry in self._parts.journal.open_tasks() if key not in self._opened)
        return sum(entry.offer.collateral for entry in unopened)
