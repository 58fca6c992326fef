"""The queue in front of the RPC process: served by each caller's use, not by the number of its requests."""

import asyncio
from types import SimpleNamespace

import pytest

from http_server.turns import SLICE_SECONDS, Turns
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import JsonRpcError
from node.rpc.work import MESSAGE_SECONDS, Work


def caller() -> RpcCaller:
    return RpcCaller(calls_left=1_000.0)


class Busy:
    """Steps of a given length, by a clock that only they move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.done: list[str] = []
        monkeypatch.setattr("node.rpc.work.time.thread_time", lambda: self.seconds)

    async def steps(self, name: str, count: int, seconds: float) -> None:
        for number in range(count):
            self.seconds += seconds
            self.done.append(name)
            if number < count - 1:
                await asyncio.sleep(0)


def test_who_used_little_overtakes_who_used_much(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.0)
        busy, turns, greedy = Busy(monkeypatch), Turns(), caller()
        tasks = [asyncio.create_task(Work(turns, greedy).run(busy.steps("greedy", 5, 0.1))) for _ in range(50)]
        while busy.done.count("greedy") < 20:
            await asyncio.sleep(0)
        honest = Work(turns, caller())
        await honest.run(busy.steps("honest", 5, 0.001))
        assert honest.spent_seconds == pytest.approx(0.005)
        between = busy.done[busy.done.index("honest") :]
        assert between.count("greedy") <= 5  # one while each step of the honest one comes back into the line
        await asyncio.gather(*tasks)
        assert busy.done.count("greedy") == 250

    asyncio.run(scenario())


def test_two_that_use_the_same_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.0)
        busy, turns = Busy(monkeypatch), Turns()
        first, second = caller(), caller()
        many = [Work(turns, first).run(busy.steps("first", 10, 0.01)) for _ in range(10)]
        await asyncio.gather(*many, Work(turns, second).run(busy.steps("second", 30, 0.01)))
        half = busy.done[:60]
        assert half.count("second") >= 28

    asyncio.run(scenario())


def test_who_asks_for_dear_things_has_fewer_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.0)
        busy, turns = Busy(monkeypatch), Turns()
        first, second = caller(), caller()
        dear = [Work(turns, first).run(busy.steps("dear", 5, 0.1)) for _ in range(20)]
        cheap = [Work(turns, second).run(busy.steps("cheap", 5, 0.01)) for _ in range(20)]
        await asyncio.gather(*dear, *cheap)
        last = len(busy.done) - busy.done[::-1].index("cheap")
        assert busy.done[:last].count("dear") <= 15  # a second's worth, which the cheap ones take together

    asyncio.run(scenario())


def test_who_was_away_has_saved_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.0)
        busy, turns = Busy(monkeypatch), Turns()
        first, second = caller(), caller()
        tasks = [asyncio.create_task(Work(turns, first).run(busy.steps("here", 9, 0.1))) for _ in range(20)]
        while busy.done.count("here") < 60:
            await asyncio.sleep(0)
        begun = len(busy.done)
        tasks += [asyncio.create_task(Work(turns, second).run(busy.steps("away", 5, 0.1))) for _ in range(10)]
        await asyncio.gather(*tasks)
        assert busy.done[begun : begun + 60].count("here") >= 25

    asyncio.run(scenario())


def test_a_call_that_takes_too_long_is_ended_at_its_next_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        busy, work = Busy(monkeypatch), Work(Turns(), caller())
        with pytest.raises(JsonRpcError) as ended:
            await work.run(busy.steps("long", 1_000, 0.1))
        assert ended.value.code == -32009
        assert len(busy.done) <= 12

    asyncio.run(scenario())


def test_a_message_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        busy, work = Busy(monkeypatch), Work(Turns(), caller())
        calls = 0
        with pytest.raises(JsonRpcError):
            while calls < 1_000:
                work.require_time()
                await work.run(busy.steps("call", 1, 0.5))
                calls += 1
        assert calls == MESSAGE_SECONDS / 0.5 + 1

    asyncio.run(scenario())


def test_who_is_cancelled_in_the_line_is_passed_over_and_its_work_hears_of_it() -> None:
    async def scenario() -> None:
        turns, one, other = Turns(), caller(), caller()
        heard: list[str] = []

        async def wait() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise

        under_way = asyncio.create_task(Work(turns, one).run(wait()))
        await asyncio.sleep(5 * SLICE_SECONDS)
        in_line = asyncio.create_task(turns.take(other))
        await asyncio.sleep(0)
        under_way.cancel()
        in_line.cancel()
        await asyncio.gather(under_way, in_line, return_exceptions=True)
        assert heard == ["cancelled"]
        await asyncio.wait_for(turns.take(other), 10)
        await asyncio.wait_for(turns.take(one), 10)

    asyncio.run(scenario())


def test_who_leaves_the_line_leaves_those_of_the_same_caller_in_it() -> None:
    async def scenario() -> None:
        turns, same = Turns(), caller()
        waiting = [asyncio.create_task(turns.take(same)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait_for(asyncio.gather(*waiting[1:]), 10)

    asyncio.run(scenario())


def test_the_loop_goes_round_between_the_steps_of_a_batch() -> None:
    async def scenario() -> None:
        turns, greedy = Turns(), caller()
        rounds = 0

        async def look_around() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        looking = asyncio.create_task(look_around())
        work = Work(turns, greedy)
        before = turns._given_at
        for _ in range(200):
            with work.step():
                sum(range(20_000))
            await turns.take(greedy)
        assert rounds > 10
        assert turns._given_at > before
        looking.cancel()

    asyncio.run(scenario())


def test_steps_follow_each_other_without_a_round_of_the_loop_within_a_slice_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 10.0
    monkeypatch.setattr("http_server.turns.time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.5)

    async def scenario() -> list[bool]:
        nonlocal now
        turns, waited, busy = Turns(), [], caller()
        for at in (10.0, 10.25, 10.5, 10.75, 11.25):
            now, busy.used = at, busy.used + 1.0
            taking = asyncio.create_task(turns.take(busy))
            await asyncio.sleep(0)
            waited.append(not taking.done())
            await taking
            newcomer = caller()
            await turns.take(newcomer)
            assert newcomer.used == busy.used, "level with the caller that is served"
        return waited

    assert asyncio.run(scenario()) == [True, False, True, False, True]
