"""The blob store over real HTTP, and stores that misbehave."""

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from blob_servers import asked
from gpu_tasks.data import blob_client
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota, StoreFullError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Taken:
    """The information that a store uses for a decision."""


@contextlib.asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[tuple[BlobClient, str]]:
    """Yield a client, and the address of a store that answers everything with `handler`."""
    app = web.Application(client_max_size=2 * BLOB_BYTES_MAX)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with BlobClient(private=True) as client:
        yield client, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_put_and_get(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, url):
        blob = bytes(range(256)) * 4096
        assert await client.put(blob, [url]) == [url]
        assert await client.get(address_of(blob), [url]) == blob


async def test_several_endpoints_are_tried_and_each_refusal_is_named(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, url):
        dead = "http://127.0.0.1:1"
        assert await client.put(b"x", [dead, url, url], copies=2) == [url]  # once is once
        assert await client.get(address_of(b"x"), [dead, "nonsense", "ftp://x", url + "/", url]) == b"x"
        with pytest.raises(BlobError, match=r"127.0.0.1:1: .*answered 404"):
            await client.get(bytes(32), [dead, url])
        with pytest.raises(BlobError, match="no store took"):
            await client.put(b"x", [dead])


async def test_no_cache_keeps_a_proof_of_presence_or_an_inventory(tmp_path: Path) -> None:
    async def inventory() -> bytes:
        return b"a card"

    server = BlobServer(BlobStore(tmp_path), inventory=inventory, presence=lambda nonce: b"proof of " + nonce)
    await server.start(port=0)
    url = f"http://127.0.0.1:{server.port}"
    async with BlobClient(private=True) as client, aiohttp.ClientSession() as session:
        await client.put(b"x", [url])
        for path, answer, is_kept in (
            ("/inventory", b"a card", False),
            (f"/daemon/{'41' * 32}", b"proof of " + b"A" * 32, False),
            (f"/blobs/{address_of(b'x').hex()}", b"x", True),
        ):
            response = await session.get(url + path)
            assert (response.status, await response.read()) == (200, answer)
            assert (response.headers["Cache-Control"] == "no-store") != is_kept
            assert response.headers["X-Content-Type-Options"] == "nosniff"
        for nonce in ("41" * 31, "41" * 33, "4 " * 32, "zz" * 32):
            assert (await session.get(f"{url}/daemon/{nonce}")).status == 400
    await server.close()


@pytest.mark.parametrize(("path", "status"), [("/deliveries", 200), ("/states", 404)])
async def test_a_validators_question_has_few_bytes(path: str, status: int, tmp_path: Path) -> None:
    class Deliverer:
        async def answer(self, data: bytes) -> bytes:
            return data[:1]

    server = BlobServer(BlobStore(tmp_path), deliverer=Deliverer())
    await server.start(port=0)
    async with aiohttp.ClientSession() as session:
        for size, expected in ((256, status), (257, 413 if status == 200 else status)):
            response = await session.post(f"http://127.0.0.1:{server.port}{path}", data=bytes(size))
            assert response.status == expected
            await response.read()
    await server.close()


async def test_wrong_requests_are_refused_with_their_reason(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, _, url), aiohttp.ClientSession() as session:
        for address in ("zz" * 32, "00", "0x" + "00" * 31, "0 " * 32, "00  " + "00" * 30, "00 " + "00" * 31):
            assert (await session.get(f"{url}/blobs/{address}")).status == 400
        assert (await session.get(f"{url}/blobs/{'../' * 5}etc/passwd")).status in (400, 404)
        assert (await session.put(f"{url}/blobs", data=b"")).status == 400
        assert (await session.post(f"{url}/deliveries", data=b"")).status == 404
        assert (await session.delete(f"{url}/blobs/{'00' * 32}")).status == 405


