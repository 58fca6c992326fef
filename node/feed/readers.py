"""The connected readers of the feed, and the frames that wait for each.

Invariant: publishing never waits. A reader that falls `QUEUE_BYTES_MAX` behind is disconnected, and gets a new snapshot
when it connects again.
"""

from __future__ import annotations

from collections import deque

import trio

from node.feed import messages as feed

QUEUE_BYTES_MAX = 128 * 1024 * 1024


class Reader:
    """One connection: its stream, and the frames that wait for it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._overflowed = False
        self._filled = trio.Event()

    def queue(self, packed: bytes) -> None:
        """Queue a packed frame."""
        self._bytes += len(packed)
        self._overflowed = self._overflowed or self._bytes > QUEUE_BYTES_MAX
        # A reader that is about to be disconnected gets no more memory.
        if not self._overflowed:
            self._queue.append(packed)
        self._filled.set()

    async def write_queued(self) -> None:
        """Send queued frames until cancelled. Raise `FeedError` if the reader is too far behind."""
        while True:
            await self._filled.wait()
            if self._overflowed:
                raise feed.FeedError(f"it is {QUEUE_BYTES_MAX:,} bytes behind")
            batch = b"".join(self._queue)
            self._queue.clear()
            self._bytes -= len(batch)
            self._filled = trio.Event()
            await self.stream.send_all(batch)


class Readers:
    """All connected readers."""

    def __init__(self) -> None:
        self._readers: dict[Reader, None] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: Reader) -> None:
        """Add a reader, which gets every later frame."""
        self._readers[reader] = None

    def remove(self, reader: Reader) -> None:
        """Remove a reader, if it is here."""
        self._readers.pop(reader, None)

    def publish(self, frame: feed.ToRpc) -> None:
        """Send a frame to every reader."""
        if self._readers:
            packed = feed.pack(frame)
            for reader in self._readers:
                reader.queue(packed)

    def publish_fate(self, extrinsic_hash: bytes, status: str, block: bytes | None) -> None:
        """Report the status of an extrinsic (the pool's `OnStatus`)."""
        self.publish(feed.ExtrinsicStatus(extrinsic_hash, status, block))
