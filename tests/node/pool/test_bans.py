"""Bans: for a while, bounded by memory, and no list at the expense of another."""

import pytest

from node.pool.bans import BAN_SECONDS, BanList
from node.pool.refusal import PoolRefusalError


def is_banned(bans: BanList, name: bytes, now: float) -> bool:
    try:
        bans.refuse(name, lambda: now)
    except PoolRefusalError:
        return True
    return False


def test_a_ban_lasts_from_the_last_time_on() -> None:
    bans = BanList()
    bans.add(b"bad", 0.0)
    assert is_banned(bans, b"bad", BAN_SECONDS - 1)
    bans.add(b"bad", 50.0)
    assert is_banned(bans, b"bad", 49.0 + BAN_SECONDS)
    assert not is_banned(bans, b"bad", 50.0 + BAN_SECONDS)
    assert not is_banned(bans, b"good", 50.0)


def test_the_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.pool.bans.BANNED_LIMIT", 3)
    bans = BanList()
    for name in (b"first", b"second", b"third", b"first", b"fourth"):
        bans.add(name, 0.0)
    assert [name for name in (b"first", b"second", b"third", b"fourth") if is_banned(bans, name, 1.0)] == [
        b"first",
        b"third",
        b"fourth",
    ]
