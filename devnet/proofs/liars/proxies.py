"""Proxies between a program and its node, and in front of a provider's blob store, which pass the truth or tell lies.

Invariant: without a lie, every message arrives as the node or the store sent it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self

import aiohttp
import websockets
from aiohttp import web
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve

from devnet.proofs.liars.lie import NodeLie, NodeMessage, NodeQuestion, Replies, StoreLie
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcJson

LOOPBACK_HOST = "127.0.0.1"
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
QUESTIONS_KEPT = 100_000


class NodeProxy:
    """A proxy of a node: `async with NodeProxy(url) as proxy`. A `lie` applies from its assignment on."""

    def __init__(self, node_url: str, told_lie: NodeLie | None = None) -> None:
        """Prepare a proxy, which listens at any port once it is entered."""
        self.node_url = node_url
        self.lie = told_lie
        self.told = 0
        self._websocket_server: Server | None = None
        self._open_sockets: set[ServerConnection] = set()

    @property
    def url(self) -> str:
        """The proxy's URL, for the program."""
        assert self._websocket_server is not None  # entered
        return f"ws://{LOOPBACK_HOST}:{next(iter(self._websocket_server.sockets)).getsockname()[1]}"

    def abort_connections(self) -> None:
        """End all connections, so that programs must reconnect."""
        # Aborted and not closed: a closing handshake would tell the program that the end is planned.
        for connection in self._open_sockets:
            connection.transport.abort()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._websocket_server = await serve(
            self._serve,
            LOOPBACK_HOST,
            0,
            max_size=MESSAGE_BYTES_MAX,
            compression=None,
            close_timeout=1.0,
            ping_interval=None,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all connections and stop."""
        self.abort_connections()
        if self._websocket_server is not None:
            self._websocket_server.close()
            await self._websocket_server.wait_closed()

    async def _serve(self, program_socket: ServerConnection) -> None:
        self._open_sockets.add(program_socket)
        try:
            async with connect(
                self.node_url, max_size=MESSAGE_BYTES_MAX, compression=None, proxy=None, close_timeout=1.0
            ) as node_socket:
                await _ProxiedConnection(self, program_socket, node_socket).run_pumps()
        except (OSError, websockets.WebSocketException):
            pass  # the program sees the end of its connection
        finally:
            self._open_sockets.discard(program_socket)


class _ProxiedConnection:
    """One connection; implements `LyingConnection`."""

    def __init__(self, proxy: NodeProxy, program_socket: ServerConnection, node_socket: ClientConnection) -> None:
        self.memory: dict[str, RpcJson] = {}
        self._node_proxy, self._program_socket, self._node_socket = proxy, program_socket, node_socket
        self._open_questions: dict[Any, NodeQuestion] = {}
        self._subscriptions: dict[str, NodeQuestion] = {}  # subscriptions, by their keys
        self._truth_connection: RpcConnection | None = None
        self._later_tasks: set[asyncio.Task[None]] = set()

    async def run_pumps(self) -> None:
        """Forward messages until either side ends."""
        pump_tasks = [asyncio.create_task(self._pass_questions()), asyncio.create_task(self._pass_answers())]
        try:
            await asyncio.wait(pump_tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for running in (*pump_tasks, *self._later_tasks):
                running.cancel()
            await asyncio.gather(*pump_tasks, *self._later_tasks, return_exceptions=True)
            if self._truth_connection is not None:
                await self._truth_connection.close()

    async def ask(self, method: str, *params: RpcJson) -> RpcJson:
        """See `LyingConnection`."""
        if self._truth_connection is None:
            self._truth_connection = await RpcConnection.open(self._node_proxy.node_url)
        return await self._truth_connection.call(method, *params)

    def say(self, reply: RpcJson | bytes, after_seconds: float = 0.0) -> None:
        """See `LyingConnection`."""

        async def later() -> None:
            await asyncio.sleep(after_seconds)
            with contextlib.suppress(websockets.ConnectionClosed):
                await self._send(reply)

        later_task = asyncio.create_task(later())
        self._later_tasks.add(later_task)
        later_task.add_done_callback(self._later_tasks.discard)

    def hang_up(self) -> None:
        """See `LyingConnection`."""
        self._program_socket.transport.abort()

    async def _pass_questions(self) -> None:
        async for frame in self._program_socket:
            request_json = json.loads(frame)
            question = NodeQuestion(
                request_json.get("method", ""), request_json.get("params") or [], request_json.get("id")
            )
            # A request that a lie answers itself is never removed, so their number is limited.
            if len(self._open_questions) < QUESTIONS_KEPT:
                self._open_questions[question.number] = question
            told_lie = self._node_proxy.lie
            replies = None if told_lie is None else await self._lying_replies(told_lie.of_question(question, self))
            if replies is None:
                await self._node_socket.send(frame)
            else:
                await self._send_replies(replies)

    async def _pass_answers(self) -> None:
        async for frame in self._node_socket:
            message = self._message_of(json.loads(frame))
            told_lie = self._node_proxy.lie
            replies = (
                None
                if message is None or told_lie is None
                else await self._lying_replies(told_lie.of_message(message, self))
            )
            if replies is None:
                await self._program_socket.send(frame)
            else:
                await self._send_replies(replies)

    async def _lying_replies(self, replies: Awaitable[Replies | None]) -> Replies | None:
        """Return the lie, or None: without the node's answer a liar tells the truth."""
        try:
            return await replies
        except NodeUnreachableError:
            return None

    async def _send_replies(self, replies: Replies) -> None:
        self._node_proxy.told += 1
        for reply in replies:
            await self._send(reply)

    async def _send(self, reply: RpcJson | bytes) -> None:
        # Bytes are sent as a text frame too, because invalid text is one of the lies.
        await self._program_socket.send(reply if isinstance(reply, bytes) else json.dumps(reply), text=True)

    def _message_of(self, message_json: RpcJson) -> NodeMessage | None:
        """Return a message with its request, or None if the request is unknown."""
        if "method" in message_json:
            question = self._subscriptions.get(str(message_json["params"]["subscription"]))
            return None if question is None else NodeMessage(question, message_json, is_item=True)
        question = self._open_questions.pop(message_json.get("id"), None)
        if question is None:
            return None
        if "ubscribe" in question.method or "AndWatch" in question.method:
            self._subscriptions[str(message_json.get("result"))] = question
        return NodeMessage(question, message_json, is_item=False)


BODY_BYTES_MAX = 64 * 1024 * 1024
STORE_SECONDS = 60.0


class StoreProxy:
    """A proxy of a store: `async with StoreProxy(port, store_url) as proxy`; implements `Store`."""

    def __init__(self, port: int, store_url: str) -> None:
        """Prepare a proxy, which listens at `port` once it is entered."""
        self.lie: StoreLie | None = None
        self.told = 0
        self._listen_port = port
        self._store_url = store_url
        self._http_session: aiohttp.ClientSession | None = None
        self._app_runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._http_session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=STORE_SECONDS))
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._app_runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._app_runner.setup()
        await web.TCPSite(self._app_runner, LOOPBACK_HOST, self._listen_port).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        if self._app_runner is not None:
            await self._app_runner.cleanup()
        if self._http_session is not None:
            await self._http_session.close()

    async def answer(self, request: web.Request) -> web.Response:
        """Return the store's own answer."""
        assert self._http_session is not None  # entered
        body = await request.read()
        try:
            async with self._http_session.request(
                request.method, self._store_url + request.path, data=body
            ) as store_answer:
                return web.Response(status=store_answer.status, body=await store_answer.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.Response(status=502, text=type(error).__name__)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        told_lie = self.lie
        if told_lie is None or request.method not in told_lie.of_methods:
            return await self.answer(request)
        self.told += 1
        try:
            return await told_lie.of_request(request, self)
        except ConnectionError:  # the client closed the connection
            return web.Response()
