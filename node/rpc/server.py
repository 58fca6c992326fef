"""HTTP POST and WebSocket on one port, in front of a `Registry`.

Invariant: the server judges headers before any other work, and bodies before it processes them. Every call runs in turn
and is timed, over HTTP and WebSocket alike. A client's data affects only its own connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from aiohttp import web

from http_server.door import DoorLimits
from http_server.places import NoPlaceError, PlaceLimits, who_yields
from http_server.server import HttpServer, body_of
from node.feed.client import RequestRefusedError
from node.rpc import jsonrpc
from node.rpc.access import DEFAULT_ORIGINS, Access
from node.rpc.callers import Callers, RpcCaller
from node.rpc.connection import ClientConnection, SharedLimits
from node.rpc.freed_memory import give_back_freed, release_free_memory
from node.rpc.jsonrpc import (
    BATCH_RESPONSE_TOO_LARGE,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Json,
    JsonRpcError,
    RequestLimits,
    RpcRequest,
)
from node.rpc.methods.author import json_error
from node.rpc.questions import ASKING
from node.rpc.registry import Registry, RpcMethod
from node.rpc.subscriptions.shares import KEPT_BYTES_EACH, KEPT_BYTES_MAX, SubscriptionShares
from node.rpc.work import Work

log = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 1024  # on one connection
CALLS_PER_MINUTE = 120_000  # of one caller
HEARTBEAT_SECONDS = 30.0
IDLE_SECONDS = 30.0  # of a connection without a request; a request's head has to be complete within it
POSTING_MAX = 400  # connections beside the WebSockets
ANSWER_SECONDS = 30.0  # the time in which a client has to read the answer to a POST
SENT_BYTES = 256 * 1024  # of an answer to a POST at a time
ADDRESS_PART = 4  # one address of another machine may have a fourth of the connections, and of the WebSockets
LOCAL_PART = 8  # an eighth of both is reserved for this machine: the provider beside the node, its owner's wallet
PARSED_BYTES = 24  # of memory for a byte of JSON, in the worst case: "[],"
_TOO_LARGE = jsonrpc.exceeded(BATCH_RESPONSE_TOO_LARGE, "The batch response was too large", jsonrpc.MAX_RESPONSE_BYTES)


# The bodies of POST requests: each is read whole within a time, and their number is bounded.
# Invariant: if too many are being read, the oldest is given up, since an honest one takes milliseconds. Slow senders
# thus displace only each other.
BODY_SECONDS = 10.0
BODIES_MAX = 128


# Consecutive calls of a batch that can be answered together: one question to the node instead of hundreds.
# Invariant: the calls of a batch are answered in their order, and each gets the answer that it would get alone.
PIECE = 64
"""Calls between two pauses: 500 in one step took 30 ms on a busy machine, and all other callers waited."""


def runs(items: Sequence[RpcRequest | JsonRpcError], registry: Registry) -> Iterator[list[RpcRequest | JsonRpcError]]:
    """Yield the batch in pieces; a piece of several items has calls of one method that answers several at once."""

    def together(item: RpcRequest | JsonRpcError) -> str | None:
        method = registry.methods.get(item.method) if isinstance(item, RpcRequest) else None
        return method.name if method is not None and method.batch is not None else None

    for method_name, group in groupby(items, together):
        if method_name is None:
            yield from ([item] for item in group)
        else:
            yield list(group)


async def answers(
    method: RpcMethod, calls: Sequence[RpcRequest], before_each: Callable[[], None]
) -> list[Json | JsonRpcError]:
    """Return the outcomes of the calls of one run; `before_each` may refuse a call by raising `JsonRpcError`."""
    assert method.batch is not None
    outcomes: list[Json | JsonRpcError] = []
    asked_places: list[int] = []
    arguments_by_call: list[list[object]] = []
    for call_place, call in enumerate(calls):
        outcomes.append(None)
        if call_place % PIECE == PIECE - 1:
            await asyncio.sleep(0)  # a turn for others
        try:
            before_each()
            arguments_by_call.append(method.arguments(call.params))
            asked_places.append(call_place)
        except JsonRpcError as error:
            # Without its frames, which hold all outcomes including this one: such cycles of 15,000 refusals waited for
            # the garbage collector, which then took 140 ms.
            outcomes[call_place] = error.with_traceback(None)
    if asked_places:
        for call_place, outcome in zip(asked_places, await method.batch(arguments_by_call), strict=True):
            outcomes[call_place] = outcome
    return outcomes


class Bodies:
    """The bodies that are being read."""

    def __init__(self) -> None:
        """Create it empty."""
        self._reading_tasks: dict[asyncio.Task[bytes], None] = {}  # oldest first

    async def read(self, request: web.Request, limit_bytes: int) -> bytes:
        """Return the body.

        Raise 413 if it is too long, 400 if it comes in tiny chunks, 408 if it is slow or displaced by later ones.
        """
        if request.content.is_eof():  # it is complete: a task and a timer would cost as much as the answer
            return await body_of(request, limit_bytes)
        if len(self._reading_tasks) >= BODIES_MAX:
            oldest_task = next(iter(self._reading_tasks))
            del self._reading_tasks[oldest_task]
            oldest_task.cancel()
        reading_task = asyncio.create_task(body_of(request, limit_bytes))
        self._reading_tasks[reading_task] = None
        try:
            await asyncio.wait([reading_task], timeout=BODY_SECONDS)
        finally:
            self._reading_tasks.pop(reading_task, None)
            if not reading_task.done():
                reading_task.cancel()
        if reading_task.cancelled() or not reading_task.done():
            raise web.HTTPRequestTimeout(text=f"the body must arrive within {BODY_SECONDS:.0f} s")
        return reading_task.result()


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The operator's settings; the defaults suit a node on its owner's machine."""

    host: str = "127.0.0.1"
    port: int = 9944
    max_connections: int = 100
    max_subscriptions: int = MAX_SUBSCRIPTIONS
    calls_per_minute: int = CALLS_PER_MINUTE
    cors: tuple[str, ...] = DEFAULT_ORIGINS
    unsafe_allowed: bool = False
    limits: RequestLimits = field(default_factory=RequestLimits)


