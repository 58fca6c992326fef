"""The times at which the daemon reads the chain, and the limit on repeated messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gpu_tasks.provider.chain.live import AGAIN_SECONDS, KINDS_MAX, HeadSubscription, RateLimitedLog
from wallet.rpc import NodeUnreachableError, RpcJson

LONG = 3_600.0


async def heads(*items: RpcJson, then: asyncio.Event | None = None) -> AsyncIterator[RpcJson]:
    for item in items:
        yield item
    if then is not None:
        await then.wait()


async def test_all_that_was_told_of_meanwhile_is_one_ring() -> None:
    async with HeadSubscription(heads(1, "odd", None, then=asyncio.Event())) as bell:
        await asyncio.sleep(0)
        await bell.ring(LONG)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bell.ring(LONG)


async def test_a_node_that_tells_of_nothing_is_asked_all_the_same() -> None:
    async with HeadSubscription(heads(then=asyncio.Event())) as bell:
        async with asyncio.timeout(60):
            await bell.ring(LONG)
        for _ in range(3):
            await bell.ring(0.001)


@pytest.mark.parametrize("told", [(), (1,)])
async def test_a_subscription_that_ends_is_said(told: tuple[int, ...]) -> None:
    async with HeadSubscription(heads(*told)) as bell, asyncio.timeout(60):
        with pytest.raises(NodeUnreachableError, match="ended its subscription"):
            for _ in range(3):
                await bell.ring(LONG)


def test_the_same_thing_with_other_numbers_is_told_once_in_a_while() -> None:
    told: list[str] = []
    now = [100.0]
    seldom = RateLimitedLog(told.append, lambda: now[0])
    seldom("final block 7 is 30 s old")
    seldom("nothing in it has the hash 53e09976054a93a5487c5735e985e179")
    now[0] += AGAIN_SECONDS - 0.1
    seldom("final block 8 is 31 s old")
    seldom("nothing in it has the hash fe7922e8c21f60f508d1c7512e9da092")
    assert len(told) == 2
    now[0] += 0.1
    seldom("final block 9 is 36 s old")
    assert told[2:] == ["final block 9 is 36 s old"]
    for number in range(3 * KINDS_MAX):
        seldom("x" * (number + 1) + " is gone")  # a node chooses its message
        assert len(seldom._told) <= KINDS_MAX
