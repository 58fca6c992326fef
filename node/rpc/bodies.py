"""The bodies of POST requests: read whole within a time, only so many at once.

What always holds: when too many are on their way the oldest is given up, since an honest one takes milliseconds: slow
senders get in each other's way and nobody else's.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from http_server.server import body_of

BODY_SECONDS = 10.0
BODIES_MAX = 128


class Bodies:
    """Those that are being read."""

    def __init__(self) -> None:
        """None."""
        self._reading: dict[asyncio.Task[bytes], None] = {}  # oldest first

    async def read(self, request: web.Request, limit: int) -> bytes:
        """The body; raises 413 if it is too long, 400 if in tiny chunks, 408 if slow or if so many came after it."""
        if request.content.is_eof():  # all of it is here: a task and a clock cost as much as the answer
            return await body_of(request, limit)
        if len(self._reading) >= BODIES_MAX:
            oldest = next(iter(self._reading))
            del self._reading[oldest]
            oldest.cancel()
        task = asyncio.create_task(body_of(request, limit))
        self._reading[task] = None
        try:
            await asyncio.wait([task], timeout=BODY_SECONDS)
        finally:
            self._reading.pop(task, None)
            if not task.done():
                task.cancel()
        if task.cancelled() or not task.done():
            raise web.HTTPRequestTimeout(text=f"a body must be here within {BODY_SECONDS:.0f} s")
        return task.result()
