"""The expiry of waiting entries: found by height, without remains."""

from __future__ import annotations

from node.pool.pooled import PooledExtrinsic
from node.pool.transaction_queue import Expiry


def lasting(name: bytes, expires_at: int) -> PooledExtrinsic:
    return PooledExtrinsic(name, name, b"", 0, 0, expires_at)


def test_those_below_a_height_come_the_earliest_first_and_what_left_is_forgotten() -> None:
    expiry = Expiry()
    late, early, same, never = (lasting(b"a", 9), lasting(b"b", 4), lasting(b"c", 9), lasting(b"d", 1 << 64))
    for candidate in (late, early, same, never):
        expiry.add(candidate)
    assert expiry.below(4) == []
    assert expiry.below(10) == [early, late, same]
    expiry.discard(early)
    expiry.discard(late)
    assert expiry.below(10) == [same]
    expiry.discard(same)
    expiry.discard(never)
    assert (expiry.below(1 << 65), vars(expiry)) == ([], {"_by_height": {}})
