"""A real blob store behind a real port, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore


@contextlib.contextmanager
def serving(folder: Path, broker: str | None = None) -> Iterator[str]:
    """Its endpoint, while it serves."""
    loop, server = asyncio.new_event_loop(), BlobServer(BlobStore(folder), broker=broker)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(0), loop).result(10)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
