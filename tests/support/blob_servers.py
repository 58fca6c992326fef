"""A real blob store on a real port, in a separate thread or in the loop of a test."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.provider.blobs.server import AnswersReaders, BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota


@contextlib.contextmanager
def serving(folder: Path, broker: str | None = None) -> Iterator[str]:
    """Its endpoint, while it serves."""
    loop, server = asyncio.new_event_loop(), BlobServer(BlobStore(folder), broker_address=broker)
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


@contextlib.asynccontextmanager
async def asked(
    folder: Path, quota: Quota | None = None, deliverer: AnswersReaders | None = None
) -> AsyncIterator[tuple[BlobServer, BlobClient, str]]:
    """A server in this loop, a client, and the server's endpoint."""
    server = BlobServer(BlobStore(folder, quota), deliverer=deliverer)
    await server.start(port=0)
    async with BlobClient(private=True) as client:
        yield server, client, f"http://127.0.0.1:{server.port}"
    await server.close()
