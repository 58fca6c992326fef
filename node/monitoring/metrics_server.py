"""The figures over HTTP, for Prometheus, in a thread of its own.

What always holds: at most `CONNECTIONS_MAX` connections are open, each for `REQUEST_SECONDS` and `REQUEST_BYTES_MAX` of
request; when one more comes, the oldest one of the address that has most is closed, so who opens them and says nothing
is in nobody else's way. The server computes at most `ANSWERS_PER_SECOND`, for addresses in turn. A silent connection
costs three system calls: while the node computes, this thread may wait five milliseconds for the interpreter after
each, and the whole queue waits with it.
"""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from node.errors import BadInputError

CONNECTIONS_MAX = 32
ACCEPTED_AT_ONCE = 16
"""In one round: of 32 at once, each would be the oldest and closed before what it asks has come."""
QUEUE = 1024
"""Connections that the system holds until they are accepted; who finds it full tries again a second later, or three."""
REQUEST_SECONDS = 5.0
REQUEST_BYTES_MAX = 8 * 1024
ANSWERS_PER_SECOND = 20
"""2.5 ms of the node's own interpreter each: 135 a second took a third of a processor from it."""
REMEMBERED_MAX = 64  # addresses that were answered lately
PAUSE_SECONDS = 0.1  # when the system gives no more files
_END_OF_HEAD = b"\r\n\r\n"
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    """One connection."""

    socket: socket.socket
    address: str
    until: float
    heard: bytearray = field(default_factory=bytearray)
    unsent: memoryview | None = None  # of the answer, once there is one


class MetricsServer:
    """Answers on `/metrics` until closed."""

    def __init__(self, registry: CollectorRegistry, port: int, *, external: bool) -> None:
        """Raises `BadInputError` for a port that is not free."""
        self._registry = registry
        self._open: dict[int, _Request] = {}  # by file number; oldest first
        self._due: dict[_Request, None] = {}  # they wait for a turn, and are not looked at meanwhile; first come first
        self._answered_at: dict[str, float] = {}  # by address; oldest first
        self._answers_from = 0.0
        host = "0.0.0.0" if external else "127.0.0.1"  # noqa: S104  # asked for by a flag
        try:
            self._listener = socket.create_server((host, port), backlog=QUEUE)
        except OSError as error:
            raise BadInputError(
                f"port {port} for metrics is not free ({error.strerror}): "
                "choose another --prometheus-port, or --no-prometheus"
            ) from error
        self._listener.setblocking(False)
        self._end, self._ending = socket.socketpair()
        self._selector = selectors.PollSelector()  # for so few, and to name one to it is no system call
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._end, selectors.EVENT_READ)
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
        for request in tuple(self._open.values()):
            self._close(request)
        self._selector.close()
        self._listener.close()
        self._end.close()

    def _serve_round(self) -> bool:
        """Whatever can be done now; tells whether to go on."""
        oldest = next(iter(self._open.values()), None)
        patience = None if oldest is None else oldest.until - time.monotonic()
        if patience is not None and self._due:
            patience = min(patience, self._answers_from - time.monotonic())
        patience = None if patience is None else max(0.0, patience)
        for key, _ in self._selector.select(patience):
            if key.fileobj is self._end:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif (request := self._open.get(key.fd)) is not None and request.socket is key.fileobj:
                self._go_on(request)
        self._answer_next()
        now = time.monotonic()
        for request in [request for request in self._open.values() if request.until <= now]:
            self._close(request)
        return True

    def _accept(self) -> None:
        """Take in those who wait, some at a time."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                _LOG.debug("a connection for metrics was not accepted: %s", error)
                time.sleep(PAUSE_SECONDS)
                return
            # A thousand idle connections would else use up the files of the process that must write its sign-state.
            if len(self._open) >= CONNECTIONS_MAX:
                self._close_one()
            request = _Request(accepted, str(address[0]), time.monotonic() + REQUEST_SECONDS)
            self._open[accepted.fileno()] = request
            self._selector.register(accepted, selectors.EVENT_READ)
            self._go_on(request)  # it has mostly asked already

    def _close_one(self) -> None:
        ((most, _),) = Counter(request.address for request in self._open.values()).most_common(1)
        oldest = next(request for request in self._open.values() if request.address == most)
        self._close(oldest)

    def _close(self, request: _Request) -> None:
        del self._open[request.socket.fileno()]
        if request in self._due:
            del self._due[request]
        else:
            self._selector.unregister(request.socket)
        request.socket.close()

    def _go_on(self, request: _Request) -> None:
        """Read what has come, or send what can be sent."""
        try:
            is_over = self._step(request)
        except BlockingIOError:
            return
        except OSError as error:
            _LOG.debug("a request for metrics broke off: %s", error)
            is_over = True
        except Exception:  # noqa: BLE001  # a figure of ours that cannot be read ends one answer, not all that come
            _LOG.exception("the figures could not be told")
            is_over = True
        if is_over:
            self._close(request)

    def _step(self, request: _Request) -> bool:
        if request in self._due:
            return self._answered(request, self._figures())
        return self._sent(request) if request.unsent is not None else self._heard(request)

    def _heard(self, request: _Request) -> bool:
        """Whether it is over after what it said last."""
        data = request.socket.recv(REQUEST_BYTES_MAX, socket.MSG_DONTWAIT)
        request.heard += data
        if _END_OF_HEAD not in request.heard:
            return not data or len(request.heard) > REQUEST_BYTES_MAX
        refusal = _refusal(bytes(request.heard))
        if refusal is not None:
            return self._answered(request, refusal)
        self._selector.unregister(request.socket)
        self._due[request] = None
        return False

    def _answer_next(self) -> None:
        """Answer the first of the address that was answered longest ago, at the pace of all answers."""
        now = time.monotonic()
        if not self._due or now < self._answers_from:
            return
        self._answers_from = now + 1 / ANSWERS_PER_SECOND
        request = min(self._due, key=lambda waiting: self._answered_at.get(waiting.address, 0.0))
        self._answered_at.pop(request.address, None)
        self._answered_at[request.address] = now
        if len(self._answered_at) > REMEMBERED_MAX:
            del self._answered_at[next(iter(self._answered_at))]
        self._go_on(request)

    def _answered(self, request: _Request, answer: bytes) -> bool:
        """Tell whether an answer was sent whole."""
        if request in self._due:
            del self._due[request]
        else:
            self._selector.unregister(request.socket)
        request.unsent = memoryview(answer)
        self._selector.register(request.socket, selectors.EVENT_WRITE)
        return self._sent(request)

    def _sent(self, request: _Request) -> bool:
        """Whether the answer is sent whole."""
        assert request.unsent is not None, "who is written to has an answer"
        sent = request.socket.send(request.unsent, socket.MSG_DONTWAIT)
        request.unsent = request.unsent[sent:]
        return not request.unsent

    def _figures(self) -> bytes:
        """Return the whole response to a request for the metrics."""
        return _response("200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry))


def _refusal(head: bytes) -> bytes | None:
    """Return the whole response to any other request, by its first line."""
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET":
        return _response("405 Method Not Allowed", "text/plain", b"GET only\n")
    if path not in {b"/", b"/metrics"}:
        return _response("404 Not Found", "text/plain", b"the figures are at /metrics\n")
    return None


def _response(status: str, kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
