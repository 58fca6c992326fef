"""The figures over HTTP, for Prometheus, in a thread of its own.

Invariant: at most `CONNECTIONS_MAX` connections are open, `OF_NETWORK_MAX` of one network, each for `REQUEST_SECONDS`
and `REQUEST_BYTES_MAX` of request. A newcomer replaces a connection that has not asked, or does not read its answer,
never one that waits for its answer. The server computes the figures at most `ANSWERED_PER_SECOND` times a second, and
then answers all who wait, so no crowd keeps a scraper waiting. A silent connection costs three system calls: while the
node computes, this thread may wait five milliseconds for the interpreter after each, and the whole queue waits with it.
"""

from __future__ import annotations

import logging
import selectors
import socket
import time
from dataclasses import dataclass, field
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from http_server.known_callers import network_of
from http_server.places import NoPlaceError, PlaceLimits, who_yields
from node.errors import BadInputError

CONNECTIONS_MAX = 32
OF_NETWORK_MAX = 8
ACCEPTED_AT_ONCE = 16
"""Connections accepted in one round. With 32 at once, each would become the oldest and be closed before its request has
come."""
QUEUE = 1024
"""Connections that the system holds until they are accepted. A client that finds it full retries after a second, or
three."""
REQUEST_SECONDS = 5.0
REQUEST_BYTES_MAX = 8 * 1024
ANSWERED_PER_SECOND = 10
"""Each costs 2.5 ms of the node's own interpreter: 135 a second took a third of a processor from it."""
PLACES = PlaceLimits(CONNECTIONS_MAX, OF_NETWORK_MAX)
PAUSE_SECONDS = 0.1  # while the system has no free file descriptors
_END_OF_HEAD = b"\r\n\r\n"
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    """One connection."""

    socket: socket.socket
    network: str | None
    active_at: float
    """The time of its arrival."""
    received_head: bytearray = field(default_factory=bytearray)
    is_due: bool = False
    """True if it waits for the figures; it is not read meanwhile."""
    unsent_bytes: memoryview | None = None  # of the answer, once there is one

    @property
    def until(self) -> float:
        """The time of its end."""
        return self.active_at + REQUEST_SECONDS

    @property
    def is_idle(self) -> bool:
        """True if it yields to a newcomer."""
        return not self.is_due


