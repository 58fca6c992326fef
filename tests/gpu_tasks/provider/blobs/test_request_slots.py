"""The slots of a blob store against intentionally slow clients."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from blob_servers import asked
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from gpu_tasks.provider.blobs import request_slots, server
from gpu_tasks.provider.blobs.deliveries import NoReaderError, RefusedDeliveryError
from gpu_tasks.provider.blobs.request_slots import BusyError, RequestSlots
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota, StoreFullError

ASKED = 40
SLOW_PUT = b"PUT /blobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"
SLOW_QUESTION = b"POST /deliveries HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx"


class RefusingDeliverer:
    """Refuses every checker."""

    async def answer(self, data: bytes) -> bytes:
        """Refuse."""
        raise RefusedDeliveryError(f"no: {len(data)}")


async def opened(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def reached(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def test_slow_uploads_hold_up_neither_reads_nor_checkers_nor_other_uploads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 10_000.0)  # no request times out here
    async with asked(tmp_path, deliverer=RefusingDeliverer()) as (made, client, url):
        await client.put(b"here", [url])
        slow = [await opened(made.port, SLOW_PUT) for _ in range(server.UPLOADS[0])]
        slow += [await opened(made.port, SLOW_QUESTION) for _ in range(server.ARRIVING_QUESTIONS[0])]
        await reached(lambda: len(made._uploads._taken) == server.UPLOADS[0])
        await reached(lambda: len(made._arriving._taken) == server.ARRIVING_QUESTIONS[0])
        assert await client.get(address_of(b"here"), [url]) == b"here"
        async with aiohttp.ClientSession() as session:
            assert (await session.put(f"{url}/blobs", data=b"new")).status == 503
            monkeypatch.setattr(request_slots, "GRACE_SECONDS", 0.0)  # all of them had their time now
            monkeypatch.setattr(request_slots, "BYTES_PER_SECOND_MIN", 1e-3)
            assert (await session.put(f"{url}/blobs", data=b"new")).status == 201
            assert (await session.post(f"{url}/deliveries", data=b"?")).status == 403
        assert await client.get(address_of(b"new"), [url]) == b"new"
        for _, writer in slow:
            writer.close()


class KnowingDeliverer:
    """Answers known checkers."""

    async def answer(self, data: bytes) -> bytes:
        """Return the requested blob, or refuse."""
        if data != b"checker":
            raise NoReaderError("a stranger")
        return b"sealed"


def from_its_header(request: web.Request) -> str | None:
    """Return the client from a header, because here all are on one machine."""
    return request.headers.get("From")


async def test_strangers_questions_hold_no_checker_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 10_000.0)
    monkeypatch.setattr(server, "address_of_peer", from_its_header)
    made = BlobServer(BlobStore(tmp_path), deliverer=KnowingDeliverer())
    await made.start(port=0)
    url = f"http://127.0.0.1:{made.port}/deliveries"
    strangers = [SLOW_QUESTION.replace(b"Host: x", b"Host: x\r\nFrom: %d" % (number // 4)) for number in range(16)]
    slow = [await opened(made.port, said) for said in strangers]
    await reached(lambda: len(made._arriving._taken) == 16)
    async with aiohttp.ClientSession() as session:
        for said, address, status in (
            (b"checker", "checker", 200),
            (b"?", "stranger", 403),
            (b"checker", "stranger", 429),
            (b"?", "other", 403),
            (b"checker", "checker", 200),
        ):
            answer = await session.post(url, data=said, headers={"From": address})
            assert (address, answer.status) == (address, status)
        made._waiting._until["stranger"] -= request_slots.WAIT_SECONDS
        answer = await session.post(url, data=b"checker", headers={"From": "stranger"})
        assert answer.status == 200  # its time is over
    for _, writer in slow:
        writer.close()
    await made.close()


@pytest.mark.parametrize("said", [SLOW_PUT, SLOW_QUESTION])
async def test_who_drips_bytes_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 0.1)
    async with asked(tmp_path, deliverer=RefusingDeliverer()) as (made, _client, _url):
        reader, writer = await opened(made.port, said)
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        assert not made._uploads._taken
        assert not made._arriving._taken
        writer.write_eof()
        await reader.read()  # until the server has seen it leave: a closing one waits for those inside
        writer.close()


async def test_a_question_that_never_came_whole_has_its_address_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(server, "address_of_peer", from_its_header)
    async with asked(tmp_path, deliverer=RefusingDeliverer()) as (made, _client, url):
        reader, writer = await opened(made.port, SLOW_QUESTION.replace(b"Host: x", b"Host: x\r\nFrom: slow"))
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        monkeypatch.setattr(request_slots, "GRACE_SECONDS", 10.0)
        made._waiting._until["slow"] += 60
        async with aiohttp.ClientSession() as session:
            for address, status in (("slow", 429), ("other", 403)):
                assert (await session.post(f"{url}/deliveries", data=b"?", headers={"From": address})).status == status
        writer.write_eof()
        await reader.read()
        writer.close()


async def test_who_does_not_read_is_ended_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(request_slots, "BYTES_PER_SECOND_MIN", 1 << 40)
    large = b"x" * BLOB_BYTES_MAX
    async with asked(tmp_path, deliverer=RefusingDeliverer()) as (made, _client, _url):
        made._store.put(large)
        question = f"GET /blobs/{address_of(large).hex()} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port, limit=1024)
        writer.write(question * ASKED)  # more than the system keeps on the way
        await asyncio.sleep(1)
        received = 0
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                received += len(data)
        assert len(large) < received < ASKED * len(large)
        assert not made._reads._taken
        writer.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_one_address_has_a_few_slots_and_the_slowest_yields(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RequestSlots(slots_max=4, of_address=2)
    lost: list[str] = []
    entered: list[str] = []

    async def hold(name: str, address: str, moved: int) -> None:
        try:
            async with made.take(address) as slot:
                entered.append(name)
                slot.moved = moved
                await asyncio.sleep(1_000)
        except TimeoutError:
            lost.append(name)

    def start(name: str, address: str, moved: int) -> "asyncio.Task[None]":
        return asyncio.create_task(hold(name, address, moved))

    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 10_000.0)
    tasks = [start("slow", "a", 1), start("fast", "a", 100), start("other", "b", 2)]
    await reached(lambda: len(entered) == 3)
    with pytest.raises(BusyError):
        await hold("early", "a", 0)
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 0.0)
    await asyncio.sleep(0.01)

    async def take_only() -> None:
        async with made.take("a"):
            entered.append("new")

    await take_only()
    await reached(lambda: lost == ["slow"])
    assert entered[-1] == "new"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not made._taken


async def test_who_lost_its_slot_does_not_win_it_back_by_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RequestSlots(slots_max=1, of_address=1)
    monkeypatch.setattr(request_slots, "GRACE_SECONDS", 10_000.0)
    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            async with made.take("203.0.113.7") as slot:
                await asyncio.sleep(0.01)
                slot.started -= 10_000.0
                made._end_slowest([slot])
                slot.progress(BLOB_BYTES_MAX)
                slot.started += 10_000.0
                slot.progress(BLOB_BYTES_MAX)
                await asyncio.sleep(1_000)


def test_one_address_has_a_part_of_the_room(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(bytes_max=8_000, blobs_max=80, address_part=8))
    store.put(b"a" * 600, stranger="203.0.113.7", now_seconds=0)
    with pytest.raises(StoreFullError, match=r"203\.0\.113\.7"):
        store.put(b"b" * 600, stranger="203.0.113.7", now_seconds=0)
    store.put(b"b" * 600, stranger="203.0.113.8", now_seconds=0)
    for number in range(8):
        store.put(bytes([number]), stranger="203.0.113.9", now_seconds=0)
    for number in range(8, 10):
        store.put(bytes([number]), stranger="203.0.113.9", now_seconds=0)
    with pytest.raises(StoreFullError):
        store.put(b"one more", stranger="203.0.113.9", now_seconds=0)
    store.put(b"a" * 600, is_own=True, now_seconds=1)  # a stranger's blob is own from here on, and counts for no client
    store.put(b"c" * 600, stranger="203.0.113.7", now_seconds=1)


def test_strangers_cannot_take_the_room_of_own_work(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(bytes_max=1_000, blobs_max=10))
    for number in range(10):
        store.put(bytes([number]) * 100, now_seconds=0)
    with pytest.raises(StoreFullError):
        store.put(b"x", now_seconds=0)
    address = store.put(b"own" * 1_000, is_own=True, now_seconds=0)
    assert store.get(address) == b"own" * 1_000
