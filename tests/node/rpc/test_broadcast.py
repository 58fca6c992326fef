"""Broadcasts: nobody who went away is written to, whether it ever listened or not."""

import asyncio

import pytest

from node.rpc.broadcast import QUEUE_ITEMS, LaggedError, Publisher


def test_a_listener_that_goes_before_its_first_item_leaves_nothing() -> None:
    news: Publisher[int] = Publisher()
    for _ in range(10):
        news.listen()  # as when the extrinsic that somebody wants to watch is refused
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
