"""The order of callers on one loop: it is shared by the time that each caller used, not by the number of its requests.

The waiting caller with the least time used is next (start-time fair queueing). A caller that returns after a pause is
set level with the one served at that moment, so a pause saves up nothing. Invariant: while a caller waits, no step
begins without a turn, and each round of the loop gives one turn, so sockets are read between any two.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from dataclasses import dataclass, field

SLICE_SECONDS = 0.002
"""The time for which steps may follow each other while no caller is known to wait: one may be in a socket not read yet.
"""


@dataclass(slots=True, eq=False)
class Caller:
    """A client whose requests share one place in the line."""

    network: str | None = ""  # None: on this machine, as the provider beside the node and its owner's wallet
    used: float = 0.0  # seconds, raised to the level of the others after a pause
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @property
    def is_local(self) -> bool:
        """True for a program on this machine."""
        return self.network is None


class Turns:
    """The line of waiting callers."""

    def __init__(self) -> None:
        """Create it without callers."""
        self._line: list[tuple[float, int, Caller]] = []  # callers with waiting steps, except the one being served
        self._numbers = itertools.count()  # among equals, first come first served
        self._level = 0.0
        self._served: Caller | None = None
        self._is_planned = False
        self._given_at = 0.0

    async def take(self, caller: Caller) -> None:
        """Wait until the caller may take one step."""
        if not caller.waiting:
            caller.used = max(caller.used, self._level)
        if not self._is_planned and time.perf_counter() - self._given_at < SLICE_SECONDS:
            self._level = caller.used
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not caller.waiting and caller is not self._served:
            self._enter(caller)
        caller.waiting.append(turn)
        self._plan()
        await turn

    def _enter(self, caller: Caller) -> None:
        heapq.heappush(self._line, (caller.used, next(self._numbers), caller))

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        """Start one step of the caller that used least; the time of the step before is charged by then."""
        self._is_planned = False
        self._given_at = time.perf_counter()
        if self._served is not None and self._served.waiting:
            self._enter(self._served)
        self._served = None
        while self._line:
            _, _, caller = heapq.heappop(self._line)
            while caller.waiting:
                turn = caller.waiting.popleft()
                if not turn.done():  # its task may have been cancelled
                    self._served, self._level = caller, max(self._level, caller.used)
                    turn.set_result(None)
                    self._plan_if_somebody_waits()
                    return

    def _plan_if_somebody_waits(self) -> None:
        if self._line or (self._served is not None and self._served.waiting):
            self._plan()
