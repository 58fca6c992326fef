"""The provider's HTTP server: `PUT /blobs`, `GET /blobs/<address>`, `GET /inventory`, `POST /deliveries`, and others.

Invariants:

* A body longer than a blob is refused before it is read completely.
* A browser cannot execute the served content.
* Uploads, reads and questions of checkers and voters have separate slots, so memory is bounded and none can starve
  another.
* A slow client loses its slot, and the number of connections is limited.

The server also sends the broker's address and proofs of presence, and accepts tunnels. Its address is 127.0.0.1 unless
the operator sets another.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gpu_tasks.data.blob_client import DELIVERY_PATH, INVENTORY_PATH, PRESENCE_PATH, TELEMETRY_PATH, TUNNEL_PATH
from gpu_tasks.data.presence import NONCE_BYTES
from gpu_tasks.data.sealing import BLOB_BYTES_MAX
from gpu_tasks.provider.blobs.deliveries import QUESTION_BYTES_MAX, NoReaderError, RefusedDeliveryError
from gpu_tasks.provider.blobs.request_slots import (
    BYTES_PER_SECOND_MIN,
    BusyError,
    RequestSlot,
    RequestSlots,
    WaitingAddresses,
    address_of_peer,
)
from gpu_tasks.provider.blobs.store import ADDRESS_DIGITS, BlobStore, StoreFullError
from http_server.door import DoorLimits
from http_server.places import PlaceLimits
from http_server.server import HttpServer, body_of

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9750
# Requests at once, in total and for one address. Each holds one blob at most.
UPLOADS = (32, 4)
READS = (64, 16)
QUESTIONS = (16, 4)
# Questions still arriving, of a few bytes each. A checker without an answer states that an item is unavailable, so an
# attacker that keeps checkers out could have honest work refuted. It must need many addresses for that.
ARRIVING_QUESTIONS = (256, 4)
# Connections at once. Each has small buffers until it holds a slot. Some are reserved for a proxy on this machine.
CONNECTIONS = PlaceLimits(512, 64, 64)
WRITING_SECONDS = 30  # for the disk, including earlier uploads' turns
PART_BYTES = 64 * 1024
KEEPALIVE_SECONDS, IDLE_SECONDS = 15.0, 20.0

_HEADERS = {
    hdrs.CONTENT_TYPE: "application/octet-stream",
    "X-Content-Type-Options": "nosniff",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    hdrs.CACHE_CONTROL: "public, max-age=86400, immutable",
}

_CHANGING_HEADERS = {**_HEADERS, hdrs.CACHE_CONTROL: "no-store"}


class AnswersReaders(Protocol):
    """A service that seals something again for checkers and voters."""

    async def answer(self, data: bytes) -> bytes:
        """Return the answer to a question as a sealed blob. Raise RefusedDeliveryError for a refusal."""
        ...


class EntersTunnels(Protocol):
    """The entrance of customers to their containers."""

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Serve a tunnel from its handshake to its end."""
        ...


TellInventory = Callable[[], Awaitable[bytes]]
"""A function that returns the machine's signed inventory."""
ProvePresence = Callable[[bytes], bytes]
"""A function that returns the proof, for a nonce, that this daemon runs."""


