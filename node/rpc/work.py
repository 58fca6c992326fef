"""The cost of one message: its steps run in turn, are timed, and end if they take too long.

Invariant: the time of a step is processor time, so waiting for the node or for a turn costs nothing. A call that took
`CALL_SECONDS` ends at its next pause. The calls of a batch after `MESSAGE_SECONDS` are refused.
"""

from __future__ import annotations

import contextlib
import time
import types
from collections.abc import Awaitable, Generator, Iterator
from functools import partial
from typing import Any, TypeVar, cast

from http_server.turns import Turns
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import TOO_BUSY, JsonRpcError

T = TypeVar("T")

CALL_SECONDS = 1.0
MESSAGE_SECONDS = 5.0
STEP_SECONDS_MIN = 20e-6  # the loop's own time for a step that does nothing


class Work:
    """The work for one message of a caller."""

    def __init__(self, turns: Turns, caller: RpcCaller) -> None:
        """Create it, with no time used."""
        self.turns = turns
        self.caller = caller
        self.spent_seconds = 0.0

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Charge the time of the body to the caller."""
        started_at = time.thread_time()
        try:
            yield
        finally:
            step_seconds = max(STEP_SECONDS_MIN, time.thread_time() - started_at)
            self.spent_seconds += step_seconds
            self.caller.used += step_seconds

    def require_time(self) -> None:
        """Raise `JsonRpcError` if the whole message took too long."""
        if self.spent_seconds > MESSAGE_SECONDS:
            raise _too_long("the calls of one message", MESSAGE_SECONDS)

    async def run(self, awaitable: Awaitable[T]) -> T:
        """Return the result of `awaitable`, a coroutine, run with one turn for each of its steps."""
        return cast("T", await _in_turns(self, awaitable))


@types.coroutine
def _in_turns(work: Work, steps: Any) -> Generator[Any, Any, Any]:
    spent_max = work.spent_seconds + CALL_SECONDS
    resume = partial(steps.send, None)
    while True:
        try:
            yield from work.turns.take(work.caller).__await__()
        except BaseException as error:  # noqa: BLE001  # cancelled while it waited: the coroutine gets the exception
            resume = partial(steps.throw, error)
        with work.step():
            try:
                awaited = resume()
            except StopIteration as end:
                return end.value
        if work.spent_seconds > spent_max:
            resume = partial(steps.throw, _too_long("a call", CALL_SECONDS))
            continue
        try:
            yield awaited
            resume = partial(steps.send, None)
        except BaseException as error:  # noqa: BLE001  # as above
            resume = partial(steps.throw, error)


def _too_long(work_name: str, limit_seconds: float) -> JsonRpcError:
    return JsonRpcError(
        TOO_BUSY, "Server is busy, try again later", f"{work_name} took more than {limit_seconds:.0f} s of work"
    )
