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
