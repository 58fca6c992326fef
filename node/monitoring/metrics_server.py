"""The figures over HTTP, for Prometheus, in a thread of its own.

What always holds: at most `CONNECTIONS_MAX` connections are open, each for `REQUEST_SECONDS` and `REQUEST_BYTES_MAX` of
request; when one more comes, the oldest one of the address that has most is closed, so who opens them and says nothing
is in nobody else's way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from node.errors import BadInputError

CONNECTIONS_MAX = 32
ACCEPTED_AT_ONCE = 4
"""In one round of the loop: of 32 at once, each was the oldest and closed before its request was looked at."""
QUEUE = 1024
"""Connections that the system holds until they are accepted; who finds it full tries again a second later, or three."""
REQUEST_SECONDS = 5.0
STOPPING_ROUND_SECONDS = 0.05
REQUEST_BYTES_MAX = 8 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_LOG = logging.getLogger(__name__)


class MetricsServer:
    """Answers on `/metrics` until closed."""

    def __init__(self, registry: CollectorRegistry, port: int, *, external: bool) -> None:
        """Raises `BadInputError` for a port that is not free."""
        self._registry = registry
        self._open: dict[asyncio.StreamWriter, str] = {}  # and from where; oldest first
        self._loop = asyncio.new_event_loop()
        host = "0.0.0.0" if external else "127.0.0.1"  # noqa: S104  # asked for by a flag
        try:
            self._listener = socket.create_server((host, port))
        except OSError as error:
            self._loop.close()
            raise BadInputError(
                f"port {port} for metrics is not free ({error.strerror}): "
                "choose another --prometheus-port, or --no-prometheus"
            ) from error
        start = asyncio.start_server(
            self._serve, sock=self._listener, limit=REQUEST_BYTES_MAX, backlog=ACCEPTED_AT_ONCE
        )
        self._server = self._loop.run_until_complete(start)
        self._listener.listen(QUEUE)
        self.port = int(self._listener.getsockname()[1])
        self._thread = Thread(target=self._loop.run_forever, name="metrics", daemon=True)
        self._thread.start()
        _LOG.info("metrics on port %d", self.port)

    def close(self) -> None:
        """Stop answering."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        # Accept none any more, and only then close: asyncio leaves one open that it accepted just before.
        self._loop.remove_reader(self._listener)
        current = asyncio.current_task()
        # More than once: a connection that was just accepted is not among those that are open yet.
        while rest := [task for task in asyncio.all_tasks() if task is not current]:
            for writer in tuple(self._open):  # what waits for them ends by it
                writer.transport.abort()
            await asyncio.wait(rest, timeout=STOPPING_ROUND_SECONDS)
        await asyncio.sleep(0)  # what was aborted closes in the next round
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A thousand idle connections would else use up the files of the process that must write its sign-state.
        if len(self._open) >= CONNECTIONS_MAX:
            self._close_one()
        self._open[writer] = str(writer.get_extra_info("peername", ("",))[0])
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(_END_OF_HEAD)
                writer.write(self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _LOG.debug("a request for metrics broke off: %s", error)
        finally:
            self._open.pop(writer, None)
            with contextlib.suppress(OSError):
                writer.transport.abort()

    def _close_one(self) -> None:
        ((most, _),) = Counter(self._open.values()).most_common(1)
        oldest = next(writer for writer, address in self._open.items() if address == most)
        del self._open[oldest]
        oldest.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        """The whole response to a request, by its first line."""
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return _response("405 Method Not Allowed", "text/plain", b"GET only\n")
        if path not in {b"/", b"/metrics"}:
            return _response("404 Not Found", "text/plain", b"the figures are at /metrics\n")
        return _response("200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry))


def _response(status: str, kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
