"""Who follows the feed at this moment, and what each has still to be sent.

Invariant: publishing never waits; a reader that falls `QUEUE_BYTES_MAX` behind is cut off, and starts again
from a snapshot when it connects anew.
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
        """Send a packed frame when its turn comes."""
        self._bytes += len(packed)
        self._overflowed = self._overflowed or self._bytes > QUEUE_BYTES_MAX
        if not self._overflowed:
            self._queue.append(packed)
        self._filled.set()

    async def write_queued(self) -> None:
        """Send what is queued until cancelled; raises `FeedError` when the reader is too far behind."""
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
    """Everybody who is connected."""

    def __init__(self) -> None:
        self._readers: dict[Reader, None] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: Reader) -> None:
        """From now on it gets what is published."""
        self._readers[reader] = None

    def remove(self, reader: Reader) -> None:
        """It is gone, if it was here."""
        self._readers.pop(reader, None)

    def publish(self, frame: feed.ToRpc) -> None:
        """Send a frame to everybody."""
        if self._readers:
            packed = feed.pack(frame)
            for reader in self._readers:
                reader.queue(packed)

    def publish_fate(self, extrinsic_hash: bytes, status: str, block: bytes | None) -> None:
        """Tell what happened to an extrinsic (the pool's `OnStatus`)."""
        self.publish(feed.ExtrinsicStatus(extrinsic_hash, status, block))
