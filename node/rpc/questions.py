"""Who asks the node next: callers share its time by what their questions took, not by how many they ask.

What always holds: no more than `UNDER_WAY_MAX` questions are under way; of the callers that wait, the one whose
questions took least is next; who comes back after a pause counts as level with the one served last, so that nobody
saves up; each caller may have `WAITING_MAX` waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from node.rpc.jsonrpc import TOO_BUSY, JsonRpcError
from node.rpc.turns import Caller

UNDER_WAY_MAX = 8
"""More would stand in the node's own line, where nobody tells callers apart."""
WAITING_MAX = 64
LEAST_SECONDS = 0.0005

ASKING: ContextVar[Caller] = ContextVar("ASKING")
"""For whom this task works."""


class Questions:
    """The line in front of the node."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: dict[Caller, deque[asyncio.Future[None]]] = {}
        self._nobody = Caller(0.0)  # what is asked for no caller counts together
        self._level = 0.0
        self._under_way = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the caller's turn; what is done inside is the question.  Raises `JsonRpcError` for too many."""
        caller = ASKING.get(self._nobody)
        await self._take(caller)
        begun = time.monotonic()
        try:
            yield
        finally:
            caller.asked += max(0.0, time.monotonic() - begun - LEAST_SECONDS)
            self._free()

    async def _take(self, caller: Caller) -> None:
        waiting = self._waiting.get(caller)
        if waiting is None:
            waiting = self._waiting[caller] = deque()
            caller.asked = max(caller.asked, self._level)
        if len(waiting) >= WAITING_MAX:
            raise JsonRpcError(TOO_BUSY, "Server is busy, try again later", f"{WAITING_MAX} of your questions wait")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given to who had just gone
                self._free()
            raise

    def _free(self) -> None:
        self._under_way -= 1
        self._give()

    def _give(self) -> None:
        while self._waiting and self._under_way < UNDER_WAY_MAX:
            caller = min(self._waiting, key=_asked)
            turn = self._waiting[caller].popleft()
            if not self._waiting[caller]:
                del self._waiting[caller]
            if turn.done():  # who waited for it has gone
                continue
            self._level = max(self._level, caller.asked)
            caller.asked += LEAST_SECONDS  # now: else eight would be given to one before the first is counted
            self._under_way += 1
            turn.set_result(None)


def _asked(caller: Caller) -> float:
    return caller.asked
