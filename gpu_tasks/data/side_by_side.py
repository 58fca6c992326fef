"""Several at once: tries of which whoever is slow is overtaken, with one deadline; and jobs that all have to end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

AT_ONCE_MAX = 8
"""Of one search: each may hold a blob."""

T = TypeVar("T")
Trying = Callable[[], Coroutine[Any, Any, T | None]]
Job = Callable[[], Coroutine[Any, Any, T]]


async def side_by_side(
    tries: Iterable[Trying[T]], *, wanted: int, patience_seconds: float, deadline_seconds: float
) -> list[T]:
    """The first `wanted` results that are not None; fewer if all were tried, or the deadline has passed.

    So many as are wanted begin at once; one more begins whenever one fails, and whenever nothing has happened for
    `patience_seconds`. What still runs at the end is cancelled.
    """
    now = asyncio.get_running_loop().time
    end, waiting, running, found = now() + deadline_seconds, deque(tries), set[asyncio.Task[T | None]](), list[T]()
    overtaking = 0
    try:
        while len(found) < wanted and (left := end - now()) > 0:
            while waiting and len(running) < min(AT_ONCE_MAX, wanted - len(found) + overtaking):
                running.add(asyncio.create_task(waiting.popleft()()))
            if not running:
                break
            done, running = await asyncio.wait(
                running, timeout=min(patience_seconds, left), return_when=asyncio.FIRST_COMPLETED
            )
            overtaking += not done
            found += [result for task in done if (result := task.result()) is not None]
        return found[:wanted]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def all_side_by_side(jobs: Iterable[Job[T]], *, at_once: int) -> list[T]:
    """What each gives, in their order, at most so many at once; where one fails the others are cancelled."""
    turn = asyncio.Semaphore(at_once)

    async def in_turn(job: Job[T]) -> T:
        async with turn:
            return await job()

    running = [asyncio.create_task(in_turn(job)) for job in jobs]
    try:
        return await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
