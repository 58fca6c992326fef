"""The queue of questions to the node, shared by the time of each caller's questions."""

import asyncio

import pytest

from node.feed.client import RequestRefusedError
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import TOO_BUSY, JsonRpcError
from node.rpc.questions import (
    ASKING,
    SUBMISSIONS_SECONDS,
    SUBMISSIONS_UNDER_WAY_MAX,
    UNDER_WAY_MAX,
    WAITING_MAX,
    Questions,
)


class PlayedNode:
    """Answers a question at a test's command, and records the callers in the order of their questions."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self.asked: list[str] = []
        self._done: list[asyncio.Event] = []

    def ask(self, name: str, caller: RpcCaller) -> asyncio.Task[None]:
        async def question() -> None:
            ASKING.set(caller)
            async with self.questions.turn():
                self.asked.append(name)
                self._done.append(done := asyncio.Event())
                await done.wait()

        return asyncio.create_task(question())

    async def answer_all(self) -> None:
        """Answer until no caller waits."""
        await settle()
        while self._done:
            self._done.pop(0).set()
            await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_asks_little_waits_for_one_question_not_for_all_of_another_caller() -> None:
    async def scenario() -> None:
        node, greedy = PlayedNode(Questions()), RpcCaller()
        tasks = [node.ask("greedy", greedy) for _ in range(UNDER_WAY_MAX + 50)]
        await settle()
        assert node.asked == ["greedy"] * UNDER_WAY_MAX
        tasks.append(node.ask("honest", RpcCaller()))
        await node.answer_all()
        assert node.asked.index("honest") <= UNDER_WAY_MAX
        await asyncio.gather(*tasks)
        assert len(node.asked) == UNDER_WAY_MAX + 51

    asyncio.run(scenario())


def test_dear_questions_count_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"s": 0.0}
    monkeypatch.setattr("node.rpc.questions.time.monotonic", lambda: now["s"])

    async def scenario() -> None:
        monkeypatch.setattr("node.rpc.questions.UNDER_WAY_MAX", 1)
        questions, order = Questions(), []
        dear, cheap = RpcCaller(), RpcCaller()

        async def ask(name: str, caller: RpcCaller, seconds: float) -> None:
            ASKING.set(caller)
            async with questions.turn():
                order.append(name)
                now["s"] += seconds
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(ask("dear", dear, 0.1)) for _ in range(10)]
        tasks += [asyncio.create_task(ask("cheap", cheap, 0.001)) for _ in range(50)]
        await asyncio.gather(*tasks)
        assert order[:50].count("cheap") >= 48

    asyncio.run(scenario())


def test_who_comes_new_or_back_is_level_with_the_others_and_not_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.rpc.questions.UNDER_WAY_MAX", 1)
    monkeypatch.setattr("node.rpc.questions.time.monotonic", lambda: 0.0)

    async def scenario() -> None:
        node, long_here = PlayedNode(Questions()), RpcCaller()
        tasks = [node.ask("long here", long_here) for _ in range(50)]
        await node.answer_all()
        node.asked.clear()
        tasks += [node.ask("long here", long_here) for _ in range(10)]
        await settle()
        newcomer = RpcCaller()
        tasks += [node.ask("new", newcomer) for _ in range(40)]
        await node.answer_all()
        assert node.asked[:20].count("long here") >= 9
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_too_many_of_one_caller_are_refused_and_nobody_else() -> None:
    async def scenario() -> None:
        node, greedy = PlayedNode(Questions()), RpcCaller()
        tasks = [node.ask("greedy", greedy) for _ in range(UNDER_WAY_MAX + WAITING_MAX)]
        await settle()
        with pytest.raises(JsonRpcError, match="busy"):
            await node.ask("greedy", greedy)
        tasks.append(node.ask("honest", RpcCaller()))
        await node.answer_all()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_too_many_submissions_are_refused_as_the_node_would() -> None:
    """A batch in parts can thus name the refused parts."""

    async def scenario() -> None:
        line = Questions(1)

        async def submit() -> None:
            async with line.submission(1, 150):
                await asyncio.Event().wait()

        ASKING.set(RpcCaller())
        tasks = [asyncio.create_task(submit()) for _ in range(1 + WAITING_MAX)]
        await settle()
        with pytest.raises(RequestRefusedError, match="busy") as refused:
            await submit()
        assert refused.value.code == TOO_BUSY
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_given", [True, False])
def test_who_leaves_gives_its_turn_back(is_given: bool) -> None:
    async def scenario() -> None:
        node, caller = PlayedNode(Questions()), RpcCaller()
        tasks = [node.ask("first", caller) for _ in range(UNDER_WAY_MAX)]
        await settle()
        leaving = node.ask("leaving", caller)
        await settle()
        if is_given:  # in the same step in which it is cancelled
            tasks[0].cancel()
            await asyncio.sleep(0)
        leaving.cancel()
        await node.answer_all()
        await asyncio.gather(leaving, *tasks, return_exceptions=True)
        again = [node.ask("again", caller) for _ in range(UNDER_WAY_MAX)]
        await settle()
        assert node.asked.count("again") == UNDER_WAY_MAX
        await node.answer_all()
        await asyncio.gather(*again)

    asyncio.run(scenario())


def test_who_submits_much_has_so_much_time_under_way_and_leaves_room_for_others() -> None:
    async def scenario() -> None:
        line, order = Questions(SUBMISSIONS_UNDER_WAY_MAX, SUBMISSIONS_SECONDS), []
        go = asyncio.Event()

        async def submit(name: str, caller: RpcCaller, count: int, size: int) -> None:
            ASKING.set(caller)
            async with line.submission(count, size):
                order.append(name)
                await go.wait()

        greedy, honest = RpcCaller(), RpcCaller()
        tasks = [asyncio.create_task(submit("greedy", greedy, 512, 128 * 1024)) for _ in range(50)]
        await settle()
        assert order == ["greedy"] * 2, "one is worked on, one waits"
        tasks.append(asyncio.create_task(submit("honest", honest, 1, 150)))
        await settle()
        assert order[-1] == "honest"
        go.set()
        await asyncio.gather(*tasks)
        assert len(order) == 51
        go.clear()
        tasks = [asyncio.create_task(submit("huge", greedy, 1, 100 * 1024 * 1024)) for _ in range(2)]
        await settle()
        assert order.count("huge") == 1, "one may always be under way"
        go.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())
