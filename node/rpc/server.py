"""HTTP POST and WebSocket on one port, in front of a `Registry`.

A connection has a bounded outbox, a bounded number of subscriptions and an allowance of calls; who does not keep up is
dropped, and nothing that a client sends reaches more than its own connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from node.rpc import jsonrpc
from node.rpc.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, TOO_BUSY, Json, JsonRpcError, RpcRequest
from node.rpc.registry import Registry, RpcMethod

log = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 1024
OUTBOX_ITEMS = 1024
OUTBOX_BYTES_MAX = 4 * jsonrpc.MAX_RESPONSE_BYTES
HEARTBEAT_SECONDS = 30.0
_TOO_LARGE = JsonRpcError(INTERNAL_ERROR, f"Responses larger than {jsonrpc.MAX_RESPONSE_BYTES} bytes")
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the operator may set; the defaults suit a node on its owner's machine."""

    host: str = "127.0.0.1"
    port: int = 9944
    max_connections: int = 100
    calls_per_minute: int = 120_000
    cors: tuple[str, ...] = ()
    unsafe_allowed: bool = False


@dataclass(slots=True)
class Allowance:
    """A token bucket of calls: full at the start, refilled at the rate of the minute."""

    per_minute: int
    left: float
    at: float = field(default_factory=time.monotonic)

    def take(self) -> None:
        """Use one call up; raise when none is left."""
        now = time.monotonic()
        self.left = min(float(self.per_minute), self.left + (now - self.at) * self.per_minute / 60)
        self.at = now
        if self.left < 1:
            raise JsonRpcError(
                TOO_BUSY, "Too many requests", f"at most {self.per_minute} calls a minute on a connection"
            )
        self.left -= 1


