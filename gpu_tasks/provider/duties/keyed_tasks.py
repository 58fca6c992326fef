"""Long work beside the loop that follows the chain: at most one task for each key, and a bounded number in all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Hashable
from typing import Any

from gpu_tasks.provider.journal.schema import JournalError

TASKS_MAX = 256

LOG = logging.getLogger("ogpu.provider")


class KeyedTasks:
    """Running coroutines by key. A failed one is logged and may be started again.

    A damaged or unwritable journal is no failure of one task: `check` raises it, which ends the daemon.
    """

    def __init__(self) -> None:
        """Nothing runs."""
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._journal_error: JournalError | None = None

    def check(self) -> None:
        """Raise the JournalError of an ended task."""
        if self._journal_error is not None:
            raise self._journal_error

    def start(self, key: Hashable, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` unless work of this key runs, or the limit is reached."""
        if key in self._tasks or len(self._tasks) >= TASKS_MAX:
            # An unawaited coroutine would otherwise raise a warning.
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda finished_task: self._finished(key, finished_task))

    def cancel(self, key: Hashable) -> None:
        """Cancel the work of this key if it runs."""
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel all work and wait for it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, key: Hashable, task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("work on %s failed", key, exc_info=error)
            if isinstance(error, JournalError):
                self._journal_error = error
