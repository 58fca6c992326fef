"""Whose turn it is: one loop answers everybody, so it is shared by the time that each used, not by what each asked.

Who waits with the least time used is next (start-time fair queueing); who comes back after a pause counts as level with
the one served now, so that nobody saves up. What always holds: as long as somebody waits, no step begins without a
turn, and one turn is given in each round of the loop, so sockets are looked at between any two.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from dataclasses import dataclass, field

SLICE_SECONDS = 0.002
"""How long steps may follow each other when nobody is known to wait; somebody may, in a socket not looked at yet."""


@dataclass(slots=True, eq=False)
class Caller:
    """Somebody whose requests share one place in the line."""

    network: str | None = ""  # None: on this machine, as the provider beside the node and its owner's wallet
    used: float = 0.0  # seconds, with what others used while this one was away
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @property
    def is_local(self) -> bool:
        """Whether it is a program on this machine."""
        return self.network is None


class Turns:
    """The line."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._line: list[tuple[float, int, Caller]] = []  # those with somebody waiting, the one served now apart
        self._numbers = itertools.count()  # among equals, first come first served
        self._level = 0.0
        self._served: Caller | None = None
        self._is_planned = False
        self._given_at = 0.0

    async def take(self, caller: Caller) -> None:
        """Wait until it is the caller's turn to take one step."""
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
        """Let one step of the caller that used least go ahead; what the step before took is counted by now."""
        self._is_planned = False
        self._given_at = time.perf_counter()
        if self._served is not None and self._served.waiting:
            self._enter(self._served)
        self._served = None
        while self._line:
            _, _, caller = heapq.heappop(self._line)
            while caller.waiting:
                turn = caller.waiting.popleft()
                if not turn.done():  # who waited for it may have gone
                    self._served, self._level = caller, max(self._level, caller.used)
                    turn.set_result(None)
                    self._plan_if_somebody_waits()
                    return

    def _plan_if_somebody_waits(self) -> None:
        if self._line or (self._served is not None and self._served.waiting):
            self._plan()
