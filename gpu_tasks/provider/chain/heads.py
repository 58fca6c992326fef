"""When to look at the chain: whenever the node tells of a block, and every few seconds whether it does or not.

Always: what a node tells is only a bell; which block is final, and what holds there, is asked and proved afterwards. A
node that tells of nothing is asked all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from wallet.rpc import NodeUnreachableError, RpcJson

LOOK_SECONDS = 3.0


class Bell:
    """Use `async with Bell(heads) as bell`; rings once for all blocks that were told of meanwhile."""

    def __init__(self, heads: AsyncIterator[RpcJson]) -> None:
        """Over a subscription, which it ends."""
        self._heads = heads
        self._rung = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Listen; the first ring is at once."""
        self._rung.set()
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        assert self._listening is not None  # entered
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def ring(self, patience_seconds: float = LOOK_SECONDS) -> None:
        """Wait for the next block that is told of, or until it is time; whatever ended the subscription is raised."""
        assert self._listening is not None  # entered
        try:
            async with asyncio.timeout(patience_seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        if self._listening.done():
            self._listening.result()
        self._rung.clear()

    async def _listen(self) -> None:
        try:
            async for _ in self._heads:
                self._rung.set()
            raise NodeUnreachableError("the node ended its subscription")
        finally:
            self._rung.set()
