"""HTTP by hand, for clients that must be able to do it badly: one request on one connection.

What always holds: an answer is read to the end of the connection, and no more than `ANSWER_BYTES_MAX` of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import trio

LOOPBACK = "127.0.0.1"
ANSWER_BYTES_MAX = 64 * 1024 * 1024
READ_BYTES = 256 * 1024


class BadAnswerError(Exception):
    """What came back is no answer."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and a body."""

    status: int
    body: bytes


def request_head(method: str, path: str, port: int, length: int, headers: Mapping[str, str]) -> bytes:
    """The lines before the body."""
    fixed = {"Host": f"{LOOPBACK}:{port}", "Connection": "close", "Content-Length": str(length)}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**fixed, **headers}.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def ask(
    port: int, method: str, path: str, body: bytes, source: str, headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    """One request and its answer.  Raises `OSError`, `BadAnswerError`, and trio's errors of broken streams."""
    stream = await trio.open_tcp_stream(LOOPBACK, port, local_address=source)
    try:
        await stream.send_all(request_head(method, path, port, len(body), headers or {}) + body)
        return parse(await read_all(stream))
    finally:
        await trio.aclose_forcefully(stream)


async def read_all(stream: trio.SocketStream) -> bytes:
    """What comes until the other end closes."""
    received = bytearray()
    while len(received) < ANSWER_BYTES_MAX and (data := await stream.receive_some(READ_BYTES)):
        received += data
    return bytes(received)


def parse(received: bytes) -> HttpAnswer:
    """The status and the body, chunked or not.  Raises `BadAnswerError`."""
    head, mark, body = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not mark or len(words) < 2 or not words[1].isdigit():
        raise BadAnswerError("the connection ended without an answer")
    if b"transfer-encoding: chunked" in head.lower():
        body = _unchunked(body)
    return HttpAnswer(int(words[1]), body)


def _unchunked(body: bytes) -> bytes:
    parts = bytearray()
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        parts += body[:length]
        body = body[length + 2 :]
    return bytes(parts)


def call(method: str, *params: Any, number: int = 1) -> dict[str, Any]:
    """A JSON-RPC request as a value."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def call_body(method: str, *params: Any) -> bytes:
    """A JSON-RPC request as bytes."""
    return json.dumps(call(method, *params)).encode()


def batch_body(calls: list[dict[str, Any]]) -> bytes:
    """A batch as bytes."""
    return json.dumps(calls, separators=(",", ":")).encode()