class Server:
    """Serves a registry until cancelled."""

    def __init__(self, registry: Registry, options: ServerOptions) -> None:
        """Nothing is opened yet."""
        self.registry = registry
        self.options = options
        self.connections = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Listen; yields the port. A port in use raises `OSError`."""
        app = web.Application(client_max_size=jsonrpc.MEBIBYTE)
        app.router.add_route("POST", "/", self._on_post)
        app.router.add_route("OPTIONS", "/", self._on_options)
        app.router.add_route("GET", "/", self._on_get)
        app.router.add_route("GET", "/health", self._on_health)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
        await runner.setup()
        site = web.TCPSite(runner, self.options.host, self.options.port, reuse_address=True)
        try:
            await site.start()
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    async def _on_post(self, request: web.Request) -> web.Response:
        self._check_host(request)
        body = await request.read()
        text = await self._answer(body, None, Allowance(self.options.calls_per_minute, jsonrpc.MAX_BATCH))
        return web.Response(text=text or "", content_type="application/json", headers=self._cors(request))

    async def _on_options(self, request: web.Request) -> web.Response:
        self._check_host(request)
        return web.Response(headers=self._cors(request))

    async def _on_health(self, request: web.Request) -> web.Response:
        self._check_host(request)
        answer = await self._call(RpcRequest("system_health", [], 0), None)
        return web.json_response(answer)

    async def _on_get(self, request: web.Request) -> web.StreamResponse:
        self._check_host(request)
        self._check_origin(request)
        if self.connections >= self.options.max_connections:
            raise web.HTTPServiceUnavailable(text="too many connections")
        socket = web.WebSocketResponse(max_msg_size=jsonrpc.MEBIBYTE, heartbeat=HEARTBEAT_SECONDS)
        await socket.prepare(request)
        self.connections += 1
        try:
            await ClientConnection(self, socket).run()
        finally:
            self.connections -= 1
        return socket

    async def _answer(self, body: bytes, connection: ClientConnection | None, allowance: Allowance) -> str | None:
        """The text of the response to one message, or None when it held only notifications."""
        try:
            parsed = jsonrpc.parse(body)
        except JsonRpcError as error:
            return jsonrpc.dumps(jsonrpc.failure(None, error))
        if not isinstance(parsed, RpcRequest):
            return await self._answer_batch(parsed, connection, allowance)
        answer = await self._answer_one(parsed, connection, allowance)
        return None if answer is None else jsonrpc.dumps(answer)

    async def _answer_batch(
        self, batch: list[RpcRequest | JsonRpcError], connection: ClientConnection | None, allowance: Allowance
    ) -> str | None:
        """Answers in order, together no longer than one response; those behind the first that is too much fail."""
        texts: list[str] = []
        room = jsonrpc.MAX_RESPONSE_BYTES  # of all together: 500 answers of the greatest length would be 5 GB
        for item in batch:
            if room < 0 and isinstance(item, RpcRequest):
                answer = None if item.is_notification else jsonrpc.failure(item.id, _TOO_LARGE)
            else:
                answer = await self._answer_one(item, connection, allowance)
            if answer is None:
                continue
            text = jsonrpc.dumps(answer)
            room -= len(text)
            texts.append(text if room >= 0 else jsonrpc.dumps(jsonrpc.failure(answer["id"], _TOO_LARGE)))
        return f"[{','.join(texts)}]" if texts else None

    async def _answer_one(
        self, item: RpcRequest | JsonRpcError, connection: ClientConnection | None, allowance: Allowance
    ) -> Json | None:
        if isinstance(item, JsonRpcError):
            return jsonrpc.failure(None, item)
        try:
            allowance.take()
            answer = jsonrpc.result(item.id, await self._call(item, connection))
        except JsonRpcError as error:
            answer = jsonrpc.failure(item.id, error)
        except Exception:
            log.exception("%s failed", item.method)
            answer = jsonrpc.failure(item.id, JsonRpcError(INTERNAL_ERROR, "Internal error"))
        return None if item.is_notification else answer

    async def _call(self, request: RpcRequest, connection: ClientConnection | None) -> Json:
        if request.method in self.registry.unsubscribers:
            return connection is not None and connection.unsubscribe(request.params)
        method = self.registry.find(request.method, unsafe_allowed=self.options.unsafe_allowed)
        arguments = method.arguments(request.params)
        if method.notification is not None:
            if connection is None:
                raise JsonRpcError(INVALID_REQUEST, "Subscriptions need a WebSocket connection")
            return await connection.subscribe(method, arguments)
        value = method.handler(*arguments)
        return await value if inspect.isawaitable(value) else value

    def _check_host(self, request: web.Request) -> None:
        """Refuse names that are not ours when only this machine may connect (DNS rebinding)."""
        host = request.host.rsplit(":", 1)[0]
        if self.options.host in {"127.0.0.1", "::1", "localhost"} and host not in LOCAL_HOSTS:
            raise web.HTTPForbidden(text="host not allowed")

    def _check_origin(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and "*" not in self.options.cors and origin not in self.options.cors:
            raise web.HTTPForbidden(text="origin not allowed")

    def _cors(self, request: web.Request) -> dict[str, str]:
        origin = request.headers.get("Origin")
        if origin is None:
            return {}
        self._check_origin(request)
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "POST, GET, OPTIONS",
            "Access-Control-Allow-Headers": "content-type",
        }


class ClientConnection:
    """One WebSocket: its reader, its writer, its subscriptions."""

    def __init__(self, server: Server, socket: web.WebSocketResponse) -> None:
        """Nothing runs yet."""
        self.server = server
        self.socket = socket
        self.outbox: asyncio.Queue[str] = asyncio.Queue(OUTBOX_ITEMS)
        self._outbox_bytes = 0
        self.subscriptions: dict[str, asyncio.Task[None]] = {}
        self._answered = asyncio.Event()  # set when the answers to the last message are queued
        self.allowance = Allowance(server.options.calls_per_minute, float(server.options.calls_per_minute))

    async def run(self) -> None:
        """Answer messages until either side closes; then end every subscription."""
        writer = asyncio.create_task(self._write())
        try:
            async for message in self.socket:
                if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                    data = message.data.encode() if isinstance(message.data, str) else message.data
                    self._answered = asyncio.Event()
                    answer = await self.server._answer(data, self, self.allowance)  # noqa: SLF001 - one idea, two classes
                    if answer is not None:
                        self._send(answer)
                    self._answered.set()
        finally:
            tasks = [writer, *self.subscriptions.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def subscribe(self, method: RpcMethod, arguments: list[Any]) -> str:
        """Start a subscription; the answer with its id goes out before its first item."""
        if len(self.subscriptions) >= MAX_SUBSCRIPTIONS:
            raise JsonRpcError(TOO_BUSY, "Too many subscriptions on this connection", f"at most {MAX_SUBSCRIPTIONS}")
        items = method.handler(*arguments)
        if inspect.isawaitable(items):  # it may refuse, and then there is no subscription
            items = await items
        key = secrets.token_urlsafe(12)
        self.subscriptions[key] = asyncio.create_task(self._feed(key, str(method.notification), items, self._answered))
        return key

    def unsubscribe(self, params: list[Json] | dict[str, Json]) -> bool:
        """End the named subscription; tells whether there was one."""
        key = next(iter(params.values() if isinstance(params, dict) else params), None)
        task = self.subscriptions.pop(key, None) if isinstance(key, str) else None
        if task is not None:
            task.cancel()
        return task is not None

    async def _feed(self, key: str, notification: str, items: AsyncIterator[Json], answered: asyncio.Event) -> None:
        try:
            await answered.wait()
            async for item in items:
                self._send(jsonrpc.dumps(jsonrpc.notification(notification, key, item)))
        except JsonRpcError as error:
            log.info("subscription %s ended: %s", notification, error)
        finally:
            self.subscriptions.pop(key, None)

    def _send(self, text: str) -> None:
        """Queue a message; a client that does not read is dropped."""
        # A client that subscribes to much and reads nothing would else have this process keep it all.
        if self._outbox_bytes + len(text) <= OUTBOX_BYTES_MAX and not self.outbox.full():
            self._outbox_bytes += len(text)
            self.outbox.put_nowait(text)
            return
        log.info("dropped a client that does not read")
        transport = self.socket._req.transport if self.socket._req is not None else None  # noqa: SLF001 - no public way to abort
        if transport is not None:
            transport.abort()

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                text = await self.outbox.get()
                await self.socket.send_str(text)
                self._outbox_bytes -= len(text)
        await self.socket.close(code=WSCloseCode.GOING_AWAY)
