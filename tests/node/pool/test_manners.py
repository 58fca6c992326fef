"""Ignored peers, by their refused messages and the time that these took."""

from __future__ import annotations

from node.pool.manners import (
    FORGED_PER_BLAME,
    JUDGED_MAX,
    PEERS_REMEMBERED,
    REFUSED_BURST_OF_ALL_SECONDS,
    REFUSED_BURST_SECONDS,
    REFUSED_SHARE,
    Manners,
)


def test_who_wastes_time_is_not_heard_until_it_is_paid_back() -> None:
    manners = Manners(0.0)
    manners.on_refused("bad", REFUSED_BURST_SECONDS + 0.01, 0.0, is_forged=False)
    assert not manners.is_heard("bad", 0.0)
    assert manners.is_heard("good", 0.0)
    paid_back = 0.01 / REFUSED_SHARE
    assert not manners.is_heard("bad", paid_back - 0.01)
    assert manners.is_heard("bad", paid_back + 0.01)


def test_many_who_waste_a_little_each_wait_and_nobody_else_does() -> None:
    manners = Manners(0.0)
    count = int(REFUSED_BURST_OF_ALL_SECONDS / (REFUSED_BURST_SECONDS / 2)) + 1
    for number in range(count):
        manners.on_refused(f"bad {number}", REFUSED_BURST_SECONDS / 2, 0.0, is_forged=False)
    manners.on_admitted("good", 0.0)
    assert not any(manners.is_heard(f"bad {number}", 0.0) for number in range(count))
    assert manners.is_heard("good", 0.0)
    assert manners.is_heard("new", 0.0)
    assert manners.is_heard("bad 0", 10.0)


def test_forgeries_are_blamed_on_who_sends_little_else() -> None:
    manners = Manners(0.0)
    blamed = [manners.on_refused("bad", 0.0, 0.0, is_forged=True) for _ in range(3 * FORGED_PER_BLAME)]
    assert [number + 1 for number, blame in enumerate(blamed) if blame] == [8, 16, 24]
    for _ in range(100):
        manners.on_admitted("mostly good", 0.0)
    assert not any(manners.on_refused("mostly good", 0.0, 0.0, is_forged=True) for _ in range(100))
    assert not any(manners.on_refused("stale", 0.0, 0.0, is_forged=False) for _ in range(100))


def test_known_and_stale_messages_are_no_excuse_for_forgeries() -> None:
    manners = Manners(0.0)
    blamed = []
    for _ in range(FORGED_PER_BLAME):
        for _ in range(10):
            assert not manners.on_refused("bad", 0.0, 0.0, is_forged=False)
        blamed.append(manners.on_refused("bad", 0.0, 0.0, is_forged=True))
    assert blamed == [False] * (FORGED_PER_BLAME - 1) + [True]
    assert not manners.on_refused("bad", 0.0, 0.0, is_forged=False), "blamed once for these"


def test_good_ones_of_long_ago_excuse_nothing() -> None:
    manners = Manners(0.0)
    for _ in range(10 * JUDGED_MAX):
        manners.on_admitted("turned", 0.0)
    blamed = [manners.on_refused("turned", 0.0, 0.0, is_forged=True) for _ in range(2 * JUDGED_MAX)]
    assert any(blamed)
    assert not any(blamed[: JUDGED_MAX // 2])


def test_new_names_fill_no_memory() -> None:
    manners = Manners(0.0)
    for number in range(PEERS_REMEMBERED + 50):
        manners.on_refused(str(number), 1.0, 0.0, is_forged=False)
    assert len(manners._records_by_peer) == PEERS_REMEMBERED
    manners.on_admitted("50", 0.0)
    manners.on_admitted("new", 0.0)
    assert [manners.is_heard(peer, 0.0) for peer in ("50", "51", "52")] == [False, True, False]
