"""A real aiohttp server behind its door, and clients that hold connections, are slow, or send single bytes."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from http_server import door as door_module
from http_server import server as server_module
from http_server.door import BODY_READ_BYTES, HEAD_READ_BYTES, ConnectionDoor, DoorLimits, Visitor
from http_server.places import PlaceLimits
from http_server.server import HttpServer, body_of
from http_server.turns import Caller, Turns

HOST = "127.0.0.1"
STRANGER, OTHER = "127.0.0.66", "127.0.0.67"
PLACES = PlaceLimits(6, 3, 2)
HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD_BYTES_MAX = 65_536
BODY_BYTES_MAX = 10_000_000
LARGE_BYTES = 50_000_000
CRUMBS = b"1\r\na\r\n" * 10_000
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """A server with a page that answers, one that reads a body, and one that never ends."""

    def __init__(self, turns: Turns | None = None, idle_seconds: float = 20.0, keepalive_seconds: float = 20.0) -> None:
        app = web.Application()
        app.router.add_get("/", self._answer)
        app.router.add_post("/body", self._read)
        app.router.add_post("/late", self._read_late)
        app.router.add_post("/unread", self._answer)
        app.router.add_route("*", "/busy", self._wait)
        app.router.add_get("/large", self._send_much)
        self.waiting, self.over = 0, asyncio.Event()
        self.moved: list[int] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.http = HttpServer(app, DoorLimits(PLACES, idle_seconds), keepalive_seconds, turns)
        self.port = 0

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(text="here")

    async def _send_much(self, _request: web.Request) -> web.Response:
        return web.Response(body=bytes(LARGE_BYTES))

    async def _read(self, request: web.Request) -> web.Response:
        return web.Response(text=str(len(await body_of(request, BODY_BYTES_MAX, self.moved.append))))

    async def _read_late(self, request: web.Request) -> web.Response:
        self.waiting += 1
        await self.over.wait()
        return await self._read(request)

    async def _wait(self, request: web.Request) -> web.Response:
        with self.http.door.serving(request.transport):
            self.waiting += 1
            await self.over.wait()
        return web.Response()

    async def connect(self, source: str = STRANGER, sent: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection(HOST, self.port, local_addr=(source, 0))
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def ask(self, source: str = HOST, sent: bytes = HEAD + b"Connection: close\r\n\r\n") -> bytes:
        return await ended(await self.connect(source, sent))


@asynccontextmanager
async def open_site(site: Site) -> AsyncIterator[Site]:
    site.port = await site.http.listen(HOST, 0)
    try:
        yield site
    finally:
        site.over.set()
        for writer in site.writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await site.http.close()


def play(body: Callable[[Site], Awaitable[None]], site: Callable[[], Site] = Site) -> None:
    async def main() -> None:
        async with open_site(site()) as opened:
            await body(opened)

    asyncio.run(asyncio.wait_for(main(), 20))


def sizes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each read, of all connections."""
    sizes: list[int] = []
    updated = Visitor.buffer_updated

    def note(visitor: Visitor, size: int) -> None:
        sizes.append(size)
        updated(visitor, size)

    monkeypatch.setattr(Visitor, "buffer_updated", note)
    return sizes


