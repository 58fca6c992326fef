"""A JSON-RPC 2.0 connection to a node, over WebSocket.

Invariants: every call ends with its result, with `RpcError` (the node refused) or with `NodeUnreachableError` (the
connection broke, or the answer is malformed: `OddAnswerError`). A subscription ends in the same ways. One task reads,
and callers wait on futures. Only `RpcConnection.ask` turns an answer into a value.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import websockets
from websockets.asyncio.client import ClientConnection

from wallet.errors import CodedError, in_words, unquoted
from wallet.trust import DEFAULT_URL, socket_url

RpcJson = Any
T = TypeVar("T")

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
CONNECT_SECONDS = 10.0
CALL_SECONDS = 20.0
GOODBYE_SECONDS = 1.0
SUBSCRIPTION_ITEMS = 4096
TOO_MANY = frozenset({429, 503})
"""HTTP statuses with which a full server refuses clients."""


class NodeUnreachableError(CodedError, ConnectionError):
    """No node answers at this address, or the connection to it broke."""


class NodeRefusesError(NodeUnreachableError):
    """A node that refuses our connection."""

    def __init__(self, url: str, status: int) -> None:
        """`status` is the HTTP status."""
        refusal_reason = "has too many connections" if status in TOO_MANY else f"refuses the connection (HTTP {status})"
        super().__init__(f"the node at {url} {refusal_reason}; try again in a moment, or give another --url")
        self.status = status


class OddAnswerError(NodeUnreachableError):
    """The node's answer does not fit the request: it counts as no answer."""


REFUSAL_LENGTH_MAX = 1_000
"""Characters of a refusal that are shown."""