async def test_a_body_that_is_too_long_is_refused_by_its_header_or_in_fact(tmp_path: Path) -> None:

    async def parts(count: int) -> "object":
        for _ in range(count):
            yield bytes(64 * 1024)

    async with asked(tmp_path) as (_, _, url), aiohttp.ClientSession() as session:
        assert (await session.put(f"{url}/blobs", data=BytesIO(bytes(BLOB_BYTES_MAX + 1)))).status == 413
        too_many = BLOB_BYTES_MAX // (64 * 1024) + 2
        assert (await session.put(f"{url}/blobs", data=parts(too_many))).status == 413
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data",
    [b"GARBAGE\r\n\r\n", b"PUT /blobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"],
)
async def test_bytes_that_are_no_http_leave_no_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    async with asked(tmp_path) as (_, client, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(data)
        assert b" 400 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert await client.put(b"still there", [url]) == [url]
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_full_store_says_so_and_another_one_is_tried(tmp_path: Path) -> None:
    async with asked(tmp_path, Quota(blobs_max=0)) as (_, client, url):
        with pytest.raises(BlobError, match="507 full"):
            await client.put(b"x", [url])


@pytest.mark.parametrize("refusal", [StoreFullError("full"), ValueError("nothing"), OSError("no disk")])
async def test_a_blob_that_was_refused_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    known: list[weakref.ref[Taken]] = []

    def put(_store: BlobStore, _blob: bytes, **_: object) -> bytes:
        taken = Taken()
        known.append(weakref.ref(taken))
        raise refusal

    monkeypatch.setattr(BlobStore, "put", put)
    gc.disable()
    try:
        async with asked(tmp_path) as (_, client, url):
            with pytest.raises(BlobError):
                await client.put(b"x", [url])
            assert [ref() for ref in known] == [None]
    finally:
        gc.enable()


async def test_an_address_is_charged_for_what_it_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_tasks.provider.blobs.server.address_of_peer", lambda _: "203.0.113.7")
    async with asked(tmp_path, Quota(blobs_max=8)) as (_, client, url):
        assert await client.put(b"its eighth", [url]) == [url]
        with pytest.raises(BlobError, match="full"):
            await client.put(b"of others", [url])


async def test_nobody_waits_for_a_strangers_blob_to_be_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_synced = threading.Event()
    write = BlobStore._write

    def slow(store: BlobStore, name: str, blob: bytes) -> None:
        assert is_synced.wait(20)
        write(store, name, blob)

    monkeypatch.setattr(BlobStore, "_write", slow)
    async with asked(tmp_path) as (_, client, url):
        storing = asyncio.create_task(client.put(b"slow", [url]))
        with pytest.raises(BlobError, match="404"):
            await client.get(address_of(b"other"), [url])
        assert not storing.done()
        is_synced.set()
        assert await storing == [url]
        assert await client.get(address_of(b"slow"), [url]) == b"slow"


async def test_blobs_are_written_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs that wait for the disk together would occupy every thread of the daemon."""
    put, storing, most = BlobStore.put, [0], [0]

    def counted(store: BlobStore, *blob: Any, **more: Any) -> bytes:
        storing[0] += 1
        most[0] = max(most[0], storing[0])
        time.sleep(0.05)
        try:
            return put(store, *blob, **more)
        finally:
            storing[0] -= 1

    monkeypatch.setattr(BlobStore, "put", counted)
    async with asked(tmp_path) as (_, client, url):
        await asyncio.gather(*(client.put(bytes([number]), [url]) for number in range(4)))
    assert most == [1]


async def test_what_is_served_cannot_run_in_a_browser(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, url):
        script = b"<script>alert(1)</script>"
        await client.put(script, [url])
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{url}/blobs/{address_of(script).hex()}")
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Content-Disposition"] == "attachment"


async def test_bytes_that_do_not_hash_to_their_address_do_not_count() -> None:
    async def lie(request: web.Request) -> web.Response:
        return web.Response(body=b"something else")

    async with answering(lie) as (client, url):
        with pytest.raises(BlobError, match="served other bytes"):
            await client.get(address_of(b"x"), [url])
        with pytest.raises(BlobError, match="returned another address"):
            await client.put(b"x", [url])


async def test_an_answer_without_end_is_cut_off() -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(bytes(64 * 1024))
        except (ConnectionError, asyncio.CancelledError):
            return answer

    async with answering(flood) as (client, url):
        with pytest.raises(BlobError, match="sent more than"):
            await client.get(bytes(32), [url])


async def test_redirects_are_not_followed() -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest")

    async with answering(elsewhere) as (client, url):
        with pytest.raises(BlobError, match="answered 302"):
            await client.get(bytes(32), [url])


async def test_a_store_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_client, "GRACE_SECONDS", 0.2)

    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(0.6)
        return web.Response()

    async with answering(hang) as (client, url):
        with pytest.raises(BlobError, match="was too slow"):
            await client.get(bytes(32), [url])
