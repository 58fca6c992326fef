"""When the extrinsics in the pool expire: found by height, so that a new block costs nothing for those that stay.

What always holds: what was added and not discarded since is found once, by the first height above its last one.
"""

from __future__ import annotations

from node.pool.pooled import PooledExtrinsic


class Expiry:
    """Extrinsics by the last height that they may be in."""

    def __init__(self) -> None:
        self._by_height: dict[int, dict[bytes, PooledExtrinsic]] = {}

    def add(self, candidate: PooledExtrinsic) -> None:
        """It is in the pool."""
        self._by_height.setdefault(candidate.expires_at, {})[candidate.extrinsic_hash] = candidate

    def discard(self, candidate: PooledExtrinsic) -> None:
        """It left."""
        same = self._by_height[candidate.expires_at]
        del same[candidate.extrinsic_hash]
        if not same:
            del self._by_height[candidate.expires_at]

    def below(self, height: int) -> list[PooledExtrinsic]:
        """Those that no block from `height` on may hold, the earliest first."""
        past = sorted(last for last in self._by_height if last < height)
        return [candidate for last in past for candidate in self._by_height[last].values()]