async def ended(client: Client) -> bytes:
    """Return the bytes until the server ended the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await client[0].read(65_536):
            received += data
    return received


def test_half_heads_of_one_address_have_a_part_of_the_places_and_others_are_answered() -> None:
    async def body(site: Site) -> None:
        for _ in range(50):
            await site.connect(sent=HEAD)
        assert (await site.ask(OTHER)).startswith(b"HTTP/1.1 200")
        assert (await site.ask(HOST)).startswith(b"HTTP/1.1 200")
        assert len(site.http.door) <= PLACES.of_network

    play(body)


def test_the_connection_that_was_active_longest_ago_yields_and_one_that_was_served_is_idle_again() -> None:
    async def body(site: Site) -> None:
        first = await site.connect(sent=HEAD.replace(b"GET /", b"GET /busy") + b"\r\n")
        while not site.waiting:
            await asyncio.sleep(0.001)
        others = [await site.connect() for _ in range(PLACES.of_network - 1)]
        while len(site.http.door) < PLACES.of_network:
            await asyncio.sleep(0.001)
        site.over.set()
        await first[0].readuntil(b"\r\n\r\n")
        for yielding in (*others, first):
            await site.connect()
            assert not await ended(yielding)

    play(body)


def test_the_place_of_a_connection_that_yields_is_free_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    enter = ConnectionDoor.enter

    def note(door: ConnectionDoor, visitor: Visitor) -> bool:
        is_inside = enter(door, visitor)
        held.append(len(door))
        return is_inside

    monkeypatch.setattr(ConnectionDoor, "enter", note)

    async def body(site: Site) -> None:
        for _ in range(20):
            await site.connect()
        while len(held) < 20:
            await asyncio.sleep(0.001)
        assert max(held) == PLACES.of_network

    play(body)


def test_a_connection_that_yields_is_not_sent_the_rest_of_its_answer() -> None:
    async def body(site: Site) -> None:
        slow = await site.connect(sent=HEAD.replace(b"GET /", b"GET /large") + b"\r\n")
        await slow[0].readuntil(b"\r\n\r\n")
        for _ in range(PLACES.of_network):
            await site.connect()
        assert len(await ended(slow)) < LARGE_BYTES

    play(body)


def test_a_head_that_drips_has_as_long_as_a_connection_may_idle() -> None:
    async def body(site: Site) -> None:
        client = await site.connect(sent=HEAD)

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    client[1].write(b"X-A: b\r\n")
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert not await ended(client)
        dripping.cancel()
        assert not len(site.http.door)

    play(body, lambda: Site(idle_seconds=0.2))


def test_a_request_may_take_longer_than_a_connection_may_idle() -> None:
    async def body(site: Site) -> None:
        reader, _ = await site.connect(sent=HEAD.replace(b"GET /", b"GET /busy") + b"\r\n")
        await asyncio.sleep(0.5)
        site.over.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    play(body, lambda: Site(idle_seconds=0.1))


def test_a_connection_is_kept_for_as_long_as_it_may_be_between_requests() -> None:
    async def body(site: Site) -> None:
        assert (await ended(await site.connect(sent=HEAD + b"\r\n"))).startswith(b"HTTP/1.1 200")

    play(body, lambda: Site(keepalive_seconds=0.1))


def test_no_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def body(site: Site) -> None:
        with caplog.at_level(logging.INFO):
            assert (await site.ask()).startswith(b"HTTP/1.1 200")
            assert (await site.ask(sent=b"no http at all\r\n\r\n")).startswith(b"HTTP/1.0 400")

    play(body)
    assert not caplog.records


def test_the_limits_are_as_documented() -> None:
    assert (door_module.SHARE_SECONDS, door_module.STEP_SECONDS_MIN) == (0.001, 20e-6)
    assert (server_module.ACCEPTED_AT_ONCE, server_module.QUEUE) == (4, 1_024)
    assert (server_module.LINGERING_SECONDS, server_module.LOG_SECONDS) == (2.0, 10.0)
    assert server_module.UNREAD_BYTES_MAX == 67_108_864


def test_a_head_takes_no_more_memory_than_it_may() -> None:
    async def body(site: Site) -> None:
        client = await site.connect(sent=HEAD)
        line = b"X-A: " + b"b" * 4_000 + b"\r\n"
        for _ in range(HEAD_BYTES_MAX // len(line)):
            client[1].write(line)
            await asyncio.sleep(0)
        while site.http.door._inside and next(iter(site.http.door._inside.values()))._heard < HEAD_BYTES_MAX * 0.9:
            await asyncio.sleep(0.001)
        assert len(site.http.door) == 1, "so much is a head"
        client[1].write(line * 2)
        assert not await ended(client)

    play(body)


@pytest.mark.parametrize(("path", "size", "later"), [(b"/unread", 1_000, 1_000), (b"/body", 200_000, 0)])
def test_a_body_gives_the_next_head_no_more_room(path: bytes, size: int, later: int) -> None:
    async def body(site: Site) -> None:
        head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (path, size)
        client = await site.connect(sent=head + bytes(size - later))
        await client[0].readuntil(b"\r\n\r\n" + (b"here" if later else b"200000"))
        client[1].write(bytes(later) + HEAD + (b"X-A: " + b"b" * 4_000 + b"\r\n") * (2 * HEAD_BYTES_MAX // 4_000))
        assert not await ended(client)

    play(body)


def test_requests_one_after_the_other_are_not_one_long_head() -> None:
    async def body(site: Site) -> None:
        reader, writer = await site.connect()
        large = HEAD + b"X-A: " + b"b" * 8_000 + b"\r\n\r\n"
        for _ in range(3 * HEAD_BYTES_MAX // len(large)):
            writer.write(large)
            assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200")

    play(body)


@pytest.mark.parametrize("share", [0.0, 1_000.0])
@pytest.mark.parametrize(("path", "status"), [(b"/body", b"400"), (b"/unread", b"200"), (b"/nowhere", b"404")])
def test_chunks_of_a_byte_cost_their_connection(
    path: bytes, status: bytes, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "SHARE_SECONDS", share)
    monkeypatch.setattr("http_server.server.LINGERING_SECONDS", 0.1)
    heard = sizes_read(monkeypatch)
    stopped: list[int] = []
    stop = Visitor.stop_reading

    def note(visitor: Visitor) -> None:
        stopped.append(len(heard))
        stop(visitor)

    monkeypatch.setattr(Visitor, "stop_reading", note)

    async def body(site: Site) -> None:
        client = await site.connect(sent=CHUNKED.replace(b"/body", path) + CRUMBS)
        assert (await ended(client)).startswith(b"HTTP/1.1 " + status)
        assert stopped == [len(heard)], "the rest is never read"
        while len(site.http.door):
            await asyncio.sleep(0.01)

    play(body)


def test_bodies_in_chunks_that_are_large_enough_are_read_whole() -> None:
    async def body(site: Site) -> None:
        part = b"1000\r\n" + b"a" * 4096 + b"\r\n"
        sent = CHUNKED.replace(b"chunked\r\n", b"chunked\r\nConnection: close\r\n") + part * 500 + b"0\r\n\r\n"
        assert (await site.ask(STRANGER, sent)).endswith(str(500 * 4096).encode())
        assert sum(site.moved) == 500 * 4096

    play(body)


def test_heads_are_read_in_small_pieces_chunks_in_larger_ones_and_known_bodies_in_the_largest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = sizes_read(monkeypatch)
    chunk = b"1000\r\n" + b"a" * 4096 + b"\r\n"
    counted = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2000000\r\n\r\n" + bytes(2_000_000)
    chunked = CHUNKED + chunk * 500 + b"0\r\n\r\n"

    async def body(site: Site) -> None:
        reader, writer = await site.connect()
        for sent, size, largest in ((counted, b"2000000", 65_536), (chunked, b"2048000", 16_384)):
            read.clear()
            writer.write(sent)
            assert (await reader.readuntil(b"\r\n\r\n" + size)).startswith(b"HTTP/1.1 200")
            assert (read[0], max(read)) == (4_096, largest)
        read.clear()
        writer.write(HEAD + b"X-A: " + b"b" * 8_000 + b"\r\n\r\n")
        await reader.readuntil(b"here")
        assert max(read) == 4_096

    play(body)


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_body_that_is_too_long_is_refused(*, is_counted: bool) -> None:
    async def body(site: Site) -> None:
        if is_counted:
            head = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1)
            client = await site.connect(sent=head)  # no byte of it has to arrive
        else:
            client = await site.connect(sent=CHUNKED + (b"10000\r\n" + bytes(65_536) + b"\r\n") * 200)
        assert (await client[0].readline()).startswith(b"HTTP/1.1 413")
        assert sum(site.moved) <= BODY_BYTES_MAX + 65_536

    play(body)


def test_each_empty_body_is_read_as_one() -> None:
    async def body(site: Site) -> None:
        sent = HEAD.replace(b"GET /", b"POST /body") + b"Content-Length: 0\r\nConnection: close\r\n\r\n"
        for _ in range(3):  # aiohttp has a single object for all of them, which remembers that it was read
            answer = await site.ask(STRANGER, sent)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"\r\n\r\n0")

    play(body)


def test_a_body_is_read_no_faster_than_its_request_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read = sizes_read(monkeypatch)

    async def body(site: Site) -> None:
        head = b"POST /busy HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000000\r\n\r\n"
        await site.connect(sent=head + bytes(5_000_000))
        while not site.waiting:
            await asyncio.sleep(0.001)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert sum(read) < 1_000_000

    play(body)


def test_a_body_whose_reading_paused_is_read_to_its_end() -> None:
    async def body(site: Site) -> None:
        head = b"POST /late HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n"
        client = await site.connect(sent=head + bytes(1_000_000))
        while not site.waiting or any(visitor.transport.is_reading() for visitor in site.http.door._inside.values()):
            await asyncio.sleep(0.01)
        site.over.set()
        assert (await ended(client)).endswith(b"1000000")

    play(body)


def test_who_sends_a_body_that_nobody_reads_still_hears_the_answer() -> None:
    async def body(site: Site) -> None:
        size = 5_000_000
        head = b"POST /unread HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
        assert (await site.ask(STRANGER, head + bytes(size))).startswith(b"HTTP/1.1 200")

    play(body)


def test_of_a_body_that_nobody_reads_a_part_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "UNREAD_BYTES_MAX", 100_000)
    read = sizes_read(monkeypatch)

    async def body(site: Site) -> None:
        head = b"POST /unread HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50000000\r\n\r\n"
        assert (await ended(await site.connect(sent=head + bytes(5_000_000)))).startswith(b"HTTP/1.1 200")
        assert sum(read) < 1_000_000

    play(body)


def test_bodies_that_nobody_reads_are_heard_one_after_the_other() -> None:
    async def body(site: Site) -> None:
        reader, writer = await site.connect()
        for _ in range(3):
            writer.write(
                b"POST /unread HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000)
            )
            assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200")

    play(body)


class StoppedTurns(Turns):
    """Gives no turn until a test's command."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked = 0

    async def take(self, caller: Caller) -> None:
        self.asked += 1
        await self.go.wait()
        await super().take(caller)


