"""Long calls: one at a time, and not in the thread of the loop that answers everybody."""

import asyncio
import threading

import pytest

from node.rpc.long_calls import LONG_BYTES, LongCalls
from node.rpc.questions import ASKING
from node.rpc.turns import Caller


class Slow:
    """A call that ends when it is told to."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.at_once = self.most = 0
        self.go = threading.Event()

    def call(self) -> str:
        self.threads.append(threading.current_thread().name)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if threading.current_thread() is not threading.main_thread():
            assert self.go.wait(30)
        self.at_once -= 1
        return "done"


def run(calls: LongCalls, slow: Slow, caller: Caller) -> asyncio.Task[str]:
    async def ask() -> str:
        ASKING.set(caller)
        return await calls.run(LONG_BYTES, slow.call)

    return asyncio.create_task(ask())


def test_a_short_one_is_worked_out_at_once_and_a_long_one_elsewhere() -> None:
    async def scenario() -> None:
        calls, slow = LongCalls(), Slow()
        assert await calls.run(LONG_BYTES - 1, slow.call) == "done"
        task = run(calls, slow, Caller(0.0))
        while len(slow.threads) < 2:
            await asyncio.sleep(0.001)  # the loop goes on meanwhile
        slow.go.set()
        assert await task == "done"
        assert slow.threads[0] == threading.main_thread().name != slow.threads[1]

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_one_at_a_time_in_turn_by_caller_and_who_leaves_keeps_its_turn_to_the_end() -> None:
    async def scenario() -> None:
        calls, slow, greedy = LongCalls(), Slow(), Caller(0.0)
        tasks = [run(calls, slow, greedy) for _ in range(5)]
        while not slow.threads:
            await asyncio.sleep(0.001)
        honest = run(calls, slow, Caller(0.0))
        tasks[0].cancel()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(slow.threads) == 1, "it left, and its work goes on"
        slow.go.set()
        assert await honest == "done"
        assert not all(task.done() for task in tasks), "the other caller's four were not before it"
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert await asyncio.gather(*tasks[1:]) == ["done"] * 4
        assert slow.most == 1

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_a_call_raises_is_raised() -> None:
    async def scenario() -> None:
        def wrong() -> None:
            raise ValueError("wrong")

        with pytest.raises(ValueError, match="wrong"):
            await LongCalls().run(LONG_BYTES, wrong)

    asyncio.run(scenario())
