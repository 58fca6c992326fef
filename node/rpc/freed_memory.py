"""The return of memory to the system that clients no longer need.

The allocator keeps free memory between pieces in use. After 25 clients with 260 MB of requests had left, 60 of the
process's 134 MB were free and stayed. Large pieces (requests, answers) are therefore mapped from the system one by one,
and return with their last user. A search for small ones takes about 20 ms, so it runs rarely, after much was held.
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
"""Half a minute: not all memory is freed at once, some waits for a timer or the garbage collector."""


async def give_back_freed(held: HeldBytes, release_memory: Callable[[], None], seconds: float = LOOK_SECONDS) -> None:
    """Call `release_memory` after much less is held than before, and some times more, until cancelled."""
    remaining_looks = 0
    while True:
        await asyncio.sleep(seconds)
        if held.take_peak() - held.total >= FREED_BYTES_MIN:
            remaining_looks = 1 + LOOKS_AFTER
        if remaining_looks > 0:
            remaining_looks -= 1
            release_memory()


def map_large_pieces() -> None:
    """Have the allocator map each large piece by itself; only glibc's can.

    By default it does so ever more rarely, up to 32 MB: each freed piece of this kind raises its threshold.
    """
    set_allocator_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_allocator_option is not None:
        set_allocator_option(_M_MMAP_THRESHOLD, LARGE_BYTES)


def release_free_memory() -> None:
    """Have the allocator return every empty page; only glibc's can."""
    # Connections that were cut off hold reference cycles: 350 of them, with their data, waited for the collector.
    gc.collect()
    trim_allocator = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim_allocator is not None:
        trim_allocator(0)
