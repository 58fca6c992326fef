"""Unanswered names: other look-ups continue beside them, and a program ends without waiting for them."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_tasks.data import name_lookup
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.name_lookup import LOOKUPS_MAX, NameResolver

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]


class SlowNames:
    """Names that resolve only when the test allows it."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = threading.Event()

    def look_up(self, host: str, *_: Any, **__: Any) -> list[Any]:
        if host.startswith("slow"):
            self.asked += 1
            self.answer.wait(30)
            raise socket.gaierror(-2, "nobody has it")
        return FOUND


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    slow = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", slow.look_up)
    yield slow
    slow.answer.set()


async def test_names_that_nobody_answers_for_keep_nothing_else_waiting(names: SlowNames) -> None:
    """The loop has few threads, and files, stores and containers each wait for one of them."""
    resolver = NameResolver()
    slow = [asyncio.create_task(resolver.resolve(f"slow{number}.example", 80)) for number in range(LOOKUPS_MAX - 1)]
    while names.asked < len(slow):
        await asyncio.sleep(0.01)
    assert [each["host"] for each in await resolver.resolve("quick.example", 80)] == ["127.0.0.1"]
    await asyncio.to_thread(int)
    last = asyncio.create_task(resolver.resolve("slow.example", 80))
    while names.asked < LOOKUPS_MAX:
        await asyncio.sleep(0.01)
    with pytest.raises(OSError, match=f"{LOOKUPS_MAX} other lookups"):
        await resolver.resolve("quick.example", 80)
    slow[0].cancel()
    names.answer.set()
    found = await asyncio.gather(*slow, last, return_exceptions=True)
    assert all(isinstance(each, (OSError, asyncio.CancelledError)) for each in found)
    assert await resolver.resolve("quick.example", 80)


@pytest.mark.parametrize("name", ["a" * 64 + ".example", "nobody.invalid"])
async def test_a_name_that_is_none_is_said(name: str) -> None:
    async with BlobClient(private=True) as blobs:
        with pytest.raises(BlobError, match="cannot be reached"):
            await blobs.inventory_of(f"http://{name}:80")


def test_an_address_of_one_link_alone_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    there = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 80, 0, 2))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [there, *FOUND])
    assert [each["host"] for each in asyncio.run(name_lookup.NameResolver().resolve("a", 80))] == ["127.0.0.1"]


def test_a_program_does_not_wait_for_them_at_its_end() -> None:
    program = """
import asyncio, contextlib, socket, time
socket.getaddrinfo = lambda *_, **__: time.sleep(600)
from gpu_tasks.data.name_lookup import NameResolver
async def main():
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(NameResolver().resolve("slow.example"), 0.1)
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
