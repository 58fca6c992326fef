"""Proofs are made where blocks are: how many keys a second, and in which order those who ask come.

What always holds: no more than `KEYS_PER_SECOND` go to the node; whoever asks for many waits for his turn after each
part, behind all who came meanwhile, so a few keys are never behind all of somebody's thousand.
"""

from __future__ import annotations

import asyncio

KEYS_AT_ONCE = 64
"""2 ms of the node's time: between two such questions it votes and gossips."""
KEYS_PER_SECOND = 4_000
"""35 us each, so a seventh of a core; below the share that the node gives to questions, which then wait."""


class ProofPace:
    """One for each RPC process."""

    def __init__(self, keys_per_second: float = KEYS_PER_SECOND) -> None:
        """Nobody waits."""
        self._seconds_per_key = 1 / keys_per_second
        self._free_at = 0.0
        self._line = asyncio.Lock()  # first come, first served

    async def take(self, keys: int) -> None:
        """Wait until so many keys may go."""
        async with self._line:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(self._free_at - now)
            self._free_at = max(now, self._free_at) + keys * self._seconds_per_key
