"""Readers of the feed: each gets all published messages. A slow one is cut off and delays no other."""

from __future__ import annotations

import pytest
import trio

import node.feed.readers
from node.feed import messages as feed
from node.feed.readers import Reader, Readers

FATE = feed.ExtrinsicStatus(b"h" * 32, "ready", None)


def reader() -> tuple[Reader, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return Reader(trio.SocketStream(ours)), trio.SocketStream(theirs)


@pytest.mark.trio
async def test_everybody_gets_what_is_published_while_they_are_here() -> None:
    readers = Readers()
    readers.publish(FATE)
    (first, first_end), (second, second_end) = reader(), reader()
    readers.add(first)
    readers.add(second)
    readers.publish_fate(b"h" * 32, "ready", None)
    readers.remove(second)
    readers.remove(second)
    readers.publish(FATE)
    assert len(readers) == 1
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.write_queued)
            nursery.start_soon(second.write_queued)
            for end, count in ((first_end, 2), (second_end, 1)):
                expected, data = feed.pack(FATE) * count, b""
                while len(data) < len(expected):
                    data += await end.receive_some()
                assert data == expected
            nursery.cancel_scope.cancel()
    for stream in (first.stream, second.stream, first_end, second_end):
        await stream.aclose()


@pytest.mark.trio
async def test_who_falls_behind_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.feed.readers, "QUEUE_BYTES_MAX", 2 * len(feed.pack(FATE)))
    readers = Readers()
    slow, end = reader()
    readers.add(slow)
    for _ in range(3):
        readers.publish(FATE)
    with trio.fail_after(10), pytest.raises(feed.FeedError, match="behind"):
        await slow.write_queued()
    for stream in (slow.stream, end):
        await stream.aclose()


@pytest.mark.trio
async def test_what_was_sent_is_owed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.feed.readers, "QUEUE_BYTES_MAX", 2 * len(feed.pack(FATE)))
    fast, end = reader()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fast.write_queued)
            for _ in range(3):
                fast.queue(feed.pack(FATE))
                assert await end.receive_some() == feed.pack(FATE)
            nursery.cancel_scope.cancel()
    for stream in (fast.stream, end):
        await stream.aclose()
