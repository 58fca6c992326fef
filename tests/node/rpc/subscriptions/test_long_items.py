"""Large items: one at a time for each client, only when it has room, and counted as held memory."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from node.rpc.connection import SharedLimits
from node.rpc.jsonrpc import MAX_RESPONSE_BYTES
from node.rpc.registry import Registry, subscription
from node.rpc.subscriptions.shared_items import LongItem
from node.rpc.subscriptions.shares import SubscriptionShares
from played_socket import PlayedSocket, subscribing

SUBSCRIPTIONS = 16
PIECES, PIECE = 4, "1234567890" * 10


class Novels:
    """Subscriptions of one long item each."""

    def __init__(self) -> None:
        self.begun = 0
        self.under_way: list[int] = []
        self.held: list[int] = []
        self.limits: SharedLimits | None = None

    @subscription("novel", notification="novel", unsubscribe=("no_novel",))
    async def novel(self) -> AsyncIterator[LongItem]:
        """One."""
        yield LongItem(self.pieces)
        await asyncio.Event().wait()

    async def pieces(self) -> AsyncGenerator[str, None]:
        """A number of many digits."""
        assert self.limits is not None
        self.begun += 1
        before = self.limits.held_bytes.total
        for number in range(PIECES):
            self.held.append(self.limits.held_bytes.total - before - number * len(PIECE))
            self.under_way.append(self.begun)
            await asyncio.sleep(0)
            yield PIECE


async def turned(times: int = 200) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_long_items_are_worked_out_one_after_the_other_for_a_client_that_has_room() -> None:
    async def scenario() -> None:
        limits = SharedLimits(SubscriptionShares(1024, 100), SubscriptionShares(1 << 20, 100, 1 << 30))
        novels, socket = Novels(), PlayedSocket()
        novels.limits = limits
        _, running = subscribing(socket, Registry([novels]).methods["novel"], SUBSCRIPTIONS, limits)
        await turned()
        assert novels.begun == 0  # it has not read that it is subscribed
        assert socket.message is not None
        assert socket.message() is None  # and its question is not kept
        socket.reads.set()
        while novels.begun < 3:
            await asyncio.sleep(0)
        socket.reads.clear()  # in the middle of everything it reads no more
        await turned()
        assert novels.begun <= 4
        socket.reads.set()
        while len(socket.sent) <= SUBSCRIPTIONS:
            await turned()
        assert novels.under_way == sorted(novels.under_way)  # none began before the one before was whole
        assert novels.held == [0] * (SUBSCRIPTIONS * PIECES)  # each piece counted when it was there, none twice
        assert all(text.endswith(f'"result":{PIECE * PIECES}}}}}') for text in socket.sent[1:])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert limits.held_bytes.total == 0

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_an_item_longer_than_a_response_is_given_up_where_it_is() -> None:
    async def scenario() -> None:
        written = 0
        megabyte = " " * 1_000_000

        async def pieces() -> AsyncGenerator[str, None]:
            nonlocal written
            while True:
                written += len(megabyte)
                yield megabyte

        held: list[int] = []
        text = await LongItem(pieces).text(held.append)
        assert text is not None
        assert MAX_RESPONSE_BYTES < len(text) == written <= MAX_RESPONSE_BYTES + len(megabyte)
        assert sum(held) == 0

    asyncio.run(asyncio.wait_for(scenario(), 60))
