"""Before a provider's blob store: requests go through, and some get other answers.

Always: with no lie set, status and body are the store's.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from devnet.proofs.liars.lie import StoreLie

HOST = "127.0.0.1"
BODY_BYTES_MAX = 64 * 1024 * 1024
STORE_SECONDS = 60.0


class StoreProxy:
    """Use `async with StoreProxy(port, store_url) as proxy`; implements `Store`."""

    def __init__(self, port: int, store_url: str) -> None:
        """Listens at `port` once it is entered."""
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
        """What the store itself answers."""
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
        except ConnectionError:  # whoever asked had enough of it
            return web.Response()
