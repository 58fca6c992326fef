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

    def __init__(self, under_way_max: int | None = None, each_seconds: float = math.inf) -> None:
        """Create it empty; `each_seconds` is the most time that one caller's questions under way may take."""
        self._under_way_max = UNDER_WAY_MAX if under_way_max is None else under_way_max
        self._each_seconds = each_seconds
        self._waiting_by_caller: dict[RpcCaller, deque[tuple[asyncio.Future[None], float]]] = {}
        self._no_caller = RpcCaller()  # the caller of questions that belong to no caller
        self._served_level = 0.0
        self._durations_by_caller: dict[RpcCaller, list[float]] = {}  # the least duration of each question
        self._under_way_count = 0
        self._was_local = False

    async def start(self, turn_seconds: float) -> None:
        """Wait for a turn, which then lasts `turn_seconds`, even if its caller leaves.

        Raise `JsonRpcError` if too many wait.
        """
        caller = ASKING.get(self._no_caller)
        await self._wait_for_turn(caller, turn_seconds)
        asyncio.get_running_loop().call_later(turn_seconds, self._end_turn, caller, turn_seconds)

    @asynccontextmanager
    async def turn(self, least_seconds: float = LEAST_SECONDS) -> AsyncIterator[None]:
        """Wait for the caller's turn; the body is the question, and counts for `least_seconds` seconds or longer.

        Raise `JsonRpcError` if too many wait.
        """
        caller = ASKING.get(self._no_caller)
        await self._wait_for_turn(caller, least_seconds)
        begun_at = time.monotonic()
        try:
            yield
        finally:
            caller.node_seconds += max(0.0, time.monotonic() - begun_at - least_seconds)
            self._end_turn(caller, least_seconds)

    @asynccontextmanager
    async def submission(self, extrinsic_count: int, total_bytes: int) -> AsyncIterator[None]:
        """Wait for a turn for `extrinsic_count` extrinsics of `total_bytes` bytes together.

        Raise `RequestRefusedError` if too many wait.
        """
        try:
            async with self.turn(extrinsic_count * SUBMIT_SECONDS + total_bytes * SUBMIT_BYTE_SECONDS):
                yield
        except JsonRpcError as error:
            raise RequestRefusedError(error.code, error.message, str(error.data)) from None

    async def _wait_for_turn(self, caller: RpcCaller, least_seconds: float) -> None:
        waiting_turns = self._waiting_by_caller.get(caller)
        if waiting_turns is None:
            waiting_turns = self._waiting_by_caller[caller] = deque()
            caller.node_seconds = max(caller.node_seconds, self._served_level)
        if len(waiting_turns) >= WAITING_MAX:
            raise JsonRpcError(
                TOO_BUSY, "Server is busy, try again later", f"{WAITING_MAX} of your requests wait already"
            )
        turn_given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting_turns.append((turn_given, least_seconds))
        self._give_turns()
        try:
            await turn_given
        except asyncio.CancelledError:
            if turn_given.done() and not turn_given.cancelled():  # the turn was given to a caller that had just left
                self._end_turn(caller, least_seconds)
            raise

    def _end_turn(self, caller: RpcCaller, least_seconds: float) -> None:
        self._under_way_count -= 1
        self._durations_by_caller[caller].remove(least_seconds)
        if not self._durations_by_caller[caller]:
            del self._durations_by_caller[caller]
        self._give_turns()

    def _give_turns(self) -> None:
        while self._under_way_count < self._under_way_max:
            caller = min(self._candidates(), key=_node_seconds, default=None)
            if caller is None:
                return
            turn_given, least_seconds = self._waiting_by_caller[caller].popleft()
            if not self._waiting_by_caller[caller]:
                del self._waiting_by_caller[caller]
            if turn_given.done():  # its caller has left
                continue
            self._served_level = max(self._served_level, caller.node_seconds)
            self._was_local = caller.is_local
            caller.node_seconds += (
                least_seconds  # at once: otherwise one caller would get eight turns before the first is counted
            )
            self._durations_by_caller.setdefault(caller, []).append(least_seconds)
            self._under_way_count += 1
            turn_given.set_result(None)

    def _candidates(self) -> list[RpcCaller]:
        able_callers = list(filter(self._may_ask, self._waiting_by_caller))
        # A stranger with many addresses is many callers. The provider beside the node must not wait behind all of them.
        preferred_callers = [caller for caller in able_callers if caller.is_local is not self._was_local]
        return preferred_callers or able_callers

    def _may_ask(self, caller: RpcCaller) -> bool:
        own_durations = self._durations_by_caller.get(caller)
        return own_durations is None or sum(own_durations) + self._waiting_by_caller[caller][0][1] <= self._each_seconds


def _node_seconds(caller: RpcCaller) -> float:
    return caller.node_seconds
