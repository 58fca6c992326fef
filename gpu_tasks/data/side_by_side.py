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
    pending_tries: Iterable[Trying[T]], *, wanted_count: int, patience_seconds: float, deadline_seconds: float
) -> list[T]:
    """Return the first `wanted_count` results that are not None, or fewer after all attempts or the deadline.

    `wanted_count` attempts begin at once. One more begins after each failure, and whenever nothing has happened for
    `patience_seconds`. Attempts that still run at the end are cancelled.
    """
    clock_time = asyncio.get_running_loop().time
    end_time, waiting_tries, running_tries, results = (
        clock_time() + deadline_seconds,
        deque(pending_tries),
        set[asyncio.Task[T | None]](),
        list[T](),
    )
    overtaking = 0
    try:
        while len(results) < wanted_count and (time_left := end_time - clock_time()) > 0:
            while waiting_tries and len(running_tries) < min(AT_ONCE_MAX, wanted_count - len(results) + overtaking):
                running_tries.add(asyncio.create_task(waiting_tries.popleft()()))
            if not running_tries:
                break
            finished_tries, running_tries = await asyncio.wait(
                running_tries, timeout=min(patience_seconds, time_left), return_when=asyncio.FIRST_COMPLETED
            )
            # After a timeout one more attempt may run beside the slow ones.
            overtaking += not finished_tries
            results += [
                try_result for finished_try in finished_tries if (try_result := finished_try.result()) is not None
            ]
        return results[:wanted_count]
    finally:
        for finished_try in running_tries:
            finished_try.cancel()
        # A cancelled attempt may still hold a connection, so the search ends only after all have.
        await asyncio.gather(*running_tries, return_exceptions=True)


async def all_side_by_side(pending_jobs: Iterable[Job[T]], *, at_once: int) -> list[T]:
    """Return all results in the order of the jobs, at most `at_once` at once.

    If one fails, the others are cancelled.
    """
    running_slots = asyncio.Semaphore(at_once)

    async def in_turn(job: Job[T]) -> T:
        async with running_slots:
            return await job()

    running_tasks = [asyncio.create_task(in_turn(job)) for job in pending_jobs]
    try:
        return await asyncio.gather(*running_tasks)
    finally:
        for job_task in running_tasks:
            job_task.cancel()
        await asyncio.gather(*running_tasks, return_exceptions=True)
