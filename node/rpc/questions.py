"""The order of questions to the node: callers share its time by the duration of their questions, not their number.

Invariants:

* The number of questions under way is bounded, and a caller's questions under way take at most a given time together,
  or are a single one.
* Of the waiting callers, the one whose questions took least is next. A caller that returns after a pause is set level
  with the last one served, so a pause saves up nothing.
* Each caller may have `WAITING_MAX` questions waiting. While callers of this machine and others both wait, every second
  turn is for this machine.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from node.feed.client import RequestRefusedError
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import TOO_BUSY, JsonRpcError

UNDER_WAY_MAX = 8
"""The most questions under way. More would wait in the node's own queue, which does not tell callers apart."""
WAITING_MAX = 64
LEAST_SECONDS = 0.0005
SUBMISSIONS_UNDER_WAY_MAX = 32
SUBMISSIONS_SECONDS = 0.16
"""The most time of one caller's extrinsics under way: two of the longest batches, so that the node never waits."""
SUBMIT_SECONDS = 150e-6
"""The node's time for one extrinsic, mostly for the signature check, without which it cannot refuse one."""
SUBMIT_BYTE_SECONDS = 10e-9

ASKING: ContextVar[RpcCaller] = ContextVar("ASKING")
"""The caller for which the current task works."""


class Questions:
    """A queue in front of the node."""

    def __init__(self, under_way: int | None = None, each_seconds: float = math.inf) -> None:
        """Create it empty; `each_seconds` is the most time that one caller's questions under way may take."""
        self._most = UNDER_WAY_MAX if under_way is None else under_way
        self._each_seconds = each_seconds
        self._waiting: dict[RpcCaller, deque[tuple[asyncio.Future[None], float]]] = {}
        self._nobody = RpcCaller()  # the caller of questions that belong to no caller
        self._level = 0.0
        self._under_way: dict[RpcCaller, list[float]] = {}  # the least duration of each question
        self._count = 0
        self._was_local = False

    async def start(self, seconds: float) -> None:
        """Wait for a turn, which then lasts `seconds`, even if its caller leaves.

        Raise `JsonRpcError` if too many wait.
        """
        caller = ASKING.get(self._nobody)
        await self._take(caller, seconds)
        asyncio.get_running_loop().call_later(seconds, self._free, caller, seconds)

    @asynccontextmanager
    async def turn(self, least: float = LEAST_SECONDS) -> AsyncIterator[None]:
        """Wait for the caller's turn; the body is the question, and counts for `least` seconds or longer.

        Raise `JsonRpcError` if too many wait.
        """
        caller = ASKING.get(self._nobody)
        await self._take(caller, least)
        begun = time.monotonic()
        try:
            yield
        finally:
            caller.asked += max(0.0, time.monotonic() - begun - least)
            self._free(caller, least)

    @asynccontextmanager
    async def submission(self, count: int, size: int) -> AsyncIterator[None]:
        """Wait for a turn for `count` extrinsics of `size` bytes together.

        Raise `RequestRefusedError` if too many wait.
        """
        try:
            async with self.turn(count * SUBMIT_SECONDS + size * SUBMIT_BYTE_SECONDS):
                yield
        except JsonRpcError as error:
            raise RequestRefusedError(error.code, error.message, str(error.data)) from None

    async def _take(self, caller: RpcCaller, least: float) -> None:
        waiting = self._waiting.get(caller)
        if waiting is None:
            waiting = self._waiting[caller] = deque()
            caller.asked = max(caller.asked, self._level)
        if len(waiting) >= WAITING_MAX:
            raise JsonRpcError(
                TOO_BUSY, "Server is busy, try again later", f"{WAITING_MAX} of your requests wait already"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((turn, least))
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn was given to a caller that had just left
                self._free(caller, least)
            raise

    def _free(self, caller: RpcCaller, least: float) -> None:
        self._count -= 1
        self._under_way[caller].remove(least)
        if not self._under_way[caller]:
            del self._under_way[caller]
        self._give()

    def _give(self) -> None:
        while self._count < self._most:
            caller = min(self._candidates(), key=_asked, default=None)
            if caller is None:
                return
            turn, least = self._waiting[caller].popleft()
            if not self._waiting[caller]:
                del self._waiting[caller]
            if turn.done():  # its caller has left
                continue
            self._level = max(self._level, caller.asked)
            self._was_local = caller.is_local
            caller.asked += least  # at once: otherwise one caller would get eight turns before the first is counted
            self._under_way.setdefault(caller, []).append(least)
            self._count += 1
            turn.set_result(None)

    def _candidates(self) -> list[RpcCaller]:
        able = list(filter(self._may_ask, self._waiting))
        # A stranger with many addresses is many callers. The provider beside the node must not wait behind all of them.
        preferred = [caller for caller in able if caller.is_local is not self._was_local]
        return preferred or able

    def _may_ask(self, caller: RpcCaller) -> bool:
        under_way = self._under_way.get(caller)
        return under_way is None or sum(under_way) + self._waiting[caller][0][1] <= self._each_seconds


def _asked(caller: RpcCaller) -> float:
    return caller.asked