def test_a_connection_that_used_its_share_is_not_read_before_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "SHARE_SECONDS", 0.0)
    read = sizes_read(monkeypatch)
    turns = None

    def site() -> Site:
        nonlocal turns
        turns = StoppedTurns()
        return Site(turns)

    async def body(site: Site) -> None:
        assert turns is not None
        body_bytes = 200_000
        sent = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % body_bytes
        client = await site.connect(sent=sent + bytes(body_bytes))
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert (len(read), turns.asked) == (1, 1)
        assert read[0] <= HEAD_READ_BYTES, "before a request is known, little is read at once"
        turns.go.set()
        assert (await ended(client)).endswith(str(body_bytes).encode())
        assert max(read) <= BODY_READ_BYTES
        assert turns.asked == len(read)

    play(body, site)


def test_the_shares_of_several_reads_add_up_to_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "STEP_SECONDS_MIN", 1.0)
    monkeypatch.setattr(door_module, "SHARE_SECONDS", 3.0)
    read = sizes_read(monkeypatch)
    turns: list[StoppedTurns] = []

    def site() -> Site:
        turns.append(StoppedTurns())
        turns[0].go.set()
        return Site(turns[0])

    async def body(site: Site) -> None:
        head = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n"
        assert (await site.ask(STRANGER, head + bytes(1_000_000))).endswith(b"1000000")
        assert turns[0].asked == len(read) // 3 > 1

    play(body, site)


