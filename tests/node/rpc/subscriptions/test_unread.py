"""Connections that subscribe and do not read, or leave: their remaining cost."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import cast

from aiohttp import web

from node.rpc.callers import RpcCaller
from node.rpc.connection import ENDED_AT_ONCE, ClientConnection, SharedLimits
from node.rpc.registry import Registry, subscription
from node.rpc.subscriptions.shares import SubscriptionShares
from played_socket import PlayedSocket, subscribing

SUBSCRIPTIONS = 5 * ENDED_AT_ONCE


class Ticks:
    """Subscriptions of their own to something that never pauses."""

    def __init__(self) -> None:
        self.worked_out = 0
        self.ended: list[int] = []
        self.round = 0

    @subscription("ticks", notification="tick", unsubscribe=("untick",))
    async def ticks(self) -> AsyncIterator[int]:
        """Numbers, as fast as they are taken."""
        try:
            while True:
                self.worked_out += 1
                yield self.worked_out
        finally:
            self.ended.append(self.round)


async def connected(socket: PlayedSocket, ticks: Ticks) -> tuple[ClientConnection, asyncio.Task[None]]:
    limits = SharedLimits(SubscriptionShares(1024, 100), SubscriptionShares(1 << 20, 100, 1 << 30))
    connection, running = subscribing(socket, Registry([ticks]).methods["ticks"], SUBSCRIPTIONS, limits)
    while len(connection.subscriptions) < SUBSCRIPTIONS:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    return connection, running


def test_nothing_is_worked_out_for_who_has_not_read_what_was_written_before() -> None:
    async def scenario() -> None:
        socket, ticks = PlayedSocket(), Ticks()
        _, running = await connected(socket, ticks)
        assert (ticks.worked_out, socket.sent) == (0, [])
        socket.reads.set()
        while len(socket.sent) <= SUBSCRIPTIONS:
            await asyncio.sleep(0)
        assert socket.sent[0] == "subscribed"
        assert ticks.worked_out <= 3 * SUBSCRIPTIONS
        running.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_the_subscriptions_of_who_leaves_end_some_in_each_round_of_the_loop() -> None:
    async def scenario() -> None:
        socket, ticks = PlayedSocket(), Ticks()
        connection, running = await connected(socket, ticks)
        socket.reads.set()
        while ticks.worked_out < SUBSCRIPTIONS:
            await asyncio.sleep(0)
        socket.leaves = True
        socket.asks.set()
        while not running.done():
            ticks.round += 1
            await asyncio.sleep(0)
        assert connection.subscriptions == {}
        assert len(ticks.ended) == SUBSCRIPTIONS
        assert max(map(ticks.ended.count, set(ticks.ended))) <= ENDED_AT_ONCE

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_a_client_asked_is_let_go_of_when_it_is_cut_off() -> None:
    """The kept task held the error that ended it, with every frame: half a megabyte for each client."""

    class Asked:
        pass

    async def scenario() -> None:
        known: list[weakref.ref[Asked]] = []

        async def answer(_data: bytes, _connection: ClientConnection) -> str:
            asked = Asked()
            known.append(weakref.ref(asked))
            await asyncio.Event().wait()
            return repr(asked)

        socket = PlayedSocket()
        limits = SharedLimits(SubscriptionShares(1, 1), SubscriptionShares(1, 1))
        connection = ClientConnection(
            cast(web.WebSocketResponse, socket), RpcCaller(calls_left=1_000.0), limits, answer
        )
        running = asyncio.create_task(connection.run())
        socket.asks.set()
        while not known:
            await asyncio.sleep(0)
        connection.drop()
        while not running.done():
            await asyncio.sleep(0)
        assert known[0]() is None
        assert running.cancelled()
        assert socket.is_closed

    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(scenario(), 60))
    finally:
        gc.enable()
