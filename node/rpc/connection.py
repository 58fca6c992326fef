"""One WebSocket: its reader, its writer, its subscriptions.

Invariants:

* Its outbox is bounded in bytes and items, alone and together with all others.
* A dropped connection is dead at once: no message is queued, computed or logged for it.
* No item is computed for a client that does not read the earlier ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import secrets
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMessage, WSMsgType, web

from http_server.turns import Turns
from node.rpc import jsonrpc
from node.rpc.callers import RpcCaller
from node.rpc.held_bytes import HeldBytes
from node.rpc.jsonrpc import Json, JsonRpcError
from node.rpc.registry import RpcMethod
from node.rpc.subscriptions.broadcast import LaggedError
from node.rpc.subscriptions.feeder import PIECE_BYTES, PIECE_ITEMS, Feeder
from node.rpc.subscriptions.shared_items import LongItem, SharedItems
from node.rpc.subscriptions.shares import SubscriptionShares, kept_bytes
from node.rpc.work import Work

SILENT_SECONDS = 60.0  # silence after which a WebSocket without subscriptions yields to a new one if there are too many
UNUSED_SECONDS = 5.0  # the same for one that has never sent a request
OUTBOX_ITEMS = 1024
OUTBOX_BYTES_MAX = 4 * jsonrpc.MAX_RESPONSE_BYTES
ENDED_AT_ONCE = 32
"""Tasks in one round of the loop: 2,500 subscriptions of 25 connections that ended together took 160 ms."""
_LOG = logging.getLogger(__name__)

Answer = Callable[[bytes, "ClientConnection"], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The limits that all clients of a server share."""

    subscriptions: SubscriptionShares
    kept: SubscriptionShares  # bytes of watched parameters
    turns: Turns = field(default_factory=Turns)
    held: HeldBytes = field(default_factory=HeldBytes)


@dataclass(slots=True)
class Subscribed:
    """One subscription: its task (None if its items are shared), and the size of its parameters."""

    kept: int  # bytes of its parameters
    task: asyncio.Task[None] | None = None