@dataclass(eq=False, slots=True)
class PostedRequest:
    """A POST request as a holder of memory."""

    transport: asyncio.BaseTransport | None
    task: asyncio.Task[object] | None = None

    def drop(self) -> None:
        """End its connection, and all work for it."""
        if self.task is not None:
            self.task.cancel()
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()


class Server:
    """A server of a registry until cancelled."""

    def __init__(self, registry: Registry, options: ServerOptions) -> None:
        """Create it without opening a port."""
        self.registry = registry
        self.options = options
        self.connections: set[ClientConnection] = set()
        subscription_shares = SubscriptionShares(options.max_subscriptions, options.max_connections)
        kept_byte_shares = SubscriptionShares(
            KEPT_BYTES_EACH, options.max_connections, KEPT_BYTES_MAX, "bytes of watched keys"
        )
        self.shared = SharedLimits(subscription_shares, kept_byte_shares)
        self._access_rules = Access(options.host, options.cors)
        self._known_callers = Callers(options.calls_per_minute)
        self._post_bodies = Bodies()
        self._sockets_limits = _place_limits(options.max_connections)
        self.http = HttpServer(
            self._application(),
            DoorLimits(_place_limits(options.max_connections + POSTING_MAX), IDLE_SECONDS),
            IDLE_SECONDS,
            self.shared.turns,
            self._known_callers.of,
            is_busy_by_request=True,
        )

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Listen and yield the port. Raise `OSError` if the port is in use."""
        try:
            bound_port = await self.http.listen(self.options.host, self.options.port)
            giving_back_task = asyncio.create_task(give_back_freed(self.shared.held_bytes, release_free_memory))
            try:
                yield bound_port
            finally:
                giving_back_task.cancel()
        finally:
            await self.http.close()

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("POST", "/", self._on_post)
        application.router.add_route("OPTIONS", "/", self._on_options)
        application.router.add_route("GET", "/", self._on_get)
        application.router.add_route("GET", "/health", self._on_health)
        application.router.add_route("GET", "/health/readiness", self._on_readiness)
        return application

    async def _on_post(self, request: web.Request) -> web.StreamResponse:
        # Before any other work: otherwise a web page could cause calls, although it may not read their answers.
        self._access_rules.check_post(request)
        body = await self._post_bodies.read(request, self.options.limits.request_bytes)
        posted_request = PostedRequest(request.transport, asyncio.current_task())
        work, text = Work(self.shared.turns, self._known_callers.of(request.transport)), ""
        try:
            self.shared.held_bytes.change(posted_request, PARSED_BYTES * len(body))
            text = await self._answer_body(body, None, work) or ""
            self.shared.held_bytes.change(posted_request, len(text) - PARSED_BYTES * len(body))
            return await self._send_answer(request, text)
        except (ConnectionError, asyncio.CancelledError) as cut_error:
            # As in `ClientConnection.run`: each of 50 clients a second that leave would keep its answer three times.
            traceback.clear_frames(cut_error.__traceback__)
            del body, text
            raise
        finally:
            self.shared.held_bytes.forget(posted_request)

    async def _send_answer(self, request: web.Request, text: str) -> web.StreamResponse:
        """Send an answer in pieces, so that no copy waits for a slow reader; it counts as held meanwhile."""
        headers = self._access_rules.headers(request)
        response: web.StreamResponse
        if len(text) <= SENT_BYTES:  # head and body in one system call, which costs as much as the rest
            response, text = web.Response(body=text.encode("ascii"), headers=headers), ""
        else:
            response = web.StreamResponse(headers=headers)
            response.content_length = len(text)
        response.content_type, response.charset = "application/json", "utf-8"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await response.prepare(request)
                for start in range(0, len(text), SENT_BYTES):
                    await response.write(text[start : start + SENT_BYTES].encode("ascii"))
                await response.write_eof()
        except TimeoutError:
            PostedRequest(request.transport).drop()
        return response

    async def _on_options(self, request: web.Request) -> web.Response:
        self._access_rules.check(request)
        return web.Response(headers=self._access_rules.headers(request))

    async def _on_health(self, request: web.Request) -> web.Response:
        self._access_rules.check(request)
        answer = await self._call_method(RpcRequest("system_health", [], 0), None)
        return web.json_response(answer)

    async def _on_readiness(self, request: web.Request) -> web.Response:
        """Return 200 for a useful node: it has peers, if it should, and is not syncing."""
        self._access_rules.check(request)
        answer = await self._call_method(RpcRequest("system_health", [], 0), None)
        is_ready = not answer["isSyncing"] and (answer["peers"] > 0 or not answer["shouldHavePeers"])
        return web.json_response(answer, status=200 if is_ready else 500)

    async def _on_get(self, request: web.Request) -> web.StreamResponse:
        self._access_rules.check(request)
        caller = self._known_callers.of(request.transport)
        self._make_room(caller)
        # No compression: its state takes more memory than the rest of a connection.
        request_bytes_max = self.options.limits.request_bytes
        socket = web.WebSocketResponse(
            max_msg_size=request_bytes_max, heartbeat=HEARTBEAT_SECONDS, compress=False, autoping=False
        )
        connection = ClientConnection(socket, caller, self.shared, self._answer_message)
        self.connections.add(connection)
        try:
            await socket.prepare(request)
            await connection.run()
        finally:
            self.connections.discard(connection)
        return socket

    def _make_room(self, caller: RpcCaller) -> None:
        """Make room for a WebSocket. Raise 503 if the server is full and no connection yields."""
        try:
            yielding = who_yields(self.connections, caller.network, self._sockets_limits)
        except NoPlaceError:
            raise web.HTTPServiceUnavailable(text="too many connections") from None
        if yielding is not None:
            self.connections.discard(yielding)
            self.shared.held_bytes.drop(yielding)

    async def _answer_message(self, data: bytes, connection: ClientConnection) -> str | None:
        """Return the text of the response to a WebSocket message."""
        held = self.shared.held_bytes
        held.change(connection, PARSED_BYTES * len(data))
        try:
            return await self._answer_body(data, connection, Work(self.shared.turns, connection.caller))
        finally:
            if not connection.is_dropped:
                held.change(connection, -PARSED_BYTES * len(data))

    async def _answer_body(self, data: bytes, connection: ClientConnection | None, work: Work) -> str | None:
        """Return the text of the response to one message; None if it held only notifications."""
        ASKING.set(work.caller)
        await self.shared.turns.take(work.caller)
        try:
            with work.step():
                parsed = jsonrpc.parse(data, self.options.limits)
        except JsonRpcError as error:
            return jsonrpc.dumps(jsonrpc.failure(None, error))
        if not isinstance(parsed, RpcRequest):
            return await self._answer_batch(parsed, connection, work)
        response = await self._answer_one(parsed, connection, work)
        if response is None:
            return None
        with work.step():
            return jsonrpc.dumps(response)

    async def _answer_batch(
        self, items: list[RpcRequest | JsonRpcError], connection: ClientConnection | None, work: Work
    ) -> str | None:
        """Return the answers in order, within one response; the calls after the first answer beyond it fail."""
        texts: list[str] = []
        remaining_bytes = (
            jsonrpc.MAX_RESPONSE_BYTES
        )  # of all answers together: 500 answers of the greatest length would be 5 GB
        for run in runs(items, self.registry):
            run_answers = await self._answer_run(run, connection, work, has_room=remaining_bytes >= 0)
            for answer_number, answer in enumerate(run_answers, 1):
                if answer_number % PIECE == 0:
                    await self.shared.turns.take(work.caller)
                with work.step():
                    text = jsonrpc.dumps(answer)
                remaining_bytes -= len(text)
                texts.append(text if remaining_bytes >= 0 else jsonrpc.dumps(jsonrpc.failure(answer["id"], _TOO_LARGE)))
        if not texts:
            return None
        # Brackets first: each copy of the whole, perhaps ten megabytes, delays all clients by milliseconds.
        texts[0] = f"[{texts[0]}"
        texts[-1] += "]"
        return ",".join(texts)

    async def _answer_run(
        self,
        run: list[RpcRequest | JsonRpcError],
        connection: ClientConnection | None,
        work: Work,
        *,
        has_room: bool,
    ) -> list[Json]:
        """Return the answers to one item of a batch, or to several that are answered together."""
        calls = [item for item in run if isinstance(item, RpcRequest)]
        if calls and not has_room:
            return [jsonrpc.failure(call.id, _TOO_LARGE) for call in calls if not call.is_notification]
        if len(run) == 1:
            single_answer = await self._answer_one(run[0], connection, work)
            return [] if single_answer is None else [single_answer]

        def admit() -> None:
            self._known_callers.take_call(work.caller)
            work.require_time()

        outcomes: list[Json | JsonRpcError]
        try:
            method = self.registry.find(calls[0].method, unsafe_allowed=self.options.unsafe_allowed)
            outcomes = await work.run(answers(method, calls, admit))
        except JsonRpcError as error:
            outcomes = [error.with_traceback(None)] * len(calls)
        except ConnectionError:  # the node ends, and this process soon after
            outcomes = [JsonRpcError(INTERNAL_ERROR, "Internal error")] * len(calls)
        except Exception:
            log.exception("%s failed", calls[0].method)
            outcomes = [JsonRpcError(INTERNAL_ERROR, "Internal error")] * len(calls)
        return [
            jsonrpc.failure(call.id, outcome) if isinstance(outcome, JsonRpcError) else jsonrpc.result(call.id, outcome)
            for call, outcome in zip(calls, outcomes, strict=True)
            if not call.is_notification
        ]

    async def _answer_one(
        self, item: RpcRequest | JsonRpcError, connection: ClientConnection | None, work: Work
    ) -> Json | None:
        if isinstance(item, JsonRpcError):
            return jsonrpc.failure(None, item)
        try:
            self._known_callers.take_call(work.caller)
            work.require_time()
            response = jsonrpc.result(item.id, await work.run(self._call_method(item, connection)))
        except JsonRpcError as error:
            response = jsonrpc.failure(item.id, error)
        except RequestRefusedError as error:  # by the node
            response = jsonrpc.failure(item.id, json_error(error))
        except ConnectionError:  # the node ends, and this process soon after
            response = jsonrpc.failure(item.id, JsonRpcError(INTERNAL_ERROR, "Internal error"))
        except Exception:
            log.exception("%s failed", item.method)
            response = jsonrpc.failure(item.id, JsonRpcError(INTERNAL_ERROR, "Internal error"))
        return None if item.is_notification else response

    async def _call_method(self, request: RpcRequest, connection: ClientConnection | None) -> Json:
        if request.method in self.registry.unsubscribers:
            return connection is not None and connection.unsubscribe(request.params)
        method = self.registry.find(request.method, unsafe_allowed=self.options.unsafe_allowed)
        arguments = method.arguments(request.params)
        if method.notification is not None:
            if connection is None:
                raise JsonRpcError(INVALID_REQUEST, "Subscriptions need a WebSocket connection")
            return await connection.subscribe(method, arguments)
        result = method.handler(*arguments)
        return await result if inspect.isawaitable(result) else result


def _place_limits(total_places: int) -> PlaceLimits:
    return PlaceLimits(total_places, max(1, total_places // ADDRESS_PART), total_places // LOCAL_PART)
