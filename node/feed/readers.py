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
        self._queued_frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._overflowed = False
        self._has_frames = trio.Event()

    def queue(self, packed: bytes) -> None:
        """Queue a packed frame."""
        self._queued_bytes += len(packed)
        self._overflowed = self._overflowed or self._queued_bytes > QUEUE_BYTES_MAX
        # A reader that is about to be disconnected gets no more memory.
        if not self._overflowed:
            self._queued_frames.append(packed)
        self._has_frames.set()

    async def write_queued(self) -> None:
        """Send queued frames until cancelled. Raise `FeedError` if the reader is too far behind."""
        while True:
            await self._has_frames.wait()
            if self._overflowed:
                raise feed.FeedError(f"it is {QUEUE_BYTES_MAX:,} bytes behind")
            queued_batch = b"".join(self._queued_frames)
            self._queued_frames.clear()
            self._queued_bytes -= len(queued_batch)
            self._has_frames = trio.Event()
            await self.stream.send_all(queued_batch)


class Readers:
    """All connected readers."""

    def __init__(self) -> None:
        self._readers: dict[Reader, None] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, new_reader: Reader) -> None:
        """Add a reader, which gets every later frame."""
        self._readers[new_reader] = None

    def remove(self, ended_reader: Reader) -> None:
        """Remove a reader, if it is here."""
        self._readers.pop(ended_reader, None)

    def publish(self, frame: feed.ToRpc) -> None:
        """Send a frame to every reader."""
        if self._readers:
            packed = feed.pack(frame)
            for reader in self._readers:
                reader.queue(packed)

    def publish_fate(self, extrinsic_hash: bytes, status: str, block: bytes | None) -> None:
        """Report the status of an extrinsic (the pool's `OnStatus`)."""
        self.publish(feed.ExtrinsicStatus(extrinsic_hash, status, block))
