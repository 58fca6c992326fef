"""A proxy between a wallet and its node. A test can make it lie, lose messages and fall silent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import websockets
from websockets.asyncio.server import ServerConnection

SUBMIT = "author_submitAndWatchExtrinsic"

Spoil = Callable[[str, dict[str, Any], ServerConnection, Any], Awaitable[bool]]


class Between:
    """A proxy between a wallet and its node that records messages and spoils them by `spoil`.

    `spoil` takes the direction (`ask` or `answer`), the message, the wallet's and the node's socket. It returns True if
    it handled the message itself.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.asked: list[dict[str, Any]] = []
        self.spoil: Spoil | None = None

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Gives its URL."""
        async with websockets.serve(self._serve, "127.0.0.1", 0) as server:
            yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

    async def _serve(self, wallet_side: ServerConnection) -> None:
        async with websockets.connect(self.node, proxy=None) as node_side:

            async def back() -> None:
                async for text in node_side:
                    message = json.loads(text)
                    if self.spoil is None or not await self.spoil("answer", message, wallet_side, node_side):
                        await wallet_side.send(json.dumps(message))

            task = asyncio.create_task(back())
            try:
                async for text in wallet_side:
                    message = json.loads(text)
                    self.asked.append(message)
                    if self.spoil is None or not await self.spoil("ask", message, wallet_side, node_side):
                        await node_side.send(json.dumps(message))
            finally:
                task.cancel()

    def submitted(self) -> list[str]:
        """Return the submitted extrinsics, without repetitions."""
        return list(dict.fromkeys(asked["params"][0] for asked in self.asked if asked["method"] == SUBMIT))


async def lose_after_submit(_direction: str, message: dict[str, Any], wallet_side: ServerConnection, node: Any) -> bool:
    """Submit the extrinsic, and drop the wallet's connection before the answer."""
    if message.get("method") != SUBMIT:
        return False
    await node.send(json.dumps(message))
    await asyncio.sleep(0.3)
    await wallet_side.close()
    return True


async def lose_before_submit(direction: str, message: dict[str, Any], wallet_side: ServerConnection, _: Any) -> bool:
    """Drop the connection instead of submitting the extrinsic."""
    if direction != "ask" or message.get("method") != SUBMIT:
        return False
    await wallet_side.close()
    return True


@contextmanager
def spoiled(node: str, spoil: Spoil) -> Iterator[tuple[str, Between]]:
    """Yield the URL of a node whose messages are spoiled, and the proxy."""
    between, ready, done, urls = Between(node), threading.Event(), threading.Event(), list[str]()
    between.spoil = spoil

    async def serve() -> None:
        async with between.served() as url:
            urls.append(url)
            ready.set()
            while not done.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    try:
        yield urls[0], between
    finally:
        done.set()
        thread.join()
