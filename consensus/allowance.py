"""What one peer may cause in a second before it is told off or ignored.

Always: counts are of the running second alone, and of peers that are connected.
"""


class Allowance:
    """So many of something a second for each peer."""

    def __init__(self) -> None:
        """Nothing used."""
        self._second = 0
        self._used: dict[bytes, int] = {}

    def is_used_up(self, peer: bytes, most: int, now_ms: int) -> bool:
        """Count one more; whether that is more than `most` in this second."""
        second = now_ms // 1_000
        if second != self._second:
            self._second = second
            self._used.clear()
        self._used[peer] = self._used.get(peer, 0) + 1
        return self._used[peer] > most
