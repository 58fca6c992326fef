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

HOST = "127.0.0.1"
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
QUESTIONS_KEPT = 100_000


class NodeProxy:
    """A proxy of a node: `async with NodeProxy(url) as proxy`. A `lie` applies from its assignment on."""

    def __init__(self, node_url: str, lie: NodeLie | None = None) -> None:
        """Prepare a proxy, which listens at any port once it is entered."""
        self.node_url = node_url
        self.lie = lie
        self.told = 0
        self._server: Server | None = None
        self._open: set[ServerConnection] = set()

    @property
    def url(self) -> str:
        """The proxy's URL, for the program."""
        assert self._server is not None  # entered
        return f"ws://{HOST}:{next(iter(self._server.sockets)).getsockname()[1]}"

    def cut(self) -> None:
        """End all connections, so that programs must reconnect."""
        for connection in self._open:
            connection.transport.abort()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await serve(
            self._serve, HOST, 0, max_size=MESSAGE_BYTES_MAX, compression=None, close_timeout=1.0, ping_interval=None
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all connections and stop."""
        self.cut()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, program: ServerConnection) -> None:
        self._open.add(program)
        try:
            async with connect(
                self.node_url, max_size=MESSAGE_BYTES_MAX, compression=None, proxy=None, close_timeout=1.0
            ) as node:
                await _Talk(self, program, node).run()
        except (OSError, websockets.WebSocketException):
            pass  # the program sees the end of its connection
        finally:
            self._open.discard(program)


class _Talk:
    """One connection; implements `Mouth`."""

    def __init__(self, proxy: NodeProxy, program: ServerConnection, node: ClientConnection) -> None:
        self.memory: dict[str, RpcJson] = {}
        self._proxy, self._program, self._node = proxy, program, node
        self._asked: dict[Any, NodeQuestion] = {}
        self._began: dict[str, NodeQuestion] = {}  # subscriptions, by their keys
        self._truth: RpcConnection | None = None
        self._later: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Forward messages until either side ends."""
        pumps = [asyncio.create_task(self._questions()), asyncio.create_task(self._answers())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*pumps, *self._later):
                task.cancel()
            await asyncio.gather(*pumps, *self._later, return_exceptions=True)
            if self._truth is not None:
                await self._truth.close()

    async def ask(self, method: str, *params: RpcJson) -> RpcJson:
        """See `Mouth`."""
        if self._truth is None:
            self._truth = await RpcConnection.open(self._proxy.node_url)
        return await self._truth.call(method, *params)

    def say(self, reply: RpcJson | bytes, after_seconds: float = 0.0) -> None:
        """See `Mouth`."""

        async def later() -> None:
            await asyncio.sleep(after_seconds)
            with contextlib.suppress(websockets.ConnectionClosed):
                await self._send(reply)

        task = asyncio.create_task(later())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def hang_up(self) -> None:
        """See `Mouth`."""
        self._program.transport.abort()

    async def _questions(self) -> None:
        async for text in self._program:
            asked = json.loads(text)
            question = NodeQuestion(asked.get("method", ""), asked.get("params") or [], asked.get("id"))
            # A request that a lie answers itself is never removed, so their number is limited.
            if len(self._asked) < QUESTIONS_KEPT:
                self._asked[question.number] = question
            lie = self._proxy.lie
            replies = None if lie is None else await self._lied(lie.of_question(question, self))
            if replies is None:
                await self._node.send(text)
            else:
                await self._tell(replies)

    async def _answers(self) -> None:
        async for text in self._node:
            message = self._understood(json.loads(text))
            lie = self._proxy.lie
            replies = None if message is None or lie is None else await self._lied(lie.of_message(message, self))
            if replies is None:
                await self._program.send(text)
            else:
                await self._tell(replies)

    async def _lied(self, said: Awaitable[Replies | None]) -> Replies | None:
        """Return the lie, or None: without the node's answer a liar tells the truth."""
        try:
            return await said
        except NodeUnreachableError:
            return None

    async def _tell(self, replies: Replies) -> None:
        self._proxy.told += 1
        for reply in replies:
            await self._send(reply)

    async def _send(self, reply: RpcJson | bytes) -> None:
        # Bytes are sent as a text frame too, because invalid text is one of the lies.
        await self._program.send(reply if isinstance(reply, bytes) else json.dumps(reply), text=True)

    def _understood(self, content: RpcJson) -> NodeMessage | None:
        """Return a message with its request, or None if the request is unknown."""
        if "method" in content:
            question = self._began.get(str(content["params"]["subscription"]))
            return None if question is None else NodeMessage(question, content, is_item=True)
        question = self._asked.pop(content.get("id"), None)
        if question is None:
            return None
        if "ubscribe" in question.method or "AndWatch" in question.method:
            self._began[str(content.get("result"))] = question
        return NodeMessage(question, content, is_item=False)


BODY_BYTES_MAX = 64 * 1024 * 1024
STORE_SECONDS = 60.0


class StoreProxy:
    """A proxy of a store: `async with StoreProxy(port, store_url) as proxy`; implements `Store`."""

    def __init__(self, port: int, store_url: str) -> None:
        """Prepare a proxy, which listens at `port` once it is entered."""
        self.lie: StoreLie | None = None
        self.told = 0
        self._port = port
        self._store_url = store_url
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=STORE_SECONDS))
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def answer(self, request: web.Request) -> web.Response:
        """Return the store's own answer."""
        assert self._session is not None  # entered
        body = await request.read()
        try:
            async with self._session.request(request.method, self._store_url + request.path, data=body) as answer:
                return web.Response(status=answer.status, body=await answer.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.Response(status=502, text=type(error).__name__)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        lie = self.lie
        if lie is None or request.method not in lie.of_methods:
            return await self.answer(request)
        self.told += 1
        try:
            return await lie.of_request(request, self)
        except ConnectionError:  # the client closed the connection
            return web.Response()
