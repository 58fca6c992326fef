"""Schedules and budgets: each item waits at one height, ended ones are dropped, and the work of a block is bounded."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encoding.codec import U32
from runtime.encoding.types import RuntimeVersion, Weight
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Runtime
from runtime.frame.schedule import HEIGHTS_PER_BLOCK_MAX, TAKE_WEIGHT, ScheduleItem, WeightMeter
from runtime.pallets.system import System
from runtime.state.overlay import Memory

PLENTY = Weight(10**15, 0)


class Diary(Pallet, index=203):
    """A pallet with one schedule."""

    pages: ScheduleItem[U32] = ScheduleItem("page", doc="What the diary has to come back to.")


RUNTIME = Runtime((System, Diary), RuntimeVersion("test", "test", 1, 1, 1, (), 1, 1))


def schedule() -> ScheduleItem[int]:
    return RUNTIME.at(Memory())[Diary].pages


def taken(where: ScheduleItem[int], limit: int, items: int) -> list[int]:
    """Return the items taken up to a height, with a budget for `items` of them."""
    return list(where.take(limit, WeightMeter(Weight(items * TAKE_WEIGHT.ref_time, 0))))


def test_a_schedule_declares_its_three_items_in_order() -> None:
    items = RUNTIME.items[Diary]
    assert [(name, item.name) for name, item in items.items()] == [
        ("pages", "Pages"), ("page_place", "PagePlace"), ("page_cursor", "PageCursor")
    ]  # fmt: skip
    assert len({item.prefix for item in items.values()}) == 3
    first, second = (RUNTIME.at(Memory())[Diary] for _ in range(2))
    first.pages.put(3, 30)
    assert dict(first.pages.waiting.items()) == {(3, 30): True}
    assert not list(second.pages.waiting.items()), "each execution has a state of its own"


def test_a_schedule_whose_annotation_is_missing_is_refused() -> None:
    class Bare(Pallet, index=204):
        """A schedule without a declaration of its items."""

        pages = ScheduleItem[int](doc="Of something.")

    with pytest.raises(TypeError, match="pages"):
        Runtime((System, Bare), RuntimeVersion("test", "test", 1, 1, 1, (), 1, 1))


def test_what_is_put_is_taken_once_its_height_is_reached() -> None:
    where = schedule()
    where.put(3, 30)
    where.put(2, 20)
    assert taken(where, 1, 9) == []
    assert taken(where, 2, 9) == [20]
    assert taken(where, 9, 9) == [30]
    assert taken(where, 20, 9) == []
    assert not list(where.waiting.items())
    assert not list(where.places.items())


def test_an_item_waits_at_one_height() -> None:
    where = schedule()
    for height in (3, 5, 5, 2):
        where.put(height, 7)
    assert taken(where, 9, 9) == [7]


def test_what_was_dropped_is_not_taken_and_uses_up_nothing() -> None:
    where = schedule()
    for item in range(50):
        where.put(1, item)
    for item in range(49):
        where.drop(item)
    where.drop(1_000)
    assert taken(where, 1, 1) == [49]


def test_what_the_budget_does_not_reach_stays_where_it_is() -> None:
    where = schedule()
    for item in range(10):
        where.put(1 + item // 5, item)
    first = [taken(where, 9, 4) for _ in range(4)]
    assert [len(some) for some in first] == [4, 4, 2, 0]
    assert sorted(item for some in first for item in some) == list(range(10))
    assert set(first[0]) <= set(range(5)), "the lower height comes first"


def test_whoever_works_on_an_item_may_spend_the_rest() -> None:
    where, budget = schedule(), WeightMeter(Weight(10 * TAKE_WEIGHT.ref_time, 0))
    for item in range(5):
        where.put(1, item)
    seen = 0
    for _ in where.take(1, budget):
        seen += 1
        budget.spend(PLENTY)
    assert seen == 1
    assert budget.is_spent
    assert budget.spent == TAKE_WEIGHT + PLENTY


def test_what_the_work_on_one_item_drops_is_not_taken() -> None:
    where = schedule()
    where.put(1, 1)
    where.put(1, 2)
    seen = []
    for item in where.take(1, WeightMeter(PLENTY)):
        seen.append(item)
        where.drop(3 - item)
    assert len(seen) == 1


def test_empty_heights_are_passed_a_bounded_number_at_a_time() -> None:
    where = schedule()
    far = HEIGHTS_PER_BLOCK_MAX + 5
    where.put(far, 1)
    assert taken(where, far, 9) == []
    assert taken(where, far, 9) == [1]


@pytest.mark.parametrize("act", [lambda where: where.put(4, 1), lambda where: taken(where, 3, 1)])
def test_behind_the_cursor_is_nothing(act: Callable[[ScheduleItem[int]], object]) -> None:
    where = schedule()
    where.cursor.set(4)
    with pytest.raises(AssertionError):
        act(where)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.booleans()), max_size=40), st.integers(1, 5))
def test_everything_that_waits_is_taken_exactly_once_and_in_order(
    done: list[tuple[int, int, bool]], items: int
) -> None:
    where, wanted = schedule(), dict[int, int]()
    for item, height, drop in done:
        if drop:
            where.drop(item)
            wanted.pop(item, None)
        else:
            where.put(height, item)
            wanted[item] = height
    found: list[int] = []
    for _ in range(10):
        found += taken(where, 6, items)
    assert sorted(found) == sorted(wanted)
    assert [wanted[item] for item in found] == sorted(wanted.values())
