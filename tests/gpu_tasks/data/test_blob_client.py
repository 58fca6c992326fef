"""Slow stores: a fetch and a posting continue beside them, and they come last from then on."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from gpu_tasks.data import blob_client
from gpu_tasks.data.blob_client import TRANSFERS_OF_STORE_MAX, BlobClient, BlobError
from gpu_tasks.data.sealing import address_of

BLOB = b"sealed" * 100


class Store:
    """A server that sends single bytes slowly, or answers at once."""

    def __init__(self, *, drips: bool) -> None:
        self.drips = drips
        self.asked = 0
        self.open = 0
        self.open_max = 0
        self.url = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        try:
            body = address_of(BLOB).hex().encode() if request.method == "PUT" else BLOB
            await request.read()
            if not self.drips:
                return web.Response(body=body)
            answer = web.StreamResponse()
            await answer.prepare(request)
            while True:
                await answer.write(body[:1])
                await asyncio.sleep(0.01)
        finally:
            self.open -= 1

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.serve)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner


@contextlib.asynccontextmanager
async def asking(*drips: bool) -> AsyncIterator[tuple[BlobClient, list[Store]]]:
    """Yield a client and some stores, slow ones among them."""
    stores = [Store(drips=drip) for drip in drips]
    runners = [await store.start() for store in stores]
    async with BlobClient(private=True) as client:
        yield client, stores
    for runner in runners:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_client, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(blob_client, "SLOW_SECONDS", 0.0)


async def test_a_store_that_drips_holds_no_fetch_up_and_is_asked_last_from_then_on() -> None:
    async with asking(True, False) as (client, stores):
        urls = [store.url for store in stores]
        for _ in range(5):
            assert await client.get(address_of(BLOB), urls) == BLOB
        assert stores[1].asked == 5
        assert stores[0].asked < 5


async def test_nor_a_posting() -> None:
    async with asking(True, False, False) as (client, stores):
        urls = [store.url for store in stores]
        for _ in range(5):
            assert set(await client.put(BLOB, urls, copies=2)) == set(urls[1:])
        assert [store.asked for store in stores[1:]] == [5, 5]
        assert stores[0].asked < 5


async def test_a_fetch_ends_in_time_if_all_of_them_drip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_client, "FETCH_SECONDS", 0.3)
    async with asking(*[True] * 12) as (client, stores):
        with pytest.raises(BlobError, match="was too slow"):
            await client.get(address_of(BLOB), [store.url for store in stores], deadline_seconds=0.3)


async def test_each_store_has_to_make_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_client, "GRACE_SECONDS", 0.2)
    async with asking(True) as (client, stores):
        with pytest.raises(BlobError, match="was too slow"):
            await client.get(address_of(BLOB), [stores[0].url], deadline_seconds=600.0)


async def test_many_fetches_from_one_store_that_drips_leave_room_for_others() -> None:
    async with asking(True, False) as (client, stores):
        dripping, quick = (store.url for store in stores)
        stuck = [
            asyncio.create_task(client.get(address_of(BLOB), [dripping], deadline_seconds=600.0)) for _ in range(64)
        ]
        while stores[0].open < TRANSFERS_OF_STORE_MAX:
            await asyncio.sleep(0.01)
        assert await client.get(address_of(BLOB), [quick]) == BLOB
        assert stores[0].open_max == TRANSFERS_OF_STORE_MAX
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_who_drips_leaves_nobody_s_inventory_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are asked within a fixed time. With room for 32 at once, 74 slow ones took all of it."""
    monkeypatch.setattr(blob_client, "GRACE_SECONDS", 600.0)  # none of them has ended when the last one is open
    async with asking(*[True] * (blob_client.TRANSFERS_MAX + 1), False) as (client, stores):
        stuck = [asyncio.create_task(client.inventory_of(store.url)) for store in stores[:-1]]
        while sum(store.open for store in stores) < len(stuck):
            await asyncio.sleep(0.01)
        assert await client.inventory_of(stores[-1].url) == BLOB
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


def test_why_a_store_cannot_be_reached_is_said_in_words() -> None:
    """The message has nothing of Python's form, such as `[Connect call failed ('127.0.0.1', 9)]`."""

    async def main() -> str:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        stores = ["http://127.0.0.1:1", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "http://127.0.0.1:0"]
        async with BlobClient(private=True) as blobs:
            with pytest.raises(BlobError) as refused:
                await blobs.get(bytes(32), stores)
        server.close()
        return str(refused.value)

    said = asyncio.run(main())
    assert re.search(r"http://127\.0\.0\.1:1: [^(]*\(Connect", said)
    assert "(the connection broke off)" in said
    assert "1 to 65,535)" in said
    assert not any(part in said for part in ("Error", "[", "errno", "ssl:"))
