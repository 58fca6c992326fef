"""Trying several at once: whoever is slow is overtaken, and the whole has one deadline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

AT_ONCE_MAX = 8
"""Of one search: each may hold a blob."""

T = TypeVar("T")
Trying = Callable[[], Coroutine[Any, Any, T | None]]


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
