"""Memory that clients made this process take, and need no more, goes back to the system.

The allocator keeps what lies between pieces still in use: when 25 clients with 260 MB of requests had gone, 60 of the
process's 134 MB were free, and stayed. So large pieces, requests and answers, are taken from the system one by one, and
go back with their last user. To look for small ones takes some 20 ms: it is done once in a while, after much was held.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable

from node.rpc.held_bytes import HeldBytes

LARGE_BYTES = 1024 * 1024
_M_MMAP_THRESHOLD = -3  # of <malloc.h>
FREED_BYTES_MIN = 16 * 1024 * 1024
LOOK_SECONDS = 5.0
LOOKS_AFTER = 6
"""Half a minute: what clients left behind is not all let go of at once, some waits for a timer or the collector."""


async def give_back_freed(held: HeldBytes, release: Callable[[], None], pause: float = LOOK_SECONDS) -> None:
    """Call `release` whenever much less is held than a while ago, and some times after that, until cancelled."""
    looks = 0
    while True:
        await asyncio.sleep(pause)
        if held.take_peak() - held.total >= FREED_BYTES_MIN:
            looks = 1 + LOOKS_AFTER
        if looks > 0:
            looks -= 1
            release()


def map_large_pieces() -> None:
    """Have the allocator take each large piece from the system by itself; only glibc's can.

    Left alone it does so up to 32 MB less and less: with each such piece that is freed its threshold rises.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


def release_free_memory() -> None:
    """Have the allocator return every page that holds nothing; only glibc's can."""
    # Connections that were cut off refer to themselves: 350 of them, with what they had sent, waited for the collector.
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
