"""Idle connections and connections that read nothing (finding B7): they are bounded, and delay no other."""

import asyncio
import contextlib
import socket
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from blob_servers import asked
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.sealing import address_of
from gpu_tasks.provider.blobs import server
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from http_server.door import DoorLimits
from http_server.places import PlaceLimits

PIPELINED = b"GET /nothing/here HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000
"""The client does not read the answers."""


async def closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await reader.read()
        await writer.wait_closed()


async def test_the_limits_are_as_documented(tmp_path: Path) -> None:
    async with asked(tmp_path) as (made, _client, _url):
        assert made._http is not None
        assert made._http.door.limits == DoorLimits(PlaceLimits(512, 64, 64), 20.0)
        assert made._http._options["keepalive_timeout"] == 15.0


async def test_idle_connections_are_bounded_and_hold_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", PlaceLimits(20, 8))
    async with asked(tmp_path) as (made, client, url):
        held = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(100)]
        assert made._http is not None
        assert await client.put(b"still there", [url]) == [url]
        assert await client.get(address_of(b"still there"), [url]) == b"still there"
        assert len(made._http.door) <= 20
        for reader, writer in held:
            await closed(reader, writer)


async def test_who_reads_no_answers_is_closed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.2)
    async with asked(tmp_path) as (made, _, _):
        assert made._http is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port, limit=1024)
        with contextlib.suppress(ConnectionError):
            writer.write(PIPELINED)
            while not len(made._http.door):
                await asyncio.sleep(0.01)
        while len(made._http.door):
            await asyncio.sleep(0.01)
        await closed(reader, writer)


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_that_comes_as_the_store_closes_is_closed_too(tmp_path: Path, turns: int) -> None:
    """In some turn of the loop it is accepted, and not yet handed over."""
    made = BlobServer(BlobStore(tmp_path))
    await made.start(port=0)
    with socket.create_connection(("127.0.0.1", made.port)) as visitor:
        for _ in range(turns):
            await asyncio.sleep(0)
        await made.close()
        visitor.setblocking(False)
        with contextlib.suppress(ConnectionError):
            assert not await asyncio.get_running_loop().sock_recv(visitor, 1)


async def test_uploads_in_crumbs_cost_their_connections(tmp_path: Path) -> None:
    async with asked(tmp_path) as (made, client, url):
        head = b"PUT /blobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(4)]
        for _, writer in sent:
            writer.write(head + b"1\r\na\r\n" * 50_000)
        assert await client.put(b"still there", [url]) == [url]
        for reader, writer in sent:
            assert (await reader.readline()).startswith(b"HTTP/1.1 400")
            await closed(reader, writer)


async def test_the_time_that_the_disk_takes_is_not_the_uploader_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_tasks.provider.blobs.request_slots.GRACE_SECONDS", 0.2)
    async with asked(tmp_path) as (made, client, url):
        async with made._writing:
            putting = asyncio.create_task(client.put(b"x", [url]))
            while not made._uploads._taken:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.5)
        assert await putting == [url]


class Rooms:
    """Tunnels that end when the test says so."""

    def __init__(self) -> None:
        self.entered, self.over = 0, asyncio.Event()

    async def enter(self, request: web.Request) -> web.StreamResponse:
        self.entered += 1
        await self.over.wait()
        return web.Response(text="left")


async def inventory() -> bytes:
    return b"a card"


async def test_requests_under_way_yield_to_no_idle_connection_and_hold_up_no_other_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", PlaceLimits(20, 8))
    monkeypatch.setattr(server, "UPLOADS", (1, 1))
    rooms = Rooms()
    made = BlobServer(
        BlobStore(tmp_path),
        broker_address="b",
        inventory=inventory,
        tunnels=rooms,
        presence=lambda _nonce: b"here",
    )
    await made.start(port=0)
    url = f"http://127.0.0.1:{made.port}"
    async with BlobClient(private=True) as client, aiohttp.ClientSession() as session:
        async with made._writing:
            entering = asyncio.create_task(session.get(f"{url}/tunnel/{'00' * 32}"))
            putting = asyncio.create_task(client.put(b"x", [url]))
            while not (rooms.entered and made._uploads._taken):
                await asyncio.sleep(0.001)
            held = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(40)]
            for path in ("/inventory", "/telemetry", f"/daemon/{'00' * 32}", f"/blobs/{'00' * 32}"):
                assert (await session.get(url + path)).status in {200, 404}
        assert await putting == [url]
        rooms.over.set()
        assert await (await entering).text() == "left"
        for reader, writer in held:
            await closed(reader, writer)
    await made.close()


async def test_uploads_of_one_address_that_wait_for_the_disk_hold_their_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UPLOADS", (2, 2))
    async with asked(tmp_path) as (made, client, url):
        async with made._writing:
            puts = [asyncio.create_task(client.put(bytes([number]), [url])) for number in range(2)]
            while len(made._uploads._taken) < 2:
                await asyncio.sleep(0.01)
            with pytest.raises(BlobError):
                await client.put(b"one more", [url])
        for task in puts:
            assert await task == [url]
