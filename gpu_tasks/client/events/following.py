"""The market's events block after block, over connections that break: none is left out, and none told twice.

Always: blocks are final ones, in order; a block is told whole or, where the connection broke within it, begun anew
from the first event that was not told; blocks that the node cannot show any more are named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from gpu_tasks.client.events.concerning import EventFilter
from gpu_tasks.client.events.telling import ToldEvent, UntoldBlocks, is_of_market
from gpu_tasks.client.watching import moments
from wallet.client import ChainClient
from wallet.rpc import NodeUnreachableError, OddAnswerError, RpcError

BLOCKS_PROVED = 64
"""A node shows the states of so many final blocks."""
FIRST_WITH_EVENTS = 1
"""Nothing happens in block 0."""
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

Connect = Callable[[], Awaitable[ChainClient]]


@dataclass
class EventStream:
    """Events from a block on; use once."""

    connect: Connect
    wanted: EventFilter
    first: int | None
    """Block; None: the newest `BLOCKS_PROVED`, or with `is_followed` what comes from now on."""
    is_followed: bool
    say: Callable[[str], None]
    _next: int = -1
    _told: int = 0
    """How many events of the block `_next` were told."""
    _failures: int = 0

    async def told(self) -> AsyncIterator[ToldEvent | UntoldBlocks]:
        """Up to the newest final block, or for ever. NodeUnreachableError if there never was a connection."""
        is_begun = False
        while True:
            try:
                async with await self.connect() as client:
                    is_begun = True
                    async for each in self._up_to_now(client):
                        yield each
                    if not self.is_followed:
                        return
                    async for _ in moments(client):
                        async for each in self._up_to_now(client):
                            yield each
            except (NodeUnreachableError, RpcError) as error:
                if not is_begun or (not self.is_followed and self._failures >= len(RETRY_SECONDS)):
                    raise
                await self._wait(error)

    @property
    def next_block(self) -> int:
        """Where to go on later: every block before it was told."""
        return self._next

    async def _wait(self, error: Exception) -> None:
        """Before the next connection: longer after each failure."""
        seconds = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        where = f"; block {self._next} is next" if self._next >= 0 else ""
        self.say(f"the connection broke ({error}): trying again{where}")
        await asyncio.sleep(seconds)

    async def _up_to_now(self, client: ChainClient) -> AsyncIterator[ToldEvent | UntoldBlocks]:
        """What has become final since."""
        height = await client.height(await client.finalized())
        if self._next < 0:
            self._next = self._begin(height)
        while self._next <= height:
            oldest = max(0, height - BLOCKS_PROVED + 1)
            try:
                async for each in self._block(client, self._next):
                    yield each
            except (RpcError, OddAnswerError):
                height = await client.height(await client.finalized())  # more of them, while it was asked
                oldest = max(0, height - BLOCKS_PROVED + 1)
                if self._next >= oldest:
                    raise  # it has to be there: another try
                yield UntoldBlocks(self._next, oldest - 1)
                self._next = oldest - 1
            self._next, self._told, self._failures = self._next + 1, 0, 0

    def _begin(self, height: int) -> int:
        if self.first is not None:
            return max(FIRST_WITH_EVENTS, self.first)
        return height + 1 if self.is_followed else max(FIRST_WITH_EVENTS, height - BLOCKS_PROVED + 1)

    async def _block(self, client: ChainClient, number: int) -> AsyncIterator[ToldEvent]:
        """Those of a block that were not told; the others of them are counted."""
        block_id = await client.block_id(number)
        records = await client.events(block_id)
        for index, record in enumerate(records):
            if index < self._told:
                continue
            if is_of_market(record.event) and await self.wanted.wants(client, record.event, block_id):
                self._told = index + 1  # before it is handed over: it is never told again
                yield ToldEvent(number, block_id, index, record.event)
