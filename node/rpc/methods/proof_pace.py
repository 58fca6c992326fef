"""The pace of proofs, which the node's own process makes: keys a second, and the order of callers.

Always: at most `KEYS_PER_SECOND` go to the node. Each part of a proof waits for its caller's turn among `Questions`, so
hundreds of connections of one address are one caller.
"""

from __future__ import annotations

from node.rpc.questions import Questions

KEYS_AT_ONCE = 64
"""2 ms of the node's time: between two such questions it votes and gossips."""
KEYS_PER_SECOND = 4_000
"""35 us each, so a seventh of a core; below the share that the node gives to questions, which then wait."""


class ProofPace:
    """One for each RPC process."""

    def __init__(self, keys_per_second: float = KEYS_PER_SECOND) -> None:
        """Nobody waits."""
        self._seconds_per_key = 1 / keys_per_second
        self._line = Questions(1)

    async def take(self, keys: int) -> None:
        """Wait until so many keys may go.  Raises `JsonRpcError` when too many parts of the caller wait."""
        # The turn ends by the clock, not with the answer: a caller whose question waits at the node delays nobody.
        await self._line.start(keys * self._seconds_per_key)
