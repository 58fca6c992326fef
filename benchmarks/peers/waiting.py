"""Looking at a node again and again until it is where it should be."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

LOOK_SECONDS = 0.025
"""How late a node can be found ready or final: small beside the seconds that are measured, and cheap for the node."""


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for it.  Raises `TimeoutError`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not ready after {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)


async def every_look() -> AsyncIterator[None]:
    """Once now, then once each `LOOK_SECONDS`."""
    while True:
        yield
        await asyncio.sleep(LOOK_SECONDS)
