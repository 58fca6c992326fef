"""A WebSocket over trio, on the protocol of the library `websockets`, which has no trio client."""

from __future__ import annotations

import json
from typing import Any

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from devnet.proofs.flood.http_client import LOOPBACK, READ_BYTES, call

MESSAGE_BYTES_MAX = 64 * 1024 * 1024


class WebSocketError(Exception):
    """The node refused the connection, or ended it."""


class WebSocket(trio.abc.AsyncResource):
    """One connection; `receive` must be called for anything to be read, pings included."""

    def __init__(self, stream: trio.SocketStream, protocol: ClientProtocol) -> None:
        """Use `open_socket`."""
        self.stream = stream
        self._protocol = protocol
        self._texts: list[bytes] = []

    async def send(self, text: bytes) -> None:
        """Send one message."""
        self._protocol.send_text(text)
        await self._flush()

    async def receive(self) -> Any:
        """The next message, as a value.  Raises `WebSocketError` when the connection is over."""
        while not self._texts:
            await self._pump()
        return json.loads(self._texts.pop(0))

    async def call(self, method: str, *params: Any) -> Any:
        """The answer to one call; what is told meanwhile is left out."""
        await self.send(json.dumps(call(method, *params)).encode())
        while True:
            message = await self.receive()
            if "id" in message:
                return message

    async def ping(self) -> None:
        """Ask for a pong."""
        self._protocol.send_ping(b"")
        await self._flush()

    async def aclose(self) -> None:
        """End it, without ceremony."""
        await trio.aclose_forcefully(self.stream)

    async def _pump(self) -> None:
        data = await self.stream.receive_some(READ_BYTES)
        if not data:
            raise WebSocketError("the node ended the connection")
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            self._take(event)
        await self._flush()

    def _take(self, event: object) -> None:
        if isinstance(event, Response):
            if self._protocol.handshake_exc is not None:
                raise WebSocketError(f"refused with status {event.status_code}")
        elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
            self._texts.append(bytes(event.data))
        elif isinstance(event, Frame) and event.opcode is Opcode.CLOSE:
            raise WebSocketError("the node closed the connection")

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self.stream.send_all(data)

    async def _open(self) -> None:
        self._protocol.send_request(self._protocol.connect())
        await self._flush()
        while self._protocol.state is State.CONNECTING:
            await self._pump()


async def open_socket(port: int, source: str) -> WebSocket:
    """A connection that is open.  Raises `WebSocketError`, `OSError`, and trio's errors of broken streams."""
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=source)
    opened = WebSocket(stream, ClientProtocol(parse_uri(f"ws://{LOOPBACK}:{port}"), max_size=MESSAGE_BYTES_MAX))
    try:
        await opened._open()  # noqa: SLF001  # one idea, a class and its maker
    except InvalidHandshake as error:
        await trio.aclose_forcefully(stream)
        raise WebSocketError(str(error)) from error
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return opened
