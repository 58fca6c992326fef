"""One WebSocket: its reader, its writer, its subscriptions.

What always holds: its outbox is bounded in bytes and items, alone and together with all others; a connection that was
dropped is dead at once: nothing is queued, worked out or logged for it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from node.rpc import jsonrpc
from node.rpc.broadcast import LaggedError
from node.rpc.held_bytes import HeldBytes
from node.rpc.jsonrpc import Json, JsonRpcError
from node.rpc.registry import RpcMethod
from node.rpc.subscription_shares import SubscriptionShares
from node.rpc.turns import Caller, Turns
from node.rpc.work import Work

OUTBOX_ITEMS = 1024
OUTBOX_BYTES_MAX = 4 * jsonrpc.MAX_RESPONSE_BYTES
ITEM_BYTES = 256  # what an item of a subscription's parameters takes beside its own bytes, a value under it included
_LOG = logging.getLogger(__name__)

Answer = Callable[[bytes, "ClientConnection"], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """What all clients of a server have together."""

    subscriptions: SubscriptionShares
    turns: Turns = field(default_factory=Turns)
    held: HeldBytes = field(default_factory=HeldBytes)


class ClientConnection:
    """See the module's docstring."""

    def __init__(self, socket: web.WebSocketResponse, caller: Caller, limits: SharedLimits, answer: Answer) -> None:
        """Nothing runs yet. `answer` gives the text of the response to a message."""
        self.caller = caller
        self.subscriptions: dict[str, asyncio.Task[None]] = {}
        self.outbox: asyncio.Queue[str] = asyncio.Queue(OUTBOX_ITEMS)
        self.is_dropped = False
        self.heard_at = time.monotonic()
        self.has_asked = False
        self._socket = socket
        self._limits = limits
        self._answer = answer
        self._outbox_bytes = 0
        self._subscribed = 0  # those in `subscriptions`, and those about to be
        self._kept: dict[str, int] = {}  # bytes of the parameters of each
        self._runner: asyncio.Task[Any] | None = None
        self._answered = asyncio.Event()  # set when the answers to the last message are queued

    async def run(self) -> None:
        """Answer messages until either side closes; then end every subscription."""
        self._runner = asyncio.current_task()
        writer = asyncio.create_task(self._write())
        try:
            with contextlib.suppress(ConnectionError):  # it left while a pong was on its way
                async for message in self._socket:
                    if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                        data = message.data.encode() if isinstance(message.data, str) else message.data
                        await self._take(data)
        finally:
            tasks = [writer, *self.subscriptions.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.is_dropped = True
            self._limits.held.forget(self)

    async def subscribe(self, method: RpcMethod, arguments: list[Any]) -> str:
        """Start a subscription; the answer with its id goes out before its first item."""
        self._limits.subscriptions.take(self._subscribed)
        self._subscribed += 1
        try:
            items = method.handler(*arguments)
            if inspect.isawaitable(items):  # it may refuse, and then there is no subscription
                items = await items
        except BaseException:
            self._give_back()
            raise
        key = secrets.token_urlsafe(12)
        task = asyncio.create_task(self._feed(key, str(method.notification), items, self._answered))
        self.subscriptions[key] = task
        # For as long as it lasts: 150 subscriptions to a thousand long keys each took 280 MB that nobody counted.
        self._kept[key] = _size(arguments)
        self._limits.held.change(self, self._kept[key])
        task.add_done_callback(lambda _: self._forget(key))
        return key

    def unsubscribe(self, params: list[Json] | dict[str, Json]) -> bool:
        """End the named subscription; tells whether there was one."""
        key = next(iter(params.values() if isinstance(params, dict) else params), None)
        task = self.subscriptions.get(key) if isinstance(key, str) else None
        if task is None:
            return False
        task.cancel()
        self._forget(str(key))
        return True

    def drop(self) -> None:
        """End it now: what is queued is not sent, what is under way is not finished."""
        self.is_dropped = True
        for task in [self._runner, *self.subscriptions.values()]:
            if task is not None:
                task.cancel()
        while not self.outbox.empty():
            self.outbox.get_nowait()
        transport = self._socket._req.transport if self._socket._req is not None else None  # noqa: SLF001 - no public way to abort
        if transport is not None:
            transport.abort()

    async def _take(self, data: bytes) -> None:
        self.heard_at, self.has_asked = time.monotonic(), True
        self._answered = asyncio.Event()
        answer = await self._answer(data, self)
        if answer is not None:
            self._send(answer)
        self._answered.set()

    async def _feed(self, key: str, notification: str, items: AsyncIterator[Json], answered: asyncio.Event) -> None:
        """Send items until there are no more, or none can be had."""
        try:
            await answered.wait()
            while not self.is_dropped:
                work = Work(self._limits.turns, self.caller)
                item = await work.run(anext(items))
                with work.step():
                    self._send(jsonrpc.dumps(jsonrpc.notification(notification, key, item)))
                del item  # a megabyte, perhaps, until the next one comes
        except StopAsyncIteration:
            pass
        except LaggedError:  # it would wait for ever for what it missed
            self._limits.held.drop(self)
        except JsonRpcError as error:
            _LOG.debug("subscription %s ended: %s", notification, error)
        except Exception:  # noqa: BLE001  # a fault of our own, whatever it is, ends here
            _LOG.exception("subscription %s failed", notification)

    def _forget(self, key: str) -> None:
        if self.subscriptions.pop(key, None) is None:
            return
        self._give_back()
        kept = self._kept.pop(key)
        if not self.is_dropped:
            self._limits.held.change(self, -kept)

    def _give_back(self) -> None:
        self._limits.subscriptions.give_back(self._subscribed)
        self._subscribed -= 1

    def _send(self, text: str) -> None:
        """Queue a message; a client that does not read is dropped."""
        if self.is_dropped:
            return
        # A client that subscribes to much and reads nothing would else have this process keep it all.
        if self._outbox_bytes + len(text) > OUTBOX_BYTES_MAX or self.outbox.full():
            self._limits.held.drop(self)
            return
        self._outbox_bytes += len(text)
        self.outbox.put_nowait(text)
        self._limits.held.change(self, len(text))

    async def _write(self) -> None:
        try:
            while True:
                text = await self.outbox.get()
                await self._socket.send_str(text)
                self._outbox_bytes -= len(text)
                if not self.is_dropped:
                    self._limits.held.change(self, -len(text))
        except ConnectionError:  # it left
            self.drop()
            with contextlib.suppress(ConnectionError):
                await self._socket.close(code=WSCloseCode.GOING_AWAY)


def _size(value: object) -> int:
    """What a parameter takes in memory as long as its subscription lasts, or a little more."""
    if isinstance(value, list):
        return ITEM_BYTES + sum(map(_size, value))
    return ITEM_BYTES + (len(value) if isinstance(value, bytes | str) else 0)