class ClientConnection:
    """One client's connection; the module's docstring states its invariants."""

    def __init__(self, socket: web.WebSocketResponse, caller: RpcCaller, limits: SharedLimits, answer: Answer) -> None:
        """Create it without running tasks; `answer` returns the text of the response to a message."""
        self.caller = caller
        self.subscriptions: dict[str, Subscribed] = {}
        self.outbox: asyncio.Queue[str] = asyncio.Queue(OUTBOX_ITEMS)
        self.is_dropped = False
        self.heard_at = time.monotonic()
        self.has_asked = False
        self._socket = socket
        self._limits = limits
        self._answer = answer
        self._outbox_bytes = 0
        self._subscribed = 0  # those in `subscriptions`, and those that are starting
        self._kept = 0  # bytes of their parameters
        self._at_long_item = asyncio.Lock()
        self._feeder = Feeder(limits.turns, caller, self._send, self._lag)
        self._has_room = asyncio.Event()  # set while no message waits to be sent
        self._has_room.set()
        self._is_cut = False  # by this side, at any point
        self._runner: asyncio.Task[Any] | None = None
        self._answered = asyncio.Event()  # set when the answers to the last message are queued

    @property
    def network(self) -> str | None:
        """The network to which this WebSocket counts."""
        return self.caller.network

    @property
    def is_idle(self) -> bool:
        """True if it yields to a new one: it has no subscription, and was silent for long."""
        patience = SILENT_SECONDS if self.has_asked else UNUSED_SECONDS
        return not self.subscriptions and time.monotonic() - self.heard_at >= patience

    @property
    def active_at(self) -> float:
        """The time of its last message; connections that never sent a request come first."""
        return self.heard_at if self.has_asked else self.heard_at - SILENT_SECONDS

    async def run(self) -> None:
        """Answer messages until either side closes; then end every subscription."""
        self._runner = asyncio.current_task()
        writers = [asyncio.create_task(self._write()), asyncio.create_task(self._feed_shared())]
        try:
            with contextlib.suppress(ConnectionError):  # it left while a pong was on its way
                async for message in self._socket:
                    if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                        taken = self._take(message.data.encode() if isinstance(message.data, str) else message.data)
                        del message  # or each idle client would keep its last message, up to a megabyte
                        await taken
                    elif message.type in {WSMsgType.PING, WSMsgType.PONG}:
                        # In turn: thousands of the smallest ones can arrive at once.
                        await Work(self._limits.turns, self.caller).run(self._pong(message))
        except asyncio.CancelledError as cut:
            # A task keeps the exception that ended it, and the exception every frame with its data: half a megabyte for
            # each of 350 disconnected clients, until the garbage collector ran.
            traceback.clear_frames(cut.__traceback__)
            raise
        finally:
            self.is_dropped = True
            self._runner = None
            self._limits.held.forget(self)
            await _end(writers)
            for key in [key for key, subscribed in self.subscriptions.items() if subscribed.task is None]:
                self._forget(key)
            await _end([subscribed.task for subscribed in self.subscriptions.values() if subscribed.task is not None])
            if self._is_cut:
                # Otherwise its heartbeat is sent half a minute later and keeps the received data: 260 MB of 400 such
                # clients.
                await self._socket.close(drain=False)

    async def subscribe(self, method: RpcMethod, arguments: list[Any]) -> str:
        """Start a subscription, and return its id; the answer with the id precedes its first item."""
        subscribed = Subscribed(kept_bytes(arguments))
        self._take_place(subscribed)
        try:
            items = method.handler(*arguments)
            if inspect.isawaitable(items):  # it may refuse, and then there is no subscription
                items = await items
        except BaseException:
            self._give_back(subscribed)
            raise
        key, notification = secrets.token_urlsafe(12), str(method.notification)
        self.subscriptions[key] = subscribed
        # Counted while it lasts: 150 subscriptions to a thousand long keys each took 280 MB that no limit counted.
        self._limits.held.change(self, subscribed.kept)
        if isinstance(items, SharedItems):
            self._feeder.follow(key, notification, items)
        else:
            subscribed.task = asyncio.create_task(self._feed(key, notification, items, self._answered))
            subscribed.task.add_done_callback(lambda _: self._forget(key))
        return key

    def unsubscribe(self, params: list[Json] | dict[str, Json]) -> bool:
        """End the named subscription; return whether there was one."""
        key = next(iter(params.values() if isinstance(params, dict) else params), None)
        subscribed = self.subscriptions.get(key) if isinstance(key, str) else None
        if subscribed is None:
            return False
        if subscribed.task is not None:
            subscribed.task.cancel()
        self._forget(str(key))
        return True

    def drop(self) -> None:
        """End it at once: queued messages are not sent, and running work is not finished."""
        self.is_dropped = self._is_cut = True
        if self._runner is not None:
            self._runner.cancel()  # which also ends its subscriptions, some at a time
        while not self.outbox.empty():
            self.outbox.get_nowait()
        transport = self._socket._req.transport if self._socket._req is not None else None  # noqa: SLF001 - no public way to abort
        if transport is not None:
            transport.abort()

    async def _pong(self, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            await self._socket.pong(message.data)

    async def _take(self, data: bytes) -> None:
        self.heard_at, self.has_asked = time.monotonic(), True
        self._answered = asyncio.Event()
        answer = await self._answer(data, self)
        if answer is not None:
            self._send(answer)
        self._answered.set()
        self._feeder.begin()

    async def _feed(self, key: str, notification: str, items: AsyncIterator[Json], answered: asyncio.Event) -> None:
        """Send items until the end of the iterator, or an error."""
        try:
            await answered.wait()
            while not self.is_dropped:
                await self._has_room.wait()
                work = Work(self._limits.turns, self.caller)
                item = await work.run(anext(items))
                if isinstance(item, LongItem):
                    await self._send_long(key, notification, item)
                else:
                    with work.step():
                        self._send(jsonrpc.dumps(jsonrpc.notification(notification, key, item)))
                del item  # perhaps a megabyte, not to be kept until the next one
        except StopAsyncIteration:
            pass
        except LaggedError:  # its client would wait for the missed items for ever
            self._lag()
        except JsonRpcError as error:
            _LOG.debug("subscription %s ended: %s", notification, error)
        except Exception:  # noqa: BLE001  # any fault of our own ends here
            _LOG.exception("subscription %s failed", notification)
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    async def _send_long(self, key: str, notification: str, item: LongItem) -> None:
        # One at a time: sixteen items of half a megabyte, computed at once, waited for one client together.
        async with self._at_long_item:
            await self._has_room.wait()
            work = Work(self._limits.turns, self.caller)
            text = await work.run(item.text(self._hold))
            if text is not None:
                with work.step():
                    self._send(jsonrpc.bounded(jsonrpc.notification_text(notification, key, text), None))

    def _hold(self, size: int) -> None:
        if not self.is_dropped:
            self._limits.held.change(self, size)

    async def _feed_shared(self) -> None:
        """Send the items that all subscribers share."""
        try:
            await self._feeder.run(self._has_room)
        except Exception:  # noqa: BLE001  # as above
            _LOG.exception("a subscription failed")
            self._lag()

    def _lag(self) -> None:
        if not self.is_dropped:
            self._limits.held.drop(self)

    def _forget(self, key: str) -> None:
        subscribed = self.subscriptions.pop(key, None)
        if subscribed is None:
            return
        self._give_back(subscribed)
        if subscribed.task is None:
            self._feeder.end(key)
        self._hold(-subscribed.kept)

    def _take_place(self, subscribed: Subscribed) -> None:
        """Raise `JsonRpcError` if there is no room for a subscription."""
        self._limits.subscriptions.take(self._subscribed)
        self._subscribed += 1
        try:
            self._limits.kept.take(self._kept, subscribed.kept)
        except JsonRpcError:
            self._limits.subscriptions.give_back(self._subscribed)
            self._subscribed -= 1
            raise
        self._kept += subscribed.kept

    def _give_back(self, subscribed: Subscribed) -> None:
        self._limits.subscriptions.give_back(self._subscribed)
        self._limits.kept.give_back(self._kept, subscribed.kept)
        self._subscribed -= 1
        self._kept -= subscribed.kept

    def _send(self, text: str) -> None:
        """Queue a message; a client that does not read is dropped."""
        if self.is_dropped:
            return
        # Otherwise a client with many subscriptions that reads nothing would fill this process's memory.
        if self._outbox_bytes + len(text) > OUTBOX_BYTES_MAX or self.outbox.full():
            self._limits.held.drop(self)
            return
        self._outbox_bytes += len(text)
        self.outbox.put_nowait(text)
        self._has_room.clear()
        self._limits.held.change(self, len(text))

    async def _send_all(self, texts: list[str]) -> None:
        for text in texts:
            await self._socket.send_str(text)

    async def _write(self) -> None:
        try:
            while True:
                if self.outbox.empty():
                    self._has_room.set()
                texts = [await self.outbox.get()]
                size = len(texts[0])
                while len(texts) < PIECE_ITEMS and size < PIECE_BYTES and not self.outbox.empty():
                    texts.append(self.outbox.get_nowait())
                    size += len(texts[-1])
                # In turn, too: sending a notification takes longer than computing it.
                await Work(self._limits.turns, self.caller).run(self._send_all(texts))
                self._outbox_bytes -= size
                self._hold(-size)
        except (ConnectionError, JsonRpcError):  # it left, or sending took a second of processor time
            self.drop()


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks, some in each round of the loop."""
    for start in range(0, len(tasks), ENDED_AT_ONCE):
        part = tasks[start : start + ENDED_AT_ONCE]
        for task in part:
            task.cancel()
        await asyncio.gather(*part, return_exceptions=True)
