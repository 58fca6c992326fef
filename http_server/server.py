"""aiohttp behind a `ConnectionDoor`, for every HTTP server of ours.

Invariant: a connection's door counts its requests. A body in tiny chunks, or in chunks that nobody reads, ends its
connection. An answer names no version, and repeats nothing of a malformed request. Malformed HTTP, and a system without
free file descriptors, leave no stack trace.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

from http_server.door import ConnectionDoor, DoorLimits
from http_server.turns import Caller, Turns

SERVER_NAME = "ogpu"
QUEUE = 1024  # connections that the system holds until they are accepted
ACCEPTED_AT_ONCE = 4  # before open ones are read: each takes about a millisecond with its first request
LINGERING_SECONDS = 2.0
"""The time for the rest of a refused body: a client that is closed at once may never read the reason."""
UNREAD_BYTES_MAX = 64 * 1024 * 1024
LOG_SECONDS = 10.0
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_LOG = logging.getLogger(__name__)


# Limits of HTTP chunks: a chunk of one byte takes as long to parse as one of a kilobyte.
#
# Pure. Invariant: a body beyond its first `FREE_CHUNKS` has at least `CHUNK_BYTES_MIN` bytes in a chunk on average.
FREE_CHUNKS = 64
CHUNK_BYTES_MIN = 128


class TinyChunksError(Exception):
    """A body came in chunks that are too small."""


class ChunkBudget:
    """The chunks of one body."""

    def __init__(self) -> None:
        """Start a body."""
        self._chunks = 0
        self._size = 0

    def take(self, size: int, *, is_end: bool) -> None:
        """Count `byte_count` more bytes, and with `is_end` one more chunk.

        Raise `TinyChunksError` if the chunks are too small on average.
        """
        self._size += size
        self._chunks += is_end
        if self._chunks > FREE_CHUNKS and self._size < CHUNK_BYTES_MIN * self._chunks:
            raise TinyChunksError


class HttpServer:
    """An application behind a door; `await listen(…)`, and `await close()`."""

    def __init__(
        self,
        app: web.Application,
        limits: DoorLimits,
        keepalive_seconds: float,
        turns: Turns | None = None,
        caller_of: Callable[[asyncio.BaseTransport], Caller] | None = None,
        *,
        is_busy_by_request: bool = False,
    ) -> None:
        """Prepare a server that does not listen yet; turns and callers are the door's.

        With `is_busy_by_request` every request is `serving`; else the application says which.
        """
        self._is_busy_by_request = is_busy_by_request
        app.middlewares.insert(0, self._count)
        app.on_response_prepare.append(_name_no_version)
        self._options: dict[str, Any] = {
            "keepalive_timeout": keepalive_seconds,
            "lingering_time": LINGERING_SECONDS,
            "access_log": None,
        }
        self._runner = web.AppRunner(app, **self._options)
        self._listener: asyncio.Server | None = None
        self.door = ConnectionDoor(self._handler, limits, turns, caller_of)

    async def listen(self, host: str, port: int) -> int:
        """Listen and return the port. Raise `OSError` if the port is in use."""
        loop = asyncio.get_running_loop()
        logging.getLogger("aiohttp.server").addFilter(_is_our_fault)
        loop.set_exception_handler(QuietAccepting().handle)
        await self._runner.setup()
        self._listener = await loop.create_server(self.door, host, port, backlog=ACCEPTED_AT_ONCE)
        for listening in self._listener.sockets:
            with listening.dup() as copy:
                copy.listen(QUEUE)
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        if self._listener is not None:
            self.door.close()
            # Python 3.11 loses connections, left open, that it has accepted but not handed over when a listener closes.
            for listening in self._listener.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            await asyncio.sleep(0)
            self._listener.close()
        await self._runner.cleanup()

    def _handler(self) -> asyncio.Protocol:
        assert self._runner.server is not None, "a server listens after its setup"
        return PlainHandler(self._runner.server, loop=asyncio.get_running_loop(), **self._options)

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell the door when a request begins and ends."""
        visitor = self.door.visitor(request.transport)
        if visitor is None:  # it ended meanwhile: aiohttp still starts requests that it has parsed
            raise ConnectionResetError("the connection has ended")
        visitor.request_begins(has_length=request.content_length is not None)
        try:
            if not self._is_busy_by_request:
                return await handler(request)
            with self.door.serving(request.transport):
                return await handler(request)
        finally:
            is_read = request.content.is_eof()
            if not is_read and request.content_length is None:
                visitor.stop_reading()
            visitor.request_ends(0 if is_read else min(request.content_length or 0, UNREAD_BYTES_MAX))


class PlainHandler(web.RequestHandler):
    """Answers malformed HTTP with a status, without repeating the client's bytes."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to malformed HTTP, or to a request that failed here."""
        plain = None if message is None else HTTPStatus(status).phrase
        response = super().handle_error(request, status, exc, plain)
        response.headers[hdrs.SERVER] = SERVER_NAME
        return response


class QuietAccepting:
    """A log of a lack of file descriptors, one line at intervals: asyncio logs a stack trace each time."""

    def __init__(self) -> None:
        """Start with nothing logged."""
        self._said_at = float("-inf")

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle a loop error that no task awaits."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in OUT_OF_FILES and "socket" in context):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._said_at >= LOG_SECONDS:
            self._said_at = time.monotonic()
            _LOG.warning("no connection can be accepted: %s; raise the limit of open files", error.strerror)


async def body_of(
    request: web.BaseRequest, limit_bytes: int, count_moved: Callable[[int], None] | None = None
) -> bytes:
    """Return the whole body; `count_moved` receives the number of bytes of each part.

    Raise 413 if a body is too long, by its header or in fact, and 400 if its chunks are tiny.
    """
    if (request.content_length or 0) > limit_bytes:
        raise web.HTTPRequestEntityTooLarge(limit_bytes, request.content_length or 0)
    budget, body_bytes = ChunkBudget(), bytearray()
    while not request.content.at_eof():  # aiohttp's empty body reports no end if it is read a second time
        part, is_end = await request.content.readchunk()
        try:
            budget.take(len(part), is_end=is_end)
        except TinyChunksError:
            raise web.HTTPBadRequest(text="the chunks of the body are too small") from None
        body_bytes += part
        if count_moved is not None:
            count_moved(len(part))
        if len(body_bytes) > limit_bytes:
            raise web.HTTPRequestEntityTooLarge(limit_bytes, len(body_bytes))
    return bytes(body_bytes)


async def _name_no_version(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers[hdrs.SERVER] = SERVER_NAME


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Return whether a log record is about our own fault: traces of strangers' faults could fill the disk."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | ConnectionError))
