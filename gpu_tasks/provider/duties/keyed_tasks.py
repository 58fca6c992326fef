"""Long work beside the loop that follows the chain: at most one task for each key, and a bounded number in all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Hashable
from typing import Any

TASKS_MAX = 256

LOG = logging.getLogger("ogpu.provider")


class KeyedTasks:
    """Running coroutines by key. A failed one is logged and may be started again."""

    def __init__(self) -> None:
        """Nothing runs."""
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    def start(self, key: Hashable, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` unless work of this key runs, or the limit is reached."""
        if key in self._tasks or len(self._tasks) >= TASKS_MAX:
            # An unawaited coroutine would otherwise raise a warning.
            work.close()
            return
        started_task = asyncio.create_task(work)
        self._tasks[key] = started_task
        started_task.add_done_callback(lambda finished_task: self._finished(key, finished_task))

    def cancel(self, task_key: Hashable) -> None:
        """Cancel the work of this key if it runs."""
        running_task = self._tasks.get(task_key)
        if running_task is not None:
            running_task.cancel()

    async def close(self) -> None:
        """Cancel all work and wait for it."""
        running_tasks = list(self._tasks.values())
        for running_task in running_tasks:
            running_task.cancel()
        await asyncio.gather(*running_tasks, return_exceptions=True)

    def _finished(self, task_key: Hashable, finished_task: asyncio.Task[None]) -> None:
        self._tasks.pop(task_key, None)
        if not finished_task.cancelled() and (task_error := finished_task.exception()) is not None:
            LOG.error("work on %s failed", task_key, exc_info=task_error)