class BlobServer:
    """The HTTP server of a store. Call `await start()` and `await close()`."""

    def __init__(
        self,
        store: BlobStore,
        broker_address: str | None = None,
        inventory: TellInventory | None = None,
        tunnels: EntersTunnels | None = None,
        presence: ProvePresence | None = None,
        deliverer: AnswersReaders | None = None,
    ) -> None:
        """Listening begins with `start`. `broker_address` is the address of the customers' telemetry."""
        self._store = store
        self._deliverer = deliverer
        self._broker = broker_address
        self._inventory = inventory
        self._tunnels = tunnels
        self._presence = presence
        self._uploads, self._reads = RequestSlots(*UPLOADS), RequestSlots(*READS)
        self._arriving, self._questions = RequestSlots(*ARRIVING_QUESTIONS), RequestSlots(*QUESTIONS)
        self._waiting = WaitingAddresses()
        self._writing = asyncio.Lock()
        self._http: HttpServer | None = None
        self.port = 0

    async def start(self, port: int = DEFAULT_PORT, address: str = DEFAULT_HOST) -> None:
        """Listen. Port 0 selects a free port, see `self.port`. Raise OSError if the port is taken."""
        application = web.Application(client_max_size=BLOB_BYTES_MAX, middlewares=[_let_go])
        application.router.add_put("/blobs", self._put_blob)
        application.router.add_get("/blobs/{address}", self._get_blob)
        application.router.add_get(TELEMETRY_PATH, self._tell_broker)
        application.router.add_get(INVENTORY_PATH, self._tell_inventory)
        application.router.add_get(TUNNEL_PATH, self._enter_tunnel)
        application.router.add_get(PRESENCE_PATH, self._prove_presence)
        application.router.add_post(DELIVERY_PATH, self._deliver)
        self._http = HttpServer(application, DoorLimits(CONNECTIONS, IDLE_SECONDS), KEEPALIVE_SECONDS)
        self.port = await self._http.listen(address, port)

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        if self._http is not None:
            await self._http.close()

    @contextlib.asynccontextmanager
    async def _request_slot(self, slots: RequestSlots, request: web.Request) -> AsyncIterator[RequestSlot]:
        """Yield a slot for a request. Answer 503 if there is none, and 408 if a slow client lost its slot."""
        assert self._http is not None  # the server accepted the request
        try:
            async with slots.take(address_of_peer(request)) as slot:
                with self._http.door.serving(request.transport):
                    yield slot
        except BusyError:
            raise web.HTTPServiceUnavailable(text="busy; try again") from None
        except TimeoutError:
            refusal_text = f"slower than {BYTES_PER_SECOND_MIN:,} bytes a second"
            raise web.HTTPRequestTimeout(text=refusal_text) from None

    async def _put_blob(self, request: web.Request) -> web.Response:
        try:
            # The slot is held until the blob is on the disk. Otherwise one address could queue dozens of blobs.
            async with self._request_slot(self._uploads, request) as slot:
                sealed_blob = await body_of(request, BLOB_BYTES_MAX, slot.progress)
                slot.progress(WRITING_SECONDS * BYTES_PER_SECOND_MIN)
                async with self._writing:
                    # In a thread: hashing, writing and syncing a megabyte would block all other requests.
                    address = await asyncio.to_thread(self._store.put, sealed_blob, stranger=address_of_peer(request))
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        except (StoreFullError, OSError) as error:
            raise web.HTTPInsufficientStorage(text=str(error)) from None
        return web.Response(status=201, text=address.hex())

    async def _tell_broker(self, request: web.Request) -> web.Response:
        async with self._request_slot(self._reads, request):
            if self._broker is None:
                raise web.HTTPNotFound(text="this provider publishes no telemetry: it has no broker")
            return web.Response(text=self._broker)

    async def _tell_inventory(self, request: web.Request) -> web.StreamResponse:
        if self._inventory is None:
            raise web.HTTPNotFound(text="this provider does not publish its inventory")
        async with self._request_slot(self._reads, request) as slot:
            return await _sent(request, await self._inventory(), slot, _CHANGING_HEADERS)

    async def _prove_presence(self, request: web.Request) -> web.StreamResponse:
        presence_nonce = _hexadecimal(request.match_info["nonce"], NONCE_BYTES)
        if self._presence is None:
            raise web.HTTPNotFound(text="no daemon runs behind this store")
        if presence_nonce is None:
            raise web.HTTPBadRequest(text=f"a nonce is {2 * NONCE_BYTES} hexadecimal digits")
        async with self._request_slot(self._reads, request) as slot:
            return await _sent(request, self._presence(presence_nonce), slot, _CHANGING_HEADERS)

    async def _enter_tunnel(self, request: web.Request) -> web.StreamResponse:
        if self._tunnels is None:
            raise web.HTTPNotFound(text="this provider runs no containers")
        assert self._http is not None  # the server accepted the request
        with self._http.door.serving(request.transport):
            return await self._tunnels.enter(request)

    async def _get_blob(self, request: web.Request) -> web.StreamResponse:
        address = _hexadecimal(request.match_info["address"], ADDRESS_DIGITS // 2)
        if address is None:
            raise web.HTTPBadRequest(text="an address is 64 hexadecimal digits")
        async with self._request_slot(self._reads, request) as slot:
            sealed_blob = self._store.get(address)
            if sealed_blob is None:
                raise web.HTTPNotFound(text="no such blob here")
            return await _sent(request, sealed_blob, slot)

    async def _deliver(self, request: web.Request) -> web.StreamResponse:
        if self._deliverer is None:
            raise web.HTTPNotFound(text="nothing to seal again here")
        peer_address = address_of_peer(request)
        if self._waiting.has_to_wait(peer_address):
            raise web.HTTPTooManyRequests(text="ask again in a moment")
        try:
            async with self._request_slot(self._arriving, request):
                question = await body_of(request, QUESTION_BYTES_MAX)
        except web.HTTPRequestTimeout:
            self._waiting.wait(peer_address)
            raise
        async with self._request_slot(self._questions, request) as slot:
            try:
                slot.progress(BLOB_BYTES_MAX)  # the time for asking the chain is not the reader's
                sealed_answer = await self._deliverer.answer(question)
            except RefusedDeliveryError as error:
                if isinstance(error, NoReaderError):
                    self._waiting.wait(peer_address)
                raise web.HTTPForbidden(text=str(error)) from None
            return await _sent(request, sealed_answer, slot)


@web.middleware
async def _let_go(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Release a request's data from the error that ended it.

    Otherwise the error keeps it in memory: 175 refused blobs of a megabyte each stayed.
    """
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError, asyncio.CancelledError) as ending:
        cause: BaseException | None = ending
        while cause is not None:
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__context__
        raise


def _hexadecimal(digits: str, count: int) -> bytes | None:
    """Return `count` bytes from hexadecimal digits, or None for any other text."""
    try:
        parsed_bytes = bytes.fromhex(digits)
    except ValueError:
        return None
    return parsed_bytes if len(digits) == 2 * count == 2 * len(parsed_bytes) else None


async def _sent(
    request: web.Request, sealed_blob: bytes, slot: RequestSlot, headers: Mapping[str, str] = _HEADERS
) -> web.StreamResponse:
    """Send a whole blob while the slot is held. A client that reads too slowly receives only a part."""
    response = web.StreamResponse(headers=headers)
    response.content_length = len(sealed_blob)
    try:
        await response.prepare(request)
        for part_start in range(0, len(sealed_blob), PART_BYTES):
            await response.write(sealed_blob[part_start : part_start + PART_BYTES])
            slot.progress(PART_BYTES)
        await response.write_eof()
    except asyncio.CancelledError:
        # A clean end would present the part as the whole blob.
        if request.transport is not None:
            request.transport.abort()
        raise
    return response
