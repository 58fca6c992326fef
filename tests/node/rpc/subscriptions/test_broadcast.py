"""Broadcasts: nothing is written to a departed client, whether it ever listened or not."""

import asyncio
import gc

import pytest

from node.rpc.subscriptions.broadcast import QUEUE_ITEMS, WOKEN_AT_ONCE, LaggedError, Publisher, Topics


def test_a_listener_that_goes_before_its_first_item_leaves_nothing() -> None:
    news: Publisher[int] = Publisher()
    for _ in range(10):
        news.listen()  # as after a refusal of the watched extrinsic
    assert news.listeners == 0


def test_items_in_order_until_a_listener_lags() -> None:
    async def scenario() -> None:
        news: Publisher[int] = Publisher()
        prompt, slow = news.listen(), news.listen()
        news.publish(0)
        assert await anext(prompt) == 0
        for number in range(1, QUEUE_ITEMS + 1):
            news.publish(number)
            assert await anext(prompt) == number
        assert [await anext(slow) for _ in range(QUEUE_ITEMS)] == list(range(QUEUE_ITEMS))
        with pytest.raises(LaggedError):
            await anext(slow)
        assert news.listeners == 1

    asyncio.run(scenario())


def test_many_listeners_are_woken_in_several_rounds_and_each_gets_every_item_in_order() -> None:
    async def scenario() -> None:
        news: Publisher[int] = Publisher()
        listeners = [news.listen() for _ in range(3 * WOKEN_AT_ONCE + 1)]
        firsts = [asyncio.ensure_future(anext(listener)) for listener in listeners]
        await asyncio.sleep(0)
        news.publish(1)
        news.publish(2)
        late = news.listen()
        woken: list[int] = []
        while not woken or woken[-1] < len(listeners):
            await asyncio.sleep(0)
            woken.append(sum(first.done() for first in firsts))
        assert max(after - before for before, after in zip([0, *woken], woken, strict=False)) <= WOKEN_AT_ONCE
        assert [await first for first in firsts] == [1] * len(listeners)
        assert [await anext(listener) for listener in listeners] == [2] * len(listeners)
        news.publish(3)
        assert await anext(late) == 3, "what was published before it listened is not for it"

    asyncio.run(scenario())


def test_who_listens_to_one_topic_is_not_woken_for_another() -> None:
    """A thousand watchers of one extrinsic each caused a million wake-ups a block."""

    async def scenario() -> None:
        topics: Topics[str] = Topics()
        listening = [topics.listen(bytes([number])) for number in range(100)]
        woken = [asyncio.ensure_future(anext(listener)) for listener in listening]
        await asyncio.sleep(0)
        topics.publish(bytes([7]), "in a block")
        topics.publish(b"nobody", "in a block")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [number for number, task in enumerate(woken) if task.done()] == [7]
        assert await woken[7] == "in a block"
        for task in woken:
            task.cancel()
        await asyncio.gather(*woken, return_exceptions=True)
        del listening, woken, task
        gc.collect()
        await asyncio.sleep(0.01)  # in which the one that was not awaited again is closed
        assert not topics._publishers

    asyncio.run(scenario())
