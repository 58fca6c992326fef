"""The server keeps nothing of clients that were cut off, or left before the answer."""

import asyncio
import contextlib
import gc
import json
import weakref
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from node.rpc.registry import Registry, method
from node.rpc.server import SENT_BYTES, PostedRequest, Server, ServerOptions

CALL = {"jsonrpc": "2.0", "id": 1, "method": "note", "params": []}
MUCH_BYTES = 3 * 1024 * 1024


class Notes:
    """One method."""

    @method("note")
    def note(self) -> str:
        """A word."""
        return "noted"

    @method("much")
    def much(self) -> str:
        """More than a socket's buffers take."""
        return "x" * MUCH_BYTES


def new_server() -> Server:
    return Server(Registry([Notes()]), ServerOptions(port=0))


def test_nothing_is_left_of_a_client_that_was_cut_off() -> None:
    """Its heartbeat was due half a minute later, and kept all its input: 260 MB of 400 such clients."""

    async def scenario() -> None:
        server = new_server()
        async with (
            server.listening() as port,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://127.0.0.1:{port}/") as socket,
        ):
            await socket.send_json(CALL)
            await socket.receive_json()
            (connection,) = server.connections
            left = weakref.ref(connection._socket)
            server.shared.held_bytes.drop(connection)
            del connection
            await socket.receive()
            while server.connections:
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            gc.collect()
            assert left() is None

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("ending", [ConnectionResetError, asyncio.CancelledError])
def test_an_answer_is_let_go_of_when_who_asked_has_left(
    ending: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answer:
        pass

    known: list[weakref.ref[Answer]] = []

    async def respond(_server: Server, request: web.Request, _text: str) -> web.StreamResponse:
        answer = Answer()
        known.append(weakref.ref(answer))
        assert request.transport is not None
        request.transport.abort()
        raise ending

    async def scenario() -> None:
        async with new_server().listening() as port, aiohttp.ClientSession() as session:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.post(f"http://127.0.0.1:{port}/", json=CALL):
                    pass
            assert [ref() for ref in known] == [None]

    monkeypatch.setattr(Server, "_send_answer", respond)
    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(scenario(), 60))
    finally:
        gc.enable()


def test_an_answer_waits_once_for_a_slow_reader_and_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited twice, as text and as bytes in the socket's buffer. Each copy of ten megabytes delayed all clients."""
    holders: list[PostedRequest] = []
    asked = PostedRequest.__init__

    def noted(holder: PostedRequest, *arguments: Any) -> None:
        asked(holder, *arguments)
        holders.append(holder)

    monkeypatch.setattr(PostedRequest, "__init__", noted)
    body = json.dumps([{**CALL, "method": "much", "id": number} for number in range(3)])
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )

    async def scenario() -> None:
        async with new_server().listening() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write((head + body).encode())
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.2)
            (transport,) = (holder.transport for holder in holders)
            assert isinstance(transport, asyncio.Transport)
            assert 0 < transport.get_write_buffer_size() < 2 * SENT_BYTES
            received = bytearray()
            while received.count(b'"id"') < 3 or not received.endswith(b"]"):
                received += await reader.read(65536)
            answers = json.loads(received)
            assert [(answer["id"], len(answer["result"])) for answer in answers] == [(n, MUCH_BYTES) for n in range(3)]
            writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
