"""Crowds at the real RPC server: half headers, bodies in single bytes, and subscriptions on every WebSocket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import aiohttp
import pytest

from http_server.door import DoorLimits, PacedTransport
from http_server.places import PlaceLimits
from http_server.turns import Turns
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import RequestLimits
from node.rpc.registry import Registry, method, subscription
from node.rpc.server import Server, ServerOptions
from wallet.rpc import NodeRefusesError, RpcConnection

HOST = "127.0.0.1"
STRANGERS = tuple(f"127.0.0.{number}" for number in range(66, 70))
JSON_HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


class Echo:
    """Methods and a subscription."""

    def __init__(self) -> None:
        self.waiting, self.over = 0, asyncio.Event()

    @method("echo")
    def echo(self, text: str) -> str:
        """The same."""
        return text

    @method("wait")
    async def wait(self) -> None:
        """Answer at the test's command."""
        self.waiting += 1
        await self.over.wait()

    @subscription("subscribe", notification="item", unsubscribe=("unsubscribe",))
    async def items(self) -> AsyncIterator[int]:
        """One item, and no more."""
        yield 1
        await asyncio.Event().wait()


def serve(body: Callable[[Server, str, "Crowd"], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        server = Server(Registry([Echo()]), ServerOptions(port=0, **options))
        async with server.listening() as port, Crowd(port) as crowd:
            await body(server, f"http://{HOST}:{port}/", crowd)

    asyncio.run(asyncio.wait_for(main(), 60))


def posted(name: str, size: int = 0) -> bytes:
    """A whole request, its body filled up to a size with spaces."""
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": ["x"] * (name == "echo")}).encode()
    text = text.ljust(size)
    return JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(text) + text


class Crowd:
    """Connections and sessions of strangers, all closed at the end."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writers: list[asyncio.StreamWriter] = []
        self.sessions: dict[str, aiohttp.ClientSession] = {}
        self.sockets: list[aiohttp.ClientWebSocketResponse] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket in self.sockets:
            await socket.close()  # a session's end gives no WebSocket's connection back
        for session in self.sessions.values():
            await session.close()
        for writer in self.writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def send(self, data: bytes, source: str = STRANGERS[0]) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(HOST, self.port, local_addr=(source, 0))
        self.writers.append(writer)
        writer.write(data)
        return reader

    async def subscribe(self, source: str) -> aiohttp.ClientWebSocketResponse:
        session = self.sessions.get(source)
        if session is None:
            connector = aiohttp.TCPConnector(local_addr=(source, 0), limit=0)
            session = self.sessions[source] = aiohttp.ClientSession(connector=connector)
        socket = await session.ws_connect(f"http://{HOST}:{self.port}/")
        await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": []})
        self.sockets.append(socket)  # an unreferenced one is closed
        assert "result" in await socket.receive_json()
        return socket


async def echo(url: str, source: str = HOST) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": ["x"]}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=(source, 0))) as session,
        session.post(url, json=body) as response,
    ):
        return str((await response.json())["result"])


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return all bytes before the end, also where a reset cut off the client's own."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            received += data
    return received + bytes(reader._buffer)  # type: ignore[attr-defined]  # a failed write hides it from `read`


@pytest.mark.parametrize(
    ("most", "connections", "sockets"),
    [
        (100, PlaceLimits(500, 125, 62), PlaceLimits(100, 25, 12)),
        (400, PlaceLimits(800, 200, 100), PlaceLimits(400, 100, 50)),
        (1, PlaceLimits(401, 100, 50), PlaceLimits(1, 1, 0)),
    ],
)
def test_an_address_has_a_fourth_and_this_machine_an_eighth(
    most: int, connections: PlaceLimits, sockets: PlaceLimits
) -> None:
    server = Server(Registry([Echo()]), ServerOptions(port=0, max_connections=most))
    assert server.http.door.limits == DoorLimits(connections, 30.0)
    assert server._sockets_limits == sockets
    assert server.http._options["keepalive_timeout"] == 30.0


def test_half_heads_are_bounded_and_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.rpc.server.POSTING_MAX", 20)

    async def body(server: Server, url: str, crowd: Crowd) -> None:
        for number in range(120):
            await crowd.send(JSON_HEAD, STRANGERS[number % 2])
        assert await echo(url) == "x"
        assert await echo(url, STRANGERS[2]) == "x"
        assert len(server.http.door) <= 12

    serve(body, max_connections=4)


def test_a_head_that_never_ends_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.rpc.server.IDLE_SECONDS", 0.2)

    async def body(_server: Server, _url: str, crowd: Crowd) -> None:
        reader = await crowd.send(JSON_HEAD + b"X-Slow: ")

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    crowd.writers[0].write(b"x")
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert not await ended(reader)
        dripping.cancel()

    serve(body)


def test_idle_connections_do_not_end_one_that_waits_for_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.rpc.server.POSTING_MAX", 4)

    async def body(server: Server, url: str, crowd: Crowd) -> None:
        asking = await crowd.send(posted("wait"))
        methods = server.registry.find("wait", unsafe_allowed=False).handler.__self__  # type: ignore[attr-defined]
        while not methods.waiting:
            await asyncio.sleep(0.001)
        idle = [await crowd.send(JSON_HEAD) for _ in range(6)]
        assert not await ended(idle[0])
        assert await echo(url) == "x"
        methods.over.set()
        assert (await asking.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    serve(body, max_connections=4)


@pytest.mark.parametrize(("mebibytes", "more", "status"), [(1, 0, b"200"), (1, 1, b"413"), (2, 1, b"200")])
def test_a_body_has_as_many_bytes_as_the_operator_allows(mebibytes: int, more: int, status: bytes) -> None:
    async def body(_server: Server, _url: str, crowd: Crowd) -> None:
        reader = await crowd.send(posted("echo", size=2**20 + more))
        assert (await reader.readline()).startswith(b"HTTP/1.1 " + status)

    serve(body, limits=RequestLimits(mebibytes, 500))


def test_a_small_answer_is_sent_in_one_piece_and_a_large_one_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    write = PacedTransport.write

    def note(transport: PacedTransport, data: bytes) -> None:
        sent.append(len(data))
        write(transport, data)

    monkeypatch.setattr(PacedTransport, "write", note)
    monkeypatch.setattr("node.rpc.server.SENT_BYTES", 1_000)

    async def body(_server: Server, _url: str, crowd: Crowd) -> None:
        for size, pieces in ((900, 1), (5_000, 5)):
            sent.clear()
            call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": ["y" * size]}).encode()
            reader = await crowd.send(JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(call) + call)
            await reader.readuntil(b"y" * size)
            assert len(sent) == 1 if pieces == 1 else len(sent) >= pieces

    serve(body)


def test_a_body_that_is_here_whole_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.rpc.server.BODIES_MAX", 1)
    whole = posted("echo")

    async def body(server: Server, _url: str, crowd: Crowd) -> None:
        slow = await crowd.send(whole[:-5])
        while not server._post_bodies._reading_tasks:
            await asyncio.sleep(0.001)
        for _ in range(3):
            assert (await (await crowd.send(whole, STRANGERS[1])).readline()).startswith(b"HTTP/1.1 200")
        crowd.writers[0].write(whole[-5:])
        assert (await slow.readline()).startswith(b"HTTP/1.1 200")

    serve(body)


def test_bodies_in_crumbs_are_refused() -> None:
    async def body(server: Server, url: str, crowd: Crowd) -> None:
        head = JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        readers = [await crowd.send(head + b"1\r\na\r\n" * 20_000) for _ in range(5)]
        for reader in readers:
            assert (await ended(reader)).startswith(b"HTTP/1.1 400")
        assert await echo(url) == "x"
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": ["y" * 5_000]}).encode()
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:100], text[100:]))
        whole = await crowd.send(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + pieces + b"0\r\n\r\n")
        assert b"yyyy" in await ended(whole)

    serve(body)


def test_subscriptions_of_four_addresses_keep_nobody_out() -> None:
    async def body(server: Server, url: str, crowd: Crowd) -> None:
        held = [await crowd.subscribe(source) for source in STRANGERS for _ in range(2)]
        assert len(server.connections) == 8
        here = await crowd.subscribe(HOST)
        there = await crowd.subscribe("127.0.0.90")
        assert not here.closed
        await held[0].receive_json()  # its item
        assert (await held[0].receive()).type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}
        assert len(server.connections) <= 9
        for _ in range(3):
            with contextlib.suppress(aiohttp.WSServerHandshakeError):
                await crowd.subscribe(STRANGERS[1])
        for socket in (here, there):
            await socket.send_json({"jsonrpc": "2.0", "id": 2, "method": "echo", "params": ["z"]})
            answers = [await socket.receive_json() for _ in range(2)]
            assert "z" in [answer.get("result") for answer in answers]

    serve(body, max_connections=9)


def test_a_refusal_says_that_there_are_too_many() -> None:
    async def body(_server: Server, url: str, crowd: Crowd) -> None:
        for source in STRANGERS[:3]:
            await crowd.subscribe(source)
        await crowd.subscribe(HOST)
        refusals = []
        for source in (STRANGERS[0], STRANGERS[3], HOST):
            connector = aiohttp.TCPConnector(local_addr=(source, 0))
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
            headers = {**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(url, headers=headers) as response,
            ):
                refusals.append((response.status, await response.text()))
        assert refusals == [(503, "too many connections")] * 3
        with pytest.raises(NodeRefusesError) as refused:
            await RpcConnection.open(url.replace("http", "ws"))
        assert refused.value.status == 503

    serve(body, max_connections=4)


def turns_taken(monkeypatch: pytest.MonkeyPatch) -> list[RpcCaller]:
    turns: list[RpcCaller] = []
    take = Turns.take

    async def noted(self: Turns, caller: RpcCaller) -> None:
        turns.append(caller)
        await take(self, caller)

    monkeypatch.setattr(Turns, "take", noted)
    return turns


def test_each_ping_is_answered_in_its_caller_s_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = turns_taken(monkeypatch)

    async def body(server: Server, url: str, _crowd: Crowd) -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(url, autoping=False) as socket:
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": ["x"]})
            await socket.receive_json()
            turns.clear()
            for _ in range(50):
                await socket.ping(b"here")
            pongs = [await socket.receive() for _ in range(50)]
            assert {(message.type, bytes(message.data)) for message in pongs} == {(aiohttp.WSMsgType.PONG, b"here")}
        assert len(turns) >= 50


def test_each_pong_is_read_in_its_caller_s_turn_and_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = turns_taken(monkeypatch)

    async def body(server: Server, url: str, _crowd: Crowd) -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(url, autoping=False) as socket:
            for _ in range(50):
                await socket.pong(b"unasked")
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": ["x"]})
            assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
        assert len(turns) >= 50

    serve(body)


def test_the_time_of_reading_and_of_calls_is_counted_for_one_caller() -> None:
    async def body(server: Server, _url: str, crowd: Crowd) -> None:
        await crowd.subscribe(STRANGERS[0])
        (connection,) = server.connections
        assert server.http.door.turns is server.shared.turns
        assert [visitor.caller for visitor in server.http.door._inside.values()] == [connection.caller]

    serve(body)
