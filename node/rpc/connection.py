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
    kept_shares: SubscriptionShares  # bytes of watched parameters
    turns: Turns = field(default_factory=Turns)
    held_bytes: HeldBytes = field(default_factory=HeldBytes)


@dataclass(slots=True)
class Subscribed:
    """One subscription: its task (None if its items are shared), and the size of its parameters."""

    parameter_bytes: int  # bytes of its parameters
    task: asyncio.Task[None] | None = None


class ClientConnection:
    """One client's connection; the module's docstring states its invariants."""

    def __init__(
        self, socket: web.WebSocketResponse, caller: RpcCaller, shared_limits: SharedLimits, answer_message: Answer
    ) -> None:
        """Create it without running tasks; `answer_message` returns the text of the response to a message."""
        self.caller = caller
        self.subscriptions: dict[str, Subscribed] = {}
        self.outbox: asyncio.Queue[str] = asyncio.Queue(OUTBOX_ITEMS)
        self.is_dropped = False
        self.heard_at = time.monotonic()
        self.has_asked = False
        self._socket = socket
        self._shared_limits = shared_limits
        self._answer_message = answer_message
        self._outbox_bytes = 0
        self._subscription_count = 0  # those in `subscriptions`, and those that are starting
        self._parameter_bytes = 0  # bytes of their parameters
        self._at_long_item = asyncio.Lock()
        self._feeder = Feeder(shared_limits.turns, caller, self._queue_message, self._drop_lagging)
        self._has_room = asyncio.Event()  # set while no message waits to be sent
        self._has_room.set()
        self._is_aborted = False  # by this side, at any point
        self._running_task: asyncio.Task[Any] | None = None
        self._answers_queued = asyncio.Event()  # set when the answers to the last message are queued

    @property
    def network(self) -> str | None:
        """The network to which this WebSocket counts."""
        return self.caller.network

    @property
    def is_idle(self) -> bool:
        """True if it yields to a new one: it has no subscription, and was silent for long."""
        patience_seconds = SILENT_SECONDS if self.has_asked else UNUSED_SECONDS
        return not self.subscriptions and time.monotonic() - self.heard_at >= patience_seconds

    @property
    def active_at(self) -> float:
        """The time of its last message; connections that never sent a request come first."""
        return self.heard_at if self.has_asked else self.heard_at - SILENT_SECONDS

    async def run(self) -> None:
        """Answer messages until either side closes; then end every subscription."""
        self._running_task = asyncio.current_task()
        writer_tasks = [asyncio.create_task(self._write_outbox()), asyncio.create_task(self._feed_shared())]
        try:
            with contextlib.suppress(ConnectionError):  # it left while a pong was on its way
                async for message in self._socket:
                    if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                        answering = self._take_message(
                            message.data.encode() if isinstance(message.data, str) else message.data
                        )
                        del message  # or each idle client would keep its last message, up to a megabyte
                        await answering
                    elif message.type in {WSMsgType.PING, WSMsgType.PONG}:
                        # In turn: thousands of the smallest ones can arrive at once.
                        await Work(self._shared_limits.turns, self.caller).run(self._answer_ping(message))
        except asyncio.CancelledError as cancellation:
            # A task keeps the exception that ended it, and the exception every frame with its data: half a megabyte for
            # each of 350 disconnected clients, until the garbage collector ran.
            traceback.clear_frames(cancellation.__traceback__)
            raise
        finally:
            self.is_dropped = True
            self._running_task = None
            self._shared_limits.held_bytes.forget(self)
            await _cancel_tasks(writer_tasks)
            for subscription_id in [
                subscription_id
                for subscription_id, subscription in self.subscriptions.items()
                if subscription.task is None
            ]:
                self._forget_subscription(subscription_id)
            await _cancel_tasks(
                [subscription.task for subscription in self.subscriptions.values() if subscription.task is not None]
            )
            if self._is_aborted:
                # Otherwise its heartbeat is sent half a minute later and keeps the received data: 260 MB of 400 such
                # clients.
                await self._socket.close(drain=False)

    async def subscribe(self, method: RpcMethod, handler_arguments: list[Any]) -> str:
        """Start a subscription, and return its id; the answer with the id precedes its first item."""
        subscription = Subscribed(kept_bytes(handler_arguments))
        self._take_place(subscription)
        try:
            items = method.handler(*handler_arguments)
            if inspect.isawaitable(items):  # it may refuse, and then there is no subscription
                items = await items
        except BaseException:
            self._return_place(subscription)
            raise
        subscription_id, notification = secrets.token_urlsafe(12), str(method.notification)
        self.subscriptions[subscription_id] = subscription
        # Counted while it lasts: 150 subscriptions to a thousand long keys each took 280 MB that no limit counted.
        self._shared_limits.held_bytes.change(self, subscription.parameter_bytes)
        if isinstance(items, SharedItems):
            self._feeder.follow(subscription_id, notification, items)
        else:
            subscription.task = asyncio.create_task(
                self._feed_items(subscription_id, notification, items, self._answers_queued)
            )
            subscription.task.add_done_callback(lambda _: self._forget_subscription(subscription_id))
        return subscription_id

    def unsubscribe(self, params: list[Json] | dict[str, Json]) -> bool:
        """End the named subscription; return whether there was one."""
        subscription_id = next(iter(params.values() if isinstance(params, dict) else params), None)
        subscription = self.subscriptions.get(subscription_id) if isinstance(subscription_id, str) else None
        if subscription is None:
            return False
        if subscription.task is not None:
            subscription.task.cancel()
        self._forget_subscription(str(subscription_id))
        return True

    def drop(self) -> None:
        """End it at once: queued messages are not sent, and running work is not finished."""
        self.is_dropped = self._is_aborted = True
        if self._running_task is not None:
            self._running_task.cancel()  # which also ends its subscriptions, some at a time
        while not self.outbox.empty():
            self.outbox.get_nowait()
        transport = self._socket._req.transport if self._socket._req is not None else None  # noqa: SLF001 - no public way to abort
        if transport is not None:
            transport.abort()

    async def _answer_ping(self, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            await self._socket.pong(message.data)

    async def _take_message(self, data: bytes) -> None:
        self.heard_at, self.has_asked = time.monotonic(), True
        self._answers_queued = asyncio.Event()
        text = await self._answer_message(data, self)
        if text is not None:
            self._queue_message(text)
        self._answers_queued.set()
        self._feeder.begin()

    async def _feed_items(
        self,
        subscription_id: str,
        notification: str,
        items: AsyncIterator[Json],
        answers_queued: asyncio.Event,
    ) -> None:
        """Send items until the end of the iterator, or an error."""
        try:
            await answers_queued.wait()
            while not self.is_dropped:
                await self._has_room.wait()
                work = Work(self._shared_limits.turns, self.caller)
                item = await work.run(anext(items))
                if isinstance(item, LongItem):
                    await self._send_long(subscription_id, notification, item)
                else:
                    with work.step():
                        self._queue_message(jsonrpc.dumps(jsonrpc.notification(notification, subscription_id, item)))
                del item  # perhaps a megabyte, not to be kept until the next one
        except StopAsyncIteration:
            pass
        except LaggedError:  # its client would wait for the missed items for ever
            self._drop_lagging()
        except JsonRpcError as error:
            _LOG.debug("subscription %s ended: %s", notification, error)
        except Exception:  # noqa: BLE001  # any fault of our own ends here
            _LOG.exception("subscription %s failed", notification)
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    async def _send_long(self, subscription_id: str, notification: str, long_item: LongItem) -> None:
        # One at a time: sixteen items of half a megabyte, computed at once, waited for one client together.
        async with self._at_long_item:
            await self._has_room.wait()
            work = Work(self._shared_limits.turns, self.caller)
            text = await work.run(long_item.text(self._change_held))
            if text is not None:
                with work.step():
                    self._queue_message(
                        jsonrpc.bounded(jsonrpc.notification_text(notification, subscription_id, text), None)
                    )

    def _change_held(self, delta_bytes: int) -> None:
        if not self.is_dropped:
            self._shared_limits.held_bytes.change(self, delta_bytes)

    async def _feed_shared(self) -> None:
        """Send the items that all subscribers share."""
        try:
            await self._feeder.run(self._has_room)
        except Exception:  # noqa: BLE001  # as above
            _LOG.exception("a subscription failed")
            self._drop_lagging()

    def _drop_lagging(self) -> None:
        if not self.is_dropped:
            self._shared_limits.held_bytes.drop(self)

    def _forget_subscription(self, subscription_id: str) -> None:
        subscription = self.subscriptions.pop(subscription_id, None)
        if subscription is None:
            return
        self._return_place(subscription)
        if subscription.task is None:
            self._feeder.end(subscription_id)
        self._change_held(-subscription.parameter_bytes)

    def _take_place(self, subscription: Subscribed) -> None:
        """Raise `JsonRpcError` if there is no room for a subscription."""
        self._shared_limits.subscriptions.take(self._subscription_count)
        self._subscription_count += 1
        try:
            self._shared_limits.kept_shares.take(self._parameter_bytes, subscription.parameter_bytes)
        except JsonRpcError:
            self._shared_limits.subscriptions.give_back(self._subscription_count)
            self._subscription_count -= 1
            raise
        self._parameter_bytes += subscription.parameter_bytes

    def _return_place(self, subscription: Subscribed) -> None:
        self._shared_limits.subscriptions.give_back(self._subscription_count)
        self._shared_limits.kept_shares.give_back(self._parameter_bytes, subscription.parameter_bytes)
        self._subscription_count -= 1
        self._parameter_bytes -= subscription.parameter_bytes

    def _queue_message(self, text: str) -> None:
        """Queue a message; a client that does not read is dropped."""
        if self.is_dropped:
            return
        # Otherwise a client with many subscriptions that reads nothing would fill this process's memory.
        if self._outbox_bytes + len(text) > OUTBOX_BYTES_MAX or self.outbox.full():
            self._shared_limits.held_bytes.drop(self)
            return
        self._outbox_bytes += len(text)
        self.outbox.put_nowait(text)
        self._has_room.clear()
        self._shared_limits.held_bytes.change(self, len(text))

    async def _send_all(self, texts: list[str]) -> None:
        for text in texts:
            await self._socket.send_str(text)

    async def _write_outbox(self) -> None:
        try:
            while True:
                if self.outbox.empty():
                    self._has_room.set()
                texts = [await self.outbox.get()]
                sent_bytes = len(texts[0])
                while len(texts) < PIECE_ITEMS and sent_bytes < PIECE_BYTES and not self.outbox.empty():
                    texts.append(self.outbox.get_nowait())
                    sent_bytes += len(texts[-1])
                # In turn, too: sending a notification takes longer than computing it.
                await Work(self._shared_limits.turns, self.caller).run(self._send_all(texts))
                self._outbox_bytes -= sent_bytes
                self._change_held(-sent_bytes)
        except (ConnectionError, JsonRpcError):  # it left, or sending took a second of processor time
            self.drop()


async def _cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks, some in each round of the loop."""
    for start in range(0, len(tasks), ENDED_AT_ONCE):
        ended_tasks = tasks[start : start + ENDED_AT_ONCE]
        for task in ended_tasks:
            task.cancel()
        await asyncio.gather(*ended_tasks, return_exceptions=True)
