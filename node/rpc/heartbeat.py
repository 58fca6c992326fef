"""A byte a second on standard output: how the node sees that its RPC process still answers.

What always holds: it comes from the loop that answers clients, so it stops when that loop does; it needs no port that
strangers could occupy; a node that does not read it holds nothing up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

BEAT_SECONDS = 1.0
BEAT = b"."


async def beat(descriptor: int) -> None:
    """Write to `descriptor`, a pipe, until cancelled."""
    os.set_blocking(descriptor, False)
    while True:
        with contextlib.suppress(OSError):  # full, or nobody is there: the end of the feed says the same
            os.write(descriptor, BEAT)
        await asyncio.sleep(BEAT_SECONDS)
