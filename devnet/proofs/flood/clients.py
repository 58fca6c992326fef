"""HTTP by hand, for clients that must be able to break its rules, and a WebSocket over trio.

Invariant: an answer is read to the end of the connection, up to `ANSWER_BYTES_MAX` bytes. The WebSocket uses the
sans-I/O protocol of the library `websockets`, which has no trio client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

LOOPBACK = "127.0.0.1"
ANSWER_BYTES_MAX = 64 * 1024 * 1024
READ_BYTES = 256 * 1024


class BadAnswerError(Exception):
    """The received bytes are no HTTP answer."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and a body."""

    status: int
    body: bytes


def request_head(method: str, path: str, port: int, length: int, headers: Mapping[str, str]) -> bytes:
    """Return the head of an HTTP request."""
    fixed_headers = {"Host": f"{LOOPBACK}:{port}", "Connection": "close", "Content-Length": str(length)}
    header_lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name}: {header_value}" for name, header_value in {**fixed_headers, **headers}.items()),
    ]
    return "\r\n".join([*header_lines, "", ""]).encode()


async def http_request(
    port: int, method: str, path: str, body: bytes, source: str, headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    """Send one request and return its answer.

    Raise OSError, BadAnswerError, or trio's errors of broken streams.
    """
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=source)
    try:
        await stream.send_all(request_head(method, path, port, len(body), headers or {}) + body)
        return parse_answer(await read_all(stream))
    finally:
        await trio.aclose_forcefully(stream)


async def read_all(stream: trio.SocketStream) -> bytes:
    """Return the received bytes, up to the other end's close."""
    received = bytearray()
    while len(received) < ANSWER_BYTES_MAX and (part := await stream.receive_some(READ_BYTES)):
        received += part
    return bytes(received)


def parse_answer(received: bytes) -> HttpAnswer:
    """Return the status and the body, chunked or not. Raise BadAnswerError if the bytes are no answer."""
    answer_head, blank_line, body = received.partition(b"\r\n\r\n")
    status_words = answer_head.split(b" ", 2)
    if not blank_line or len(status_words) < 2 or not status_words[1].isdigit():
        raise BadAnswerError("the connection ended without an answer")
    if b"transfer-encoding: chunked" in answer_head.lower():
        body = _unchunked(body)
    return HttpAnswer(int(status_words[1]), body)


def _unchunked(body: bytes) -> bytes:
    body_bytes = bytearray()
    while body:
        size_line, _, body = body.partition(b"\r\n")
        length = int(size_line, 16)
        body_bytes += body[:length]
        body = body[length + 2 :]
    return bytes(body_bytes)


def rpc_call(method: str, *params: Any, number: int = 1) -> dict[str, Any]:
    """Return a JSON-RPC request as a value."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def rpc_body(method: str, *params: Any) -> bytes:
    """Return a JSON-RPC request as bytes."""
    return json.dumps(rpc_call(method, *params)).encode()


def rpc_batch(calls: list[dict[str, Any]]) -> bytes:
    """Return a batch of JSON-RPC requests as bytes."""
    return json.dumps(calls, separators=(",", ":")).encode()


MESSAGE_BYTES_MAX = 64 * 1024 * 1024


class WebSocketError(Exception):
    """The node refused the connection, or ended it."""


class WebSocket(trio.abc.AsyncResource):
    """One connection. It reads data, pings included, only during `receive`."""

    def __init__(self, stream: trio.SocketStream, protocol: ClientProtocol) -> None:
        """Wrap a stream. Callers use `open_socket` instead."""
        self.stream = stream
        self._protocol = protocol
        self._received_texts: list[bytes] = []

    async def send(self, text: bytes) -> None:
        """Send one message."""
        self._protocol.send_text(text)
        await self._flush()

    async def receive(self) -> Any:
        """Return the next message, as a value. Raise WebSocketError after the end of the connection."""
        while not self._received_texts:
            await self._read_frames()
        return json.loads(self._received_texts.pop(0))

    async def call(self, method: str, *params: Any) -> Any:
        """Return the answer to one call. Notifications in between are dropped."""
        await self.send(json.dumps(rpc_call(method, *params)).encode())
        while True:
            message = await self.receive()
            if "id" in message:
                return message

    async def ping(self) -> None:
        """Send a ping."""
        self._protocol.send_ping(b"")
        await self._flush()

    async def aclose(self) -> None:
        """Close the connection without a closing handshake."""
        await trio.aclose_forcefully(self.stream)

    async def _read_frames(self) -> None:
        part = await self.stream.receive_some(READ_BYTES)
        if not part:
            raise WebSocketError("the node ended the connection")
        self._protocol.receive_data(part)
        for event in self._protocol.events_received():
            self._take_event(event)
        await self._flush()

    def _take_event(self, event: object) -> None:
        if isinstance(event, Response):
            if self._protocol.handshake_exc is not None:
                raise WebSocketError(f"refused with status {event.status_code}")
        elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
            self._received_texts.append(bytes(event.data))
        elif isinstance(event, Frame) and event.opcode is Opcode.CLOSE:
            raise WebSocketError("the node closed the connection")

    async def _flush(self) -> None:
        for outgoing in self._protocol.data_to_send():
            if outgoing:
                await self.stream.send_all(outgoing)

    async def _shake_hands(self) -> None:
        self._protocol.send_request(self._protocol.connect())
        await self._flush()
        while self._protocol.state is State.CONNECTING:
            await self._read_frames()


async def open_socket(port: int, source: str) -> WebSocket:
    """Return an open connection. Raise WebSocketError, OSError, or trio's errors of broken streams."""
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=source)
    opened_socket = WebSocket(stream, ClientProtocol(parse_uri(f"ws://{LOOPBACK}:{port}"), max_size=MESSAGE_BYTES_MAX))
    try:
        await opened_socket._shake_hands()  # noqa: SLF001  # the class and its only factory
    except InvalidHandshake as error:
        await trio.aclose_forcefully(stream)
        raise WebSocketError(str(error)) from error
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return opened_socket
