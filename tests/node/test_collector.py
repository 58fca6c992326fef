"""Garbage collection runs in the middle of a slot, in small parts."""

import gc
from collections.abc import Iterator

import pytest

from node.loop import ALL_EVERY, OLDER_EVERY, YOUNG_MIN, Collector

SLOT_MS = 1_000
QUIET, BUSY = 400, 950


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the collected generations. There is always garbage."""
    found: list[int] = []
    monkeypatch.setattr(gc, "get_count", lambda: (YOUNG_MIN, 0, 0))
    monkeypatch.setattr(gc, "collect", found.append)
    return found


@pytest.fixture
def no_searches_besides() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("place", [0, 299, 600, 999])
def test_where_a_block_is_made_or_voted_on_nothing_is_searched(searched: list[int], place: int) -> None:
    Collector(SLOT_MS).rest(7 * SLOT_MS + place)
    assert searched == []


@pytest.mark.parametrize("place", [300, 450, 599])
def test_in_the_middle_of_a_slot_it_is(searched: list[int], place: int) -> None:
    Collector(SLOT_MS).rest(7 * SLOT_MS + place)
    assert len(searched) == 1


def test_the_old_are_searched_seldom_and_not_by_all_nodes_together(searched: list[int]) -> None:
    collecting = Collector(SLOT_MS)
    for _ in range(2 * ALL_EVERY):
        collecting.rest(QUIET)
    counts = [searched.count(generation) for generation in range(3)]
    assert counts == [2 * (ALL_EVERY - ALL_EVERY // OLDER_EVERY), 2 * (ALL_EVERY // OLDER_EVERY - 1), 2]
    assert len({Collector(SLOT_MS)._searches for _ in range(50)}) > 1


@pytest.mark.usefixtures("no_searches_besides")
def test_a_few_objects_wait_and_many_are_gone_before_they_hold_up_anybody() -> None:
    collecting = Collector(SLOT_MS)
    collecting.rest(QUIET)
    before = gc.get_count()[0]
    assert 0 < before < YOUNG_MIN
    for _ in range(YOUNG_MIN):
        circle: list[object] = []
        circle.append(circle)
    collecting.rest(BUSY)
    assert gc.get_count()[0] >= YOUNG_MIN
    collecting.rest(QUIET)
    assert gc.get_count()[0] < YOUNG_MIN