class RpcError(Exception):
    """The node refused a call: the three parts of a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: RpcJson = None) -> None:
        """Keep the parts; the text names both message and data."""
        reason = unquoted(f"{message}: {data}" if data else str(message))
        # The node chooses the text: it fills no screen, and no line of it passes for one of this program.
        super().__init__(reason[:REFUSAL_LENGTH_MAX].replace("\n", " "))
        self.code = code
        self.message = message
        self.data = data


class RpcConnection:
    """One WebSocket; use `async with await RpcConnection.open(url)`."""

    def __init__(self, url: str, websocket: ClientConnection, patience: float | None = None) -> None:
        """Use `open`."""
        self.url = url
        self.patience = patience
        """Seconds that a call may take; CALL_SECONDS if it is None."""
        self._socket = websocket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[RpcJson]] = {}
        self._queues: dict[str, asyncio.Queue[RpcJson]] = {}
        self._early: dict[str, list[RpcJson]] = {}  # items that arrived before the answer to their subscription
        self._subscribing = 0
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, url: str = DEFAULT_URL, patience: float | None = None) -> Self:
        """Connect, also to an address with `http://`: one port serves both.

        Raise `NodeUnreachableError`, which names the address, if no node answers. Later calls raise it after `patience`
        seconds.
        """
        url = socket_url(url)
        try:
            websocket = await websockets.connect(
                url,
                # A dishonest node must not fill this program's memory with one message.
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=min(CONNECT_SECONDS, patience or CONNECT_SECONDS),
                close_timeout=GOODBYE_SECONDS,
                proxy=None,
            )
        except websockets.InvalidStatus as error:
            raise NodeRefusesError(url, error.response.status_code) from error
        except (OSError, websockets.WebSocketException, ValueError) as error:
            problem_text = f"no node answers at {url} ({error}). Start one, or give another --url"
            raise NodeUnreachableError(problem_text) from error
        return cls(url, websocket, patience)

    async def __aenter__(self) -> Self:
        """Return the open connection."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    @property
    def is_open(self) -> bool:
        """False after the connection ended; a new one is needed then."""
        return not self._reader.done()

    async def ask(self, read_answer: Callable[[RpcJson], T], method: str, *params: RpcJson) -> T:
        """Return the result of `method`, decoded by `read`. Raise OddAnswerError if `read` fails."""
        answer = await self.call(method, *params)
        with self.understanding(method):
            return read_answer(answer)

    @contextlib.contextmanager
    def understanding(self, method_name: str) -> Iterator[None]:
        """Turn any decoding error inside into `OddAnswerError`: the other side chose every byte of the answer."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise OddAnswerError(
                f"the answer of {self.url} to {method_name} makes no sense: {in_words(error)}. Ask another node"
            ) from error

    async def call(self, method: str, *params: RpcJson) -> RpcJson:
        """Return the undecoded result of `method`."""
        if not self.is_open:
            raise NodeUnreachableError(f"the connection to {self.url} is closed")
        request_id, patience = next(self._ids), self.patience or CALL_SECONDS
        answer_future: asyncio.Future[RpcJson] = asyncio.get_running_loop().create_future()
        answer_future.add_done_callback(
            lambda answer_done: answer_done.cancelled() or answer_done.exception()
        )  # retrieved, also without a waiter
        self._waiting[request_id] = answer_future
        try:
            await self._socket.send(
                json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            )
            async with asyncio.timeout(patience):  # wait_for of Python 3.11 may swallow a cancellation
                return await answer_future
        except websockets.ConnectionClosed as error:
            raise NodeUnreachableError(f"the connection to {self.url} broke") from error
        except TimeoutError as error:
            raise NodeUnreachableError(f"{self.url} did not answer {method} within {patience:.0f} s") from error
        finally:
            self._waiting.pop(request_id, None)

    async def subscribe(self, method: str, *params: RpcJson, unsubscribe: str) -> AsyncIterator[RpcJson]:
        """Start a subscription, and return its items until closed (`aclose` also ends it at the node)."""
        self._subscribing += 1
        try:
            # Substrate gives texts as subscription ids, and other servers numbers.
            subscription_key = str(await self.call(method, *params))
            item_queue: asyncio.Queue[RpcJson] = asyncio.Queue()
            for early_item in self._early.pop(subscription_key, []):
                item_queue.put_nowait(early_item)
            self._queues[subscription_key] = item_queue
        finally:
            self._subscribing -= 1
            if not self._subscribing:
                self._early.clear()
        return self._items(subscription_key, item_queue, unsubscribe)

    async def close(self) -> None:
        """End the connection; waiting callers get `NodeUnreachableError`."""
        await self._socket.close()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _items(
        self, subscription_key: str, item_queue: asyncio.Queue[RpcJson], unsubscribe: str
    ) -> AsyncIterator[RpcJson]:
        try:
            while True:
                item = await item_queue.get()
                if isinstance(item, NodeUnreachableError):
                    raise item
                yield item
        finally:
            self._queues.pop(subscription_key, None)
            if self.is_open:
                # A short wait only: a node that fell silent would otherwise cost a second full wait.
                with contextlib.suppress(NodeUnreachableError, RpcError, TimeoutError):
                    async with asyncio.timeout(GOODBYE_SECONDS):
                        await self.call(unsubscribe, subscription_key)

    async def _read(self) -> None:
        closing_reason = f"the connection to {self.url} broke"
        try:
            async for message_text in self._socket:
                self._take(json.loads(message_text))
        except websockets.ConnectionClosed:
            pass
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            closing_reason = f"{self.url} does not speak JSON-RPC 2.0"
        finally:
            error = NodeUnreachableError(closing_reason)
            for answer_future in self._waiting.values():
                if not answer_future.done():
                    answer_future.set_exception(error)
            for item_queue in self._queues.values():
                item_queue.put_nowait(error)

    def _take(self, message: RpcJson) -> None:
        """Pass one message to its call or subscription."""
        if "method" in message:
            params = message["params"]
            self._take_item(str(params["subscription"]), params["result"])
            return
        answer_future = self._waiting.get(message.get("id"))
        if answer_future is None or answer_future.done():
            return
        error = message.get("error")
        if error is None:
            answer_future.set_result(message.get("result"))
        else:
            answer_future.set_exception(RpcError(error.get("code", 0), error.get("message", ""), error.get("data")))

    def _take_item(self, subscription_key: str, item: RpcJson) -> None:
        item_queue = self._queues.get(subscription_key)
        if item_queue is None:
            if not self._subscribing:
                return
            # An item may overtake the answer that names its subscription.
            early_items = self._early.setdefault(subscription_key, [])
            if len(early_items) < SUBSCRIPTION_ITEMS:
                early_items.append(item)
        elif item_queue.qsize() < SUBSCRIPTION_ITEMS:
            item_queue.put_nowait(item)
        else:
            # A reader that does not keep up ends with an error: the queue must not grow for ever.
            item_queue.put_nowait(NodeUnreachableError(f"a subscription fell {SUBSCRIPTION_ITEMS} items behind"))
