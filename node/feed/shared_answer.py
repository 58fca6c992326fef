"""One question to the node for everybody who asks it at about the same time.

What always holds: whoever asks gets an answer to a question that went out after it asked; one is under way at a time,
and they begin at least a pause apart, however many ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """The answers of `ask`."""

    def __init__(self, ask: Callable[[], Awaitable[T]], pause_seconds: float) -> None:
        """At most one question in `pause_seconds`."""
        self._ask = ask
        self._pause_seconds = pause_seconds
        self._last = float("-inf")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The answer to the next question; raises what asking raises."""
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._answer())
            self._next.add_done_callback(_forget)
        return await asyncio.shield(self._next)  # who goes away ends nobody else's wait

    async def _answer(self) -> T:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(self._last + self._pause_seconds - loop.time())
            self._last = loop.time()
            self._next = None  # who asks from now on wants to know what happened since
            return await self._ask()


def _forget(task: asyncio.Task[T]) -> None:
    """Nobody may be left who would take the exception."""
    if not task.cancelled():
        task.exception()
