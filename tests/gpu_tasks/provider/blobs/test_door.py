"""Connections that do nothing, and those that read nothing (finding B7): they are bounded, and hold nobody up."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.sealing import address_of
from gpu_tasks.provider.blobs import door, server
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore

Body = Callable[[BlobServer, BlobClient, str], Awaitable[None]]
PIPELINED = b"GET /nothing/here HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000
"""Answers to which whoever asks does not read."""


def with_server(folder: Path, body: Body) -> None:
    async def main() -> None:
        made = BlobServer(BlobStore(folder))
        await made.start(port=0)
        async with BlobClient(private=True) as client:
            await body(made, client, f"http://127.0.0.1:{made.port}")
        await made.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await reader.read()
        await writer.wait_closed()


def test_idle_connections_are_bounded_and_hold_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", (20, 8))

    async def body(made: BlobServer, client: BlobClient, url: str) -> None:
        held = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(100)]
        assert made._door is not None
        assert await client.put(b"still there", [url]) == [url]
        assert await client.get(address_of(b"still there"), [url]) == b"still there"
        assert len(made._door) <= 20
        for reader, writer in held:
            await closed(reader, writer)

    with_server(tmp_path, body)


def test_who_reads_no_answers_is_closed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "IDLE_SECONDS", 0.2)

    async def body(made: BlobServer, client: BlobClient, url: str) -> None:
        assert made._door is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port, limit=1024)
        with contextlib.suppress(ConnectionError):
            writer.write(PIPELINED)
            while not len(made._door):
                await asyncio.sleep(0.01)
        while len(made._door):
            await asyncio.sleep(0.01)
        await closed(reader, writer)

    with_server(tmp_path, body)


def test_one_address_has_a_part_of_the_connections_and_a_busy_one_is_never_ended() -> None:
    class Transport(asyncio.Transport):
        def __init__(self, address: str) -> None:
            super().__init__({"peername": (address, 1)})
            self.is_open = True

        def abort(self) -> None:
            self.is_open = False

    class Inner(asyncio.Protocol):
        """Does nothing."""

    async def main() -> None:
        made = door.ConnectionDoor(Inner, total=5, of_address=2)

        def visit(address: str) -> Transport:
            transport = Transport(address)
            made().connection_made(transport)
            return transport

        first, second = visit("203.0.113.7"), visit("203.0.113.7")
        third = visit("203.0.113.7")
        assert [first.is_open, second.is_open, third.is_open] == [False, True, True]
        with made.serving(second), made.serving(third):
            assert not visit("203.0.113.7").is_open
            others = [visit(f"203.0.113.{number}") for number in range(8, 12)]
            assert [other.is_open for other in others] == [False, True, True, True]
            assert second.is_open
        assert len(made) == 5

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_comes_as_the_store_closes_is_closed_too(tmp_path: Path, turns: int) -> None:
    """In some turn of the loop it is accepted, and not yet handed over."""

    async def main() -> None:
        made = BlobServer(BlobStore(tmp_path))
        await made.start(port=0)
        with socket.create_connection(("127.0.0.1", made.port)) as visitor:
            for _ in range(turns):
                await asyncio.sleep(0)
            await made.close()
            visitor.setblocking(False)
            with contextlib.suppress(ConnectionError):
                assert not await asyncio.get_running_loop().sock_recv(visitor, 1)

    asyncio.run(asyncio.wait_for(main(), 10))
