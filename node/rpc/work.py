"""What one message costs: its steps are taken in turn, timed, and ended when they took too long.

Invariant: the time of a step is the processor's, so who waits for the node, or for a turn, uses nothing; a call
that took `CALL_SECONDS` is ended at its next pause; the calls of a batch behind `MESSAGE_SECONDS` are refused.
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
STEP_SECONDS_MIN = 20e-6  # what the loop itself takes for a step that does nothing


class Work:
    """The work for one message of a caller."""

    def __init__(self, turns: Turns, caller: RpcCaller) -> None:
        """Nothing is done yet."""
        self.turns = turns
        self.caller = caller
        self.spent = 0.0

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Time what is done inside."""
        before = time.thread_time()
        try:
            yield
        finally:
            seconds = max(STEP_SECONDS_MIN, time.thread_time() - before)
            self.spent += seconds
            self.caller.used += seconds

    def require_time(self) -> None:
        """Raise when the whole message took too long."""
        if self.spent > MESSAGE_SECONDS:
            raise _too_long("the calls of one message", MESSAGE_SECONDS)

    async def run(self, awaitable: Awaitable[T]) -> T:
        """What `awaitable`, a coroutine, gives: one turn for each of its steps."""
        return cast("T", await _in_turns(self, awaitable))


@types.coroutine
def _in_turns(work: Work, steps: Any) -> Generator[Any, Any, Any]:
    until = work.spent + CALL_SECONDS
    go = partial(steps.send, None)
    while True:
        try:
            yield from work.turns.take(work.caller).__await__()
        except BaseException as error:  # noqa: BLE001  # cancelled while it waited: the coroutine hears of it
            go = partial(steps.throw, error)
        with work.step():
            try:
                waits_for = go()
            except StopIteration as end:
                return end.value
        if work.spent > until:
            go = partial(steps.throw, _too_long("a call", CALL_SECONDS))
            continue
        try:
            yield waits_for
            go = partial(steps.send, None)
        except BaseException as error:  # noqa: BLE001  # as above
            go = partial(steps.throw, error)


def _too_long(what: str, seconds: float) -> JsonRpcError:
    return JsonRpcError(TOO_BUSY, "Server is busy, try again later", f"{what} took more than {seconds:.0f} s of work")