def test_a_connection_that_ends_waits_for_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "SHARE_SECONDS", 0.0)
    turns: list[StoppedTurns] = []

    def site() -> Site:
        turns.append(StoppedTurns())
        return Site(turns[0])

    async def body(site: Site) -> None:
        await site.connect(sent=HEAD)
        while not turns[0].asked:
            await asyncio.sleep(0.001)
        (visitor,) = site.http.door._inside.values()
        waiting = visitor._turn
        visitor.end()
        for _ in range(5):
            await asyncio.sleep(0)
        assert waiting is not None
        assert waiting.cancelled()
        assert visitor._timer is not None
        assert visitor._timer.cancelled()

    play(body, site)


def test_connections_of_one_network_are_one_caller() -> None:
    async def body(site: Site) -> None:
        for source in (STRANGER, STRANGER, OTHER):
            await site.connect(source, HEAD)
        while len(site.http.door) < 3:
            await asyncio.sleep(0.001)
        callers = {visitor.caller for visitor in site.http.door._inside.values()}
        assert {caller.network for caller in callers} == {STRANGER, OTHER}
        assert len(callers) == 2

    play(body)


def test_the_time_of_reading_is_the_caller_s() -> None:
    caller = Caller()

    async def main() -> None:
        app = web.Application()
        server = HttpServer(app, DoorLimits(PLACES, 20.0), 20.0, caller_of=lambda _: caller)
        port = await server.listen(HOST, 0)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(HEAD + b"Connection: close\r\n\r\n")
        await reader.read()
        writer.close()
        await server.close()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert caller.used > 0


