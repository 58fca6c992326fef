"""The HTTP face of a provider: `PUT /blobs`, `GET /blobs/<address>`, `POST /reseal`.

Always: a body longer than a blob is refused before it is read whole; what is served cannot run in a browser; the number
of requests at once is bounded. The address of the listener is 127.0.0.1 unless the operator says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError

from gpu_tasks.data.sealing import BLOB_BYTES_MAX
from gpu_tasks.provider.blobs.reseal import RESEAL_BYTES_MAX, RefusedResealError, Resealer
from gpu_tasks.provider.blobs.store import ADDRESS_DIGITS, BlobStore, StoreFullError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9750
REQUESTS_AT_ONCE_MAX = 32
BODY_SECONDS = 30.0

RouteHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEADERS = {
    hdrs.CONTENT_TYPE: "application/octet-stream",
    "X-Content-Type-Options": "nosniff",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    hdrs.CACHE_CONTROL: "public, max-age=86400, immutable",
}


class BlobServer:
    """Serves a store; `await start()`, and `await close()`."""

    def __init__(self, store: BlobStore, resealer: Resealer | None = None) -> None:
        """Nothing listens before `start`."""
        self._store = store
        self._resealer = resealer
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE_MAX)
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, port: int = DEFAULT_PORT, host: str = DEFAULT_HOST) -> None:
        """Listen; port 0 is any free one, see `self.port`. OSError if the port is taken."""
        app = web.Application(client_max_size=BLOB_BYTES_MAX, middlewares=[self._bounded])
        app.router.add_put("/blobs", self._put)
        app.router.add_get("/blobs/{address}", self._get)
        app.router.add_post("/reseal", self._reseal)
        logging.getLogger("aiohttp.server").addFilter(_is_our_fault)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _bounded(self, request: web.Request, handler: RouteHandler) -> web.StreamResponse:
        if self._slots.locked():
            raise web.HTTPServiceUnavailable(text="busy; try again")
        async with self._slots:
            return await handler(request)

    async def _put(self, request: web.Request) -> web.Response:
        blob = await _body(request, BLOB_BYTES_MAX)
        try:
            address = self._store.put(blob)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        except (StoreFullError, OSError) as error:
            raise web.HTTPInsufficientStorage(text=str(error)) from None
        return web.Response(status=201, text=address.hex())

    async def _get(self, request: web.Request) -> web.Response:
        text = request.match_info["address"]
        try:
            address = bytes.fromhex(text)
        except ValueError:
            address = b""
        if len(text) != ADDRESS_DIGITS or len(address) * 2 != ADDRESS_DIGITS:
            raise web.HTTPBadRequest(text="an address is 64 hexadecimal digits")
        blob = self._store.get(address)
        if blob is None:
            raise web.HTTPNotFound(text="no such blob here")
        return web.Response(body=blob, headers=_HEADERS)

    async def _reseal(self, request: web.Request) -> web.Response:
        if self._resealer is None:
            raise web.HTTPNotFound(text="nothing to seal again here")
        question = await _body(request, RESEAL_BYTES_MAX)
        try:
            return web.Response(body=await self._resealer.answer(question), headers=_HEADERS)
        except RefusedResealError as error:
            raise web.HTTPForbidden(text=str(error)) from None


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Bytes that are no HTTP are answered 400 and leave no stack trace: else a stranger could fill the disk."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _body(request: web.Request, limit: int) -> bytes:
    """The whole body; refused if it is too long, by its header or in fact, or too slow."""
    if (request.content_length or 0) > limit:
        raise web.HTTPRequestEntityTooLarge(limit, request.content_length or 0)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.content.iter_chunked(64 * 1024):
                body += part
                if len(body) > limit:
                    raise web.HTTPRequestEntityTooLarge(limit, len(body))
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body took longer than {BODY_SECONDS:.0f} s") from None
    return bytes(body)
