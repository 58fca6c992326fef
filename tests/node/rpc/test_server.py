"""The RPC server against greedy clients: memory, time, subscriptions and log lines are bounded in total."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from socket import create_connection
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from http_server.server import ACCEPTED_AT_ONCE
from http_server.turns import Turns
from node.rpc import connection as connection_module
from node.rpc import jsonrpc
from node.rpc.callers import Callers, RpcCaller
from node.rpc.connection import SILENT_SECONDS, ClientConnection, SharedLimits
from node.rpc.held_bytes import HeldBytes
from node.rpc.jsonrpc import JsonRpcError
from node.rpc.registry import Registry, method, subscription
from node.rpc.server import Bodies, Server, ServerOptions
from node.rpc.subscriptions.shares import SubscriptionShares
from node.rpc.work import Work

MEBIBYTE = 1024 * 1024
PAGE = {"Origin": "http://127.0.0.1:3000"}
EVIL = {"Origin": "https://evil.example"}


class Calls:
    """Methods with something to measure."""

    def __init__(self) -> None:
        self.calls = 0
        self.seen: list[str] = []

    @method("large")
    def large(self) -> str:
        """Three mebibytes."""
        self.calls += 1
        return "x" * 3 * MEBIBYTE

    @method("note")
    def note(self, name: str) -> str:
        """Remember the order of calls."""
        self.calls += 1
        self.seen.append(name)
        sum(range(10_000))
        return name

    @subscription("subscribe", notification="item", unsubscribe=("unsubscribe",))
    async def items(self) -> AsyncIterator[int]:
        """One item, and no more."""
        yield 1
        await asyncio.Event().wait()


def serve(body: Callable[[Server, Calls, str], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        calls = Calls()
        server = Server(Registry([calls]), ServerOptions(port=0, **options))
        async with server.listening() as port:
            await body(server, calls, f"127.0.0.1:{port}")

    asyncio.run(asyncio.wait_for(main(), 60))


def caller() -> RpcCaller:
    return RpcCaller(calls_left=1_000.0)


def call(name: str, *params: Any, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": name, "params": list(params)}


def test_of_many_who_connect_at_once_a_few_are_taken_in_before_others_are_heard() -> None:
    """64 at a time held the loop for a tenth of a second. The system keeps the waiting connections."""

    async def body(server: Server, calls: Calls, address: str) -> None:
        host, port = address.split(":")
        before = len(asyncio.all_tasks())
        crowd = [create_connection((host, int(port)), timeout=10) for _ in range(100)]  # before the loop has a turn
        most = taken = 0
        while taken < len(crowd):
            await asyncio.sleep(0)
            now = len(asyncio.all_tasks()) - before
            most, taken = max(most, now - taken), max(taken, now)
        assert most <= 2 * ACCEPTED_AT_ONCE  # each is a task while it is taken in, and from then on another
        for member in crowd:
            member.close()
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0.01)

    serve(body)


def test_a_batch_answers_no_more_than_one_response_may_hold() -> None:
    handler = Calls()
    server = Server(Registry([handler]), ServerOptions())
    body = json.dumps([{"jsonrpc": "2.0", "method": "large", "id": number} for number in range(100)]).encode()
    text = asyncio.run(server._answer_body(body, None, Work(Turns(), caller())))
    assert text is not None
    assert len(text) < jsonrpc.MAX_RESPONSE_BYTES + 100 * 200
    answers = json.loads(text)
    assert [answer["id"] for answer in answers] == list(range(100))
    assert ["result" in answer for answer in answers[:4]] == [True, True, True, False]
    assert handler.calls == 4


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (EVIL, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"Origin": "http://localhost:80@evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:9944", **PAGE}, 403),
        ({"Host": "localhost:9944@evil.example"}, 403),
        ({"Host": "127.0.0.1:evil"}, 403),
        ({"Host": "127.0.0.1:"}, 403),
        ({"Host": "[::1].evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_who_may_not_ask_has_nothing_carried_out(headers: dict[str, str], status: int) -> None:
    async def body(_server: Server, calls: Calls, at: str) -> None:
        sent = {"Content-Type": "application/json", **headers}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"http://{at}/", data=json.dumps(call("note", "x")), headers=sent) as response:
                assert response.status == status
            if status == 403:
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(f"http://{at}/", headers=headers)
                for verb, path in (("GET", "/health"), ("GET", "/health/readiness"), ("OPTIONS", "/")):
                    async with session.request(verb, f"http://{at}{path}", headers=headers) as response:
                        assert response.status == 403
        assert calls.calls == 0

    serve(body)


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1:1", "http://localhost", "https://polkadot.js.org"]
)
def test_this_machine_and_the_common_wallet_may_ask(origin: str) -> None:
    async def body(_server: Server, _calls: Calls, at: str) -> None:
        headers = {"Origin": origin}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"http://{at}/", json=call("note", "x"), headers=headers) as response:
                assert response.status == 200
                assert response.headers["Access-Control-Allow-Origin"] == origin
            async with session.ws_connect(f"http://{at}/", headers=headers) as socket:
                await socket.send_json(call("note", "x"))
                assert (await socket.receive_json())["result"] == "x"

    serve(body)


@pytest.mark.parametrize("host", ["LOCALHOST", "Localhost:9944", "127.0.0.1", "127.0.0.1:1", "[::1]:9944", "[::1]"])
def test_names_of_this_machine(host: str) -> None:
    async def body(_server: Server, _calls: Calls, at: str) -> None:
        headers = {"Host": host}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{at}/", json=call("note", "x"), headers=headers) as response,
        ):
            assert response.status == 200

    serve(body)


def test_a_batch_gives_way_to_others() -> None:
    async def body(_server: Server, calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session, aiohttp.ClientSession() as other:
            async with other.post(f"http://{at}/", json=call("note", "honest")):
                pass
            calls.seen.clear()
            batch = [call("note", "greedy", number=number) for number in range(500)]
            greedy = asyncio.create_task(session.post(f"http://{at}/", json=batch))
            while not calls.seen:
                await asyncio.sleep(0)
            async with other.post(f"http://{at}/", json=call("note", "honest")) as response:
                assert (await response.json())["result"] == "honest"
            assert "honest" in calls.seen[:-1]
            (await greedy).release()

    serve(body)


def test_the_calls_of_a_minute_are_counted_over_http_too() -> None:
    async def body(_server: Server, _calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session:
            codes = []
            for _ in range(7):
                async with session.post(f"http://{at}/", json=call("note", "x")) as response:
                    codes.append((await response.json()).get("error", {}).get("code"))
            assert codes == [None] * 5 + [-32999] * 2

    serve(body, calls_per_minute=5)


def test_one_address_is_one_caller_whatever_its_port() -> None:
    def peer(host: str, port: int) -> asyncio.BaseTransport:
        return cast(asyncio.BaseTransport, SimpleNamespace(get_extra_info=lambda _: (host, port)))

    callers = Callers(10)
    assert callers.of(peer("203.0.113.7", 1)) is callers.of(peer("203.0.113.7", 2))
    assert callers.of(peer("203.0.113.7", 1)) is not callers.of(peer("203.0.113.8", 1))
    assert callers.of(peer("2001:db8::1", 1)) is callers.of(peer("2001:db8::2", 2))
    assert callers.of(peer("127.0.0.1", 1)) is not callers.of(peer("127.0.0.1", 2))
    assert callers.of(peer("127.0.0.66", 1)) is callers.of(peer("127.0.0.66", 2))
    for number in range(10_000):
        callers.of(peer(f"10.0.{number // 256}.{number % 256}", 1))
    assert len(callers._known_callers) <= 4096


def played_connection(limits: SharedLimits, aborted: list[str], name: str) -> ClientConnection:
    request = SimpleNamespace(transport=SimpleNamespace(abort=lambda: aborted.append(name)))
    socket = cast(web.WebSocketResponse, SimpleNamespace(_req=request))

    async def no_answer(_data: bytes, _connection: ClientConnection) -> str | None:
        return None

    return ClientConnection(socket, caller(), limits, no_answer)


def test_a_client_that_does_not_read_is_dropped_once_and_is_dead(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        limits = SharedLimits(SubscriptionShares(1024, 100), SubscriptionShares(1024, 100))
        aborted: list[str] = []
        connection = played_connection(limits, aborted, "slow")
        with caplog.at_level(logging.INFO):
            for _ in range(200):
                connection._queue_message("x" * MEBIBYTE)
                assert limits.held_bytes.total <= connection_module.OUTBOX_BYTES_MAX
        assert aborted == ["slow"]
        assert connection.outbox.empty()
        assert len(caplog.records) == 1

    asyncio.run(scenario())


def test_all_outboxes_together_are_bounded_and_the_fullest_pays() -> None:
    async def scenario() -> None:
        limits = SharedLimits(
            SubscriptionShares(1024, 100), SubscriptionShares(1024, 100), held_bytes=HeldBytes(20 * MEBIBYTE)
        )
        aborted: list[str] = []
        modest = played_connection(limits, aborted, "modest")
        modest._queue_message("x" * MEBIBYTE)
        greedy = [played_connection(limits, aborted, f"greedy {number}") for number in range(10)]
        for connection in greedy:
            for _ in range(5):
                connection._queue_message("x" * MEBIBYTE)
                assert limits.held_bytes.total <= 20 * MEBIBYTE
        assert 7 <= len(aborted) == len(set(aborted))
        assert "modest" not in aborted
        assert not modest.is_dropped

    asyncio.run(scenario())


def test_subscriptions_are_bounded_for_all_and_everybody_has_a_share() -> None:
    shares = SubscriptionShares(each_max=1024, connection_count=10, total_max=1000)
    held = [0] * 10

    def subscribe(number: int) -> bool:
        try:
            shares.take(held[number])
        except JsonRpcError:
            return False
        held[number] += 1
        return True

    while subscribe(0):
        pass
    assert held[0] == 550
    for number in range(1, 10):
        for _ in range(50):
            assert subscribe(number)
        assert not subscribe(number)
    assert sum(held) == 1000
    for number in range(10):
        while held[number]:
            shares.give_back(held[number])
            held[number] -= 1
    assert shares._shared_left == 500


def test_subscriptions_end_with_their_connection() -> None:
    async def body(server: Server, _calls: Calls, at: str) -> None:
        before = server.shared.subscriptions._shared_left
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.ws_connect(f"http://{at}/") as socket:
                    await socket.send_json([call("subscribe", number=number) for number in range(40)])
                    answers = await socket.receive_json()
                    assert all("result" in answer for answer in answers)
                    for _ in range(40):
                        await socket.receive_json()
                    await socket.send_json(call("unsubscribe", answers[0]["result"]))
                    assert (await socket.receive_json())["result"] is True
                    assert server.shared.subscriptions._shared_left == before - 19
        while server.connections:
            await asyncio.sleep(0.01)
        assert server.shared.subscriptions._shared_left == before
        assert server.shared.held_bytes.total == 0

    serve(body)


def test_more_subscriptions_than_one_connection_may_have() -> None:
    async def body(_server: Server, _calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{at}/") as socket:
            await socket.send_json([call("subscribe", number=number) for number in range(3)])
            answers = await socket.receive_json()
            assert ["result" in answer for answer in answers] == [True, True, False]
            assert answers[2]["error"] == {
                "code": -32006,
                "message": "Too many subscriptions on the connection",
                "data": "Exceeded max limit of 2",
            }

    serve(body, max_subscriptions=2)


def test_clients_that_leave_in_the_middle_leave_no_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def body(server: Server, _calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session:
            for number in range(20):
                socket = await session.ws_connect(f"http://{at}/")
                await socket.send_json([call("large"), *[call("subscribe") for _ in range(50)]])
                if number % 2:
                    await socket.ping()
                await asyncio.sleep(0.02)
                transport = socket.get_extra_info("socket")
                assert transport is not None
                cast(Any, socket._response.connection).transport.abort()
        while server.connections:
            await asyncio.sleep(0.01)

    with caplog.at_level(logging.INFO):
        serve(body)
    assert not [record for record in caplog.records if record.exc_info]
    assert len(caplog.records) <= 1


def test_a_websocket_that_nobody_uses_yields_to_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(server: Server, _calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session:
            busy = await session.ws_connect(f"http://{at}/")
            await busy.send_json(call("subscribe"))
            await busy.receive_json()
            idle = await session.ws_connect(f"http://{at}/")
            await idle.send_json(call("note", "used once"))
            await idle.receive_json()
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"http://{at}/")
            monkeypatch.setattr("node.rpc.connection.SILENT_SECONDS", 0.0)
            async with session.ws_connect(f"http://{at}/") as new:
                await new.send_json(call("note", "x"))
                assert (await new.receive_json())["result"] == "x"
            assert (await idle.receive()).type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE}
            assert not busy.closed
            await busy.close()
        assert len(server.connections) <= 2

    serve(body, max_connections=2)


@pytest.mark.parametrize("silent_for", [0, 2 * SILENT_SECONDS])
def test_n9_a_websocket_that_never_asked_anything_yields_before_one_that_did(
    monkeypatch: pytest.MonkeyPatch, silent_for: float
) -> None:
    monkeypatch.setattr("node.rpc.connection.UNUSED_SECONDS", 0.0)

    async def body(server: Server, _calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session:
            used = await session.ws_connect(f"http://{at}/")
            await used.send_json(call("note", "x"))
            await used.receive_json()
            unused = await session.ws_connect(f"http://{at}/")
            for connection in server.connections:
                connection.heard_at -= silent_for
            async with session.ws_connect(f"http://{at}/") as new:
                await new.send_json(call("note", "x"))
                await new.receive_json()
                assert (await unused.receive()).type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE}
                for connection in server.connections:
                    connection.heard_at += silent_for
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(f"http://{at}/")
                await used.send_json(call("note", "still here"))
                assert (await used.receive_json())["result"] == "still here"
            await used.close()

    serve(body, max_connections=2)


def test_slow_bodies_are_in_nobody_elses_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(_server: Server, _calls: Calls, at: str) -> None:
        monkeypatch.setattr("node.rpc.server.BODIES_MAX", 4)
        monkeypatch.setattr("node.rpc.server.BODY_SECONDS", 20.0)  # clients are dropped only by their age
        host, port = at.split(":")
        head = f"POST / HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n["
        slow = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head.encode())
            slow.append((reader, writer))
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{at}/", json=call("note", "x")) as response,
        ):
            assert (await response.json())["result"] == "x"
        assert (await asyncio.wait_for(slow[0][0].readline(), 5)).startswith(b"HTTP/1.1 408")
        for reader, writer in slow:
            writer.write_eof()
            await reader.read()  # until the server has seen it leave: a closing one waits for those inside
            writer.close()

    serve(body)


def test_of_too_many_bodies_each_newcomer_gives_up_another_and_one_that_ends_is_read_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def main() -> None:
        monkeypatch.setattr("node.rpc.server.BODIES_MAX", 2)
        monkeypatch.setattr("node.rpc.server.body_of", never)
        request: Any = SimpleNamespace(content=SimpleNamespace(is_eof=lambda: False))
        bodies = Bodies()
        reading = [asyncio.create_task(bodies.read(request, 100)) for _ in range(6)]
        await asyncio.sleep(0)
        assert len(bodies._reading_tasks) == 2
        await asyncio.wait(reading[:4], timeout=10)
        for given_up in reading[:4]:
            with pytest.raises(web.HTTPRequestTimeout):
                given_up.result()
        left, stays = bodies._reading_tasks
        reading[4].cancel()
        await asyncio.wait([reading[4], left], timeout=10)
        assert left.cancelled()
        assert list(bodies._reading_tasks) == [stays]
        monkeypatch.setattr("node.rpc.server.BODY_SECONDS", 0.01)
        slow = asyncio.create_task(bodies.read(request, 100))
        await asyncio.sleep(0)
        _, read = bodies._reading_tasks
        with pytest.raises(web.HTTPRequestTimeout):
            await slow
        await asyncio.wait([read], timeout=10)
        assert read.cancelled()
        reading[5].cancel()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_long_answer_tells_its_length_and_a_page_may_ask_before_it_posts() -> None:
    async def body(_server: Server, _calls: Calls, at: str) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.post(f"http://{at}/", json=call("large")) as response:
                assert response.content_length == len(await response.read())
                assert response.content_type == "application/json"
            async with session.options(f"http://{at}/", headers=PAGE) as response:
                assert response.status == 200
                assert response.headers["Access-Control-Allow-Origin"] == PAGE["Origin"]

    serve(body, cors=(PAGE["Origin"],))


@pytest.mark.parametrize(
    ("health", "status"),
    [
        ({"isSyncing": False, "peers": 0, "shouldHavePeers": False}, 200),
        ({"isSyncing": False, "peers": 1, "shouldHavePeers": True}, 200),
        ({"isSyncing": False, "peers": 0, "shouldHavePeers": True}, 500),
        ({"isSyncing": True, "peers": 1, "shouldHavePeers": False}, 500),
    ],
)
def test_a_node_is_ready_with_its_peers_and_its_blocks(health: dict[str, Any], status: int) -> None:
    class Healthy:
        @method("system_health")
        def system_health(self) -> dict[str, Any]:
            """Return the system's health."""
            return health

    async def main() -> None:
        server = Server(Registry([Healthy()]), ServerOptions(port=0))
        async with server.listening() as port, aiohttp.ClientSession() as session:
            for path, expected in (("/health", 200), ("/health/readiness", status)):
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    assert (response.status, await response.json()) == (expected, health)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_websocket_is_pinged_and_its_own_pings_and_pongs_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(server: Server, _calls: Calls, at: str) -> None:
        turns = server.shared.turns
        take, taken = turns.take, []

        async def counted(caller: Any) -> None:
            taken.append(caller)
            await take(caller)

        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"ws://{at}/", autoping=False, compress=15) as socket,
        ):
            assert socket.compress == 0
            assert (await socket.receive()).type is aiohttp.WSMsgType.PING
            monkeypatch.setattr("node.rpc.server.HEARTBEAT_SECONDS", 1_000.0)
        async with aiohttp.ClientSession() as session, session.ws_connect(f"ws://{at}/", autoping=False) as socket:
            monkeypatch.setattr(turns, "take", counted)
            await socket.pong(b"unasked")
            await socket.ping(b"asked")
            answer = await socket.receive()
            assert (answer.type, answer.data) == (aiohttp.WSMsgType.PONG, b"asked")
            assert len(taken) == 2
            await socket.send_bytes(b"x" * (MEBIBYTE + 1))
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG

    monkeypatch.setattr("node.rpc.server.HEARTBEAT_SECONDS", 0.05)
    serve(body, limits=jsonrpc.RequestLimits(request_mebibytes=1))