class MetricsServer:
    """A server of `/metrics` until closed."""

    def __init__(self, registry: CollectorRegistry, port: int, *, external: bool) -> None:
        """Raise `BadInputError` if the port is not free."""
        self._registry = registry
        self._open_requests: dict[int, _Request] = {}  # by file number; oldest first
        self._answers_from = 0.0
        self._is_accepting = True
        listen_host = "0.0.0.0" if external else "127.0.0.1"  # noqa: S104  # asked for by a flag
        try:
            self._listener = socket.create_server((listen_host, port), backlog=QUEUE)
        except OSError as error:
            raise BadInputError(
                f"port {port} for metrics is not free ({error.strerror}). Choose another --prometheus-port, or "
                "--no-prometheus"
            ) from error
        self._listener.setblocking(False)
        self._end_reader, self._ending = socket.socketpair()
        self._selector = selectors.PollSelector()  # for few sockets; registering one is no system call
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._end_reader, selectors.EVENT_READ)
        self.port = int(self._listener.getsockname()[1])
        self._thread = Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()
        _LOG.info("metrics on port %d", self.port)

    def close(self) -> None:
        """Stop answering."""
        self._ending.close()
        self._thread.join()

    def _run(self) -> None:
        while self._serve_round():
            pass
        for request in tuple(self._open_requests.values()):
            self._close_request(request)
        self._selector.close()
        self._listener.close()
        self._end_reader.close()

    def _serve_round(self) -> bool:
        """Do all work that is possible now; return False if the server is to end."""
        self._listen_or_not()
        oldest_request = next(iter(self._open_requests.values()), None)
        patience = None if oldest_request is None else oldest_request.until - time.monotonic()
        if patience is not None and self._due_requests():
            patience = min(patience, self._answers_from - time.monotonic())
        for key, _ in self._selector.select(patience):
            if key.fileobj is self._end_reader:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif (request := self._open_requests.get(key.fd)) is not None and request.socket is key.fileobj:
                self._serve_request(request)
        self._answer_due()
        now = time.monotonic()
        for request in [request for request in self._open_requests.values() if request.until <= now]:
            self._close_request(request)
        return True

    def _listen_or_not(self) -> None:
        """Leave newcomers in the system's queue, in order, while all connections inside wait for the figures."""
        has_room = len(self._due_requests()) < CONNECTIONS_MAX
        if has_room and not self._is_accepting:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._is_accepting and not has_room:
            self._selector.unregister(self._listener)
        self._is_accepting = has_room

    def _accept(self) -> None:
        """Accept waiting connections, some at a time."""
        for _ in range(min(ACCEPTED_AT_ONCE, CONNECTIONS_MAX - len(self._due_requests()))):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                _LOG.debug("a connection for metrics was not accepted: %s", error)
                # Without the pause the loop would spin, because the listening socket stays readable.
                time.sleep(PAUSE_SECONDS)
                return
            self._enter_request(_Request(accepted, network_of(str(address[0])), time.monotonic()))

    def _enter_request(self, request: _Request) -> None:
        # Otherwise a thousand idle connections would use up the files of the process that must write its sign-state.
        try:
            yielding = who_yields(self._open_requests.values(), request.network, PLACES)
        except NoPlaceError:
            request.socket.close()
            return
        if yielding is not None:
            self._close_request(yielding)
        self._open_requests[request.socket.fileno()] = request
        self._selector.register(request.socket, selectors.EVENT_READ)
        self._serve_request(request)  # in most cases its request has already come

    def _close_request(self, request: _Request) -> None:
        del self._open_requests[request.socket.fileno()]
        if not request.is_due:
            self._selector.unregister(request.socket)
        request.socket.close()

    def _due_requests(self) -> list[_Request]:
        return [request for request in self._open_requests.values() if request.is_due]

    def _serve_request(self, request: _Request) -> None:
        """Read received data, or send a part of the answer."""
        try:
            is_over = self._send_rest(request) if request.unsent_bytes is not None else self._receive_head(request)
        except BlockingIOError:
            return
        except OSError as error:
            _LOG.debug("a request for metrics broke off: %s", error)
            is_over = True
        if is_over:
            self._close_request(request)

    def _receive_head(self, request: _Request) -> bool:
        """Read from a connection; return True if it has ended or broken a limit."""
        data = request.socket.recv(REQUEST_BYTES_MAX, socket.MSG_DONTWAIT)
        request.received_head += data
        if _END_OF_HEAD not in request.received_head:
            return not data or len(request.received_head) > REQUEST_BYTES_MAX
        refusal_response = _refusal_of(bytes(request.received_head))
        # Not watched while it waits, so that a client that goes on sending cannot wake this thread.
        self._selector.unregister(request.socket)
        if refusal_response is not None:
            self._start_answer(request, refusal_response)
            return self._send_rest(request)
        request.is_due = True
        return False

    def _answer_due(self) -> None:
        """Compute the figures for all waiting requests, at the pace of all answers."""
        now, due = time.monotonic(), self._due_requests()
        if not due or now < self._answers_from:
            return
        self._answers_from = now + 1 / ANSWERED_PER_SECOND
        figures = self._figures()
        for request in due:
            request.is_due = False
            self._start_answer(request, figures)
            self._serve_request(request)

    def _start_answer(self, request: _Request, answer_bytes: bytes) -> None:
        request.unsent_bytes = memoryview(answer_bytes)
        self._selector.register(request.socket, selectors.EVENT_WRITE)

    def _send_rest(self, request: _Request) -> bool:
        """Return whether the answer is sent whole."""
        assert request.unsent_bytes is not None, "a request in the sending phase has an answer"
        sent_bytes = request.socket.send(request.unsent_bytes, socket.MSG_DONTWAIT)
        request.unsent_bytes = request.unsent_bytes[sent_bytes:]
        return not request.unsent_bytes

    def _figures(self) -> bytes:
        """Return the whole response to a request for the metrics; no bytes if a figure cannot be read."""
        try:
            return _response("200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry))
        except Exception:  # noqa: BLE001  # an unreadable figure ends these answers only
            _LOG.exception("the figures cannot be read")
            return b""


def _refusal_of(head: bytes) -> bytes | None:
    """Return the whole response to any other request, by its first line."""
    method, _, after_method = head.partition(b" ")
    path = after_method.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET":
        return _response("405 Method Not Allowed", "text/plain", b"GET only\n")
    if path not in {b"/", b"/metrics"}:
        return _response("404 Not Found", "text/plain", b"the figures are at /metrics\n")
    return None


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
