"""Items for all subscribers: written out once, in pieces, and only for readers."""

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from http_server.turns import Turns
from node.rpc import jsonrpc
from node.rpc.callers import RpcCaller
from node.rpc.subscriptions.broadcast import QUEUE_ITEMS, Publisher
from node.rpc.subscriptions.feeder import PIECE_BYTES, PIECE_ITEMS, Feeder
from node.rpc.subscriptions.shared_items import SharedItems


class News:
    """Numbers for every subscriber, and their fates."""

    def __init__(self, padding: int = 0) -> None:
        self.publisher: Publisher[int] = Publisher()
        self.present = 0
        self.written: list[int] = []
        self.lagged = 0
        self.room = asyncio.Event()
        self.sent: list[str] = []
        self._padding = "x" * padding
        self.items: SharedItems[int] = SharedItems(self.publisher, lambda: self.present, int, self._to_json)
        self._turns = Turns()

    def publish(self, item: int) -> None:
        self.present = item
        self.publisher.publish(item)

    def feeder(self, subscriptions: int, name: str = "") -> Feeder:
        feeder = Feeder(self._turns, RpcCaller(calls_left=1_000.0), self.sent.append, self._lag)
        for number in range(subscriptions):
            feeder.follow(f"{name}{number}", "news", self.items)
        feeder.begin()
        return feeder

    def heard(self, key: str) -> list[int]:
        notifications = [json.loads(text)["params"] for text in self.sent]
        return [item["result"][0] for item in notifications if item["subscription"] == key]

    def _to_json(self, item: int) -> list[Any]:
        self.written.append(item)
        return [item, self._padding]

    def _lag(self) -> None:
        self.lagged += 1


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_item_is_written_out_once_for_all_who_subscribed_to_it() -> None:
    async def scenario() -> None:
        news = News()
        news.room.set()
        running = [asyncio.create_task(news.feeder(100, f"{name} ").run(news.room)) for name in "abc"]
        await rounds(100)
        news.publish(1)
        news.publish(2)
        await rounds(100)
        assert len(news.sent) == 900
        assert news.written == [0, 1, 2]
        assert news.heard("b 99") == [0, 1, 2]
        assert len(running) == 3

    play(scenario)


def test_one_turn_writes_no_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.0)

    async def scenario(padding: int, most: int) -> None:
        news = News(padding)
        news.room.set()
        running = asyncio.create_task(news.feeder(1_000).run(news.room))
        written = [0]
        while len(news.sent) < 1_000:
            await asyncio.sleep(0)
            written.append(len(news.sent))
        steps = [after - before for before, after in itertools.pairwise(written)]
        assert 1 <= max(steps) <= most
        running.cancel()

    play(lambda: scenario(0, PIECE_ITEMS))
    play(lambda: scenario(PIECE_BYTES // 4, 4))


def test_who_does_not_read_costs_a_note_for_each_item_and_is_given_up_when_it_lags() -> None:
    async def scenario() -> None:
        news = News()
        running = asyncio.create_task(news.feeder(1_000).run(news.room))
        for item in range(1, QUEUE_ITEMS):
            news.publish(item)
        await rounds(10)
        assert (news.sent, news.written, news.lagged) == ([], [], 0)
        news.publish(QUEUE_ITEMS)
        assert news.lagged == 1
        running.cancel()

    play(scenario)


def test_a_new_subscription_hears_the_present_item_and_what_follows_and_an_ended_one_nothing() -> None:
    async def scenario() -> None:
        news = News()
        feeder = news.feeder(2)
        news.publish(1)
        feeder.follow("late", "news", news.items)
        feeder.follow("gone at once", "news", news.items)
        feeder.end("gone at once")
        feeder.begin()
        news.publish(2)
        feeder.end("0")
        news.room.set()
        running = asyncio.create_task(feeder.run(news.room))
        await rounds(20)
        assert {key: news.heard(key) for key in ("0", "1", "late", "gone at once")} == {
            "0": [],
            "1": [0, 1, 2],
            "late": [1, 2],
            "gone at once": [],
        }
        feeder.end("1")
        feeder.end("late")
        assert news.publisher.listeners == 0
        running.cancel()

    play(scenario)


def test_a_notification_is_the_same_text_as_one_that_is_written_out_whole() -> None:
    value = {"number": "0x1", "logs": ['"', "\\"]}
    whole = jsonrpc.dumps(jsonrpc.notification("chain_newHead", "key-_1", value))
    assert jsonrpc.notification_text("chain_newHead", "key-_1", jsonrpc.dumps(value)) == whole
