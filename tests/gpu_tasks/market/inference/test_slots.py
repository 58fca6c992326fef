"""The slots of one service: whom a price brings together, and which ask would."""

from gpu_tasks.market.draws import FreeSlot
from gpu_tasks.market.inference.slots import ServiceSlots


def slot(owner: int, ask: int, changed_at: int = 1) -> FreeSlot:
    device = bytes([owner, ask]) * 16
    return FreeSlot(device, bytes([owner]) * 32, 100, 100, ask, key_since=1, changed_at=changed_at)


def test_the_lowest_ask_of_each_owner_counts() -> None:
    found = ServiceSlots([slot(1, 10), slot(1, 90), slot(2, 80), slot(2, 20)])
    assert not found.is_affordable(9, 1)
    assert found.is_affordable(10, 1)
    assert not found.is_affordable(19, 2)
    assert found.is_affordable(20, 2)
    assert not found.is_affordable(100, 3)


def test_the_next_ask_is_the_first_that_may_bring_enough_owners() -> None:
    found = ServiceSlots([slot(1, 10), slot(2, 20), slot(3, 30)])
    assert [found.next_ask(9, racers) for racers in (1, 2, 3, 4)] == [10, 20, 30, None]
    assert [found.next_ask(20, racers) for racers in (1, 2, 3)] == [30, 30, 30], "those below it did not do"
    assert found.next_ask(30, 1) is None


def test_the_newest_change_is_that_of_any_slot() -> None:
    assert ServiceSlots([slot(1, 10, 7), slot(2, 10, 3)]).changed_at == 7
    assert ServiceSlots([]).changed_at == 0
