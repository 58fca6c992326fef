"""Concurrent work: attempts of which the first successes count, with one deadline, and jobs that must all end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

AT_ONCE_MAX = 8
"""The attempts of one search at once. Each may hold a blob."""

T = TypeVar("T")
Trying = Callable[[], Coroutine[Any, Any, T | None]]
Job = Callable[[], Coroutine[Any, Any, T]]


async def side_by_side(
    tries: Iterable[Trying[T]], *, wanted: int, patience_seconds: float, deadline_seconds: float
) -> list[T]:
    """Return the first `wanted` results that are not None, or fewer after all attempts or the deadline.

    `wanted` attempts begin at once. One more begins after each failure, and whenever nothing has happened for
    `patience_seconds`. Attempts that still run at the end are cancelled.
    """
    clock_time = asyncio.get_running_loop().time
    end_time, waiting, running, results = (
        clock_time() + deadline_seconds,
        deque(tries),
        set[asyncio.Task[T | None]](),
        list[T](),
    )
    overtaking = 0
    try:
        while len(results) < wanted and (time_left := end_time - clock_time()) > 0:
            while waiting and len(running) < min(AT_ONCE_MAX, wanted - len(results) + overtaking):
                running.add(asyncio.create_task(waiting.popleft()()))
            if not running:
                break
            done, running = await asyncio.wait(
                running, timeout=min(patience_seconds, time_left), return_when=asyncio.FIRST_COMPLETED
            )
            # After a timeout one more attempt may run beside the slow ones.
            overtaking += not done
            results += [result for finished in done if (result := finished.result()) is not None]
        return results[:wanted]
    finally:
        for finished in running:
            finished.cancel()
        # A cancelled attempt may still hold a connection, so the search ends only after all have.
        await asyncio.gather(*running, return_exceptions=True)


async def all_side_by_side(jobs: Iterable[Job[T]], *, at_once: int) -> list[T]:
    """Return all results in the order of the jobs, at most `at_once` at once.

    If one fails, the others are cancelled.
    """
    running_slots = asyncio.Semaphore(at_once)

    async def in_turn(job: Job[T]) -> T:
        async with running_slots:
            return await job()

    running = [asyncio.create_task(in_turn(job)) for job in jobs]
    try:
        return await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