def test_busy_connections_of_one_address_leave_room_for_other_addresses_and_for_this_machine() -> None:
    async def body(site: Site) -> None:
        busy = HEAD.replace(b"GET /", b"GET /busy") + b"\r\n"
        held = [await site.connect(source, busy) for source in (STRANGER, STRANGER, STRANGER, OTHER)]
        while site.waiting < len(held):
            await asyncio.sleep(0.001)
        refused = await site.ask(STRANGER)
        assert refused.startswith(b"HTTP/1.1 503")
        assert refused.endswith(b"too many connections")
        assert (await site.ask(HOST)).startswith(b"HTTP/1.1 200")
        assert (await site.ask("127.0.0.68")).startswith(b"HTTP/1.1 200"), "one of the most is ended for it"
        assert not await ended(held[0])

    play(body)


@pytest.mark.parametrize(
    "sent",
    [
        b"no http at all\r\n\r\n",
        CHUNKED + b"5;secret=\x00\x01\r\nabcde\r\n0\r\n\r\n",
        CHUNKED + b"zzz-secret\r\n",
    ],
)
def test_answers_name_no_version_and_repeat_nothing(sent: bytes) -> None:
    async def body(site: Site) -> None:
        for answer in (await site.ask(sent=sent), await site.ask()):
            assert answer.startswith(b"HTTP/1.")
            assert b"Server: ogpu\r\n" in answer
            assert not any(word in answer.lower() for word in (b"aiohttp", b"python", b"secret"))

    play(body)


def test_a_request_of_a_connection_that_was_just_ended_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    updated = Visitor.buffer_updated

    def end(visitor: Visitor, size: int) -> None:
        updated(visitor, size)
        visitor.end()

    monkeypatch.setattr(Visitor, "buffer_updated", end)

    async def body(site: Site) -> None:
        for path in (b"/body", b"/busy"):
            head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n" % path
            assert not await ended(await site.connect(sent=head))
        assert not await ended(await site.connect(sent=HEAD.replace(b"GET /", b"GET /busy") + b"\r\n"))
        await asyncio.sleep(0.02)
        assert not site.waiting

    play(body)
    assert not [record for record in caplog.records if record.exc_info]
