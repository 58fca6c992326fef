"""What an agenda calls in a block: a bounded part of what is due, each unit once."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from gpu_tasks.market.inference.agenda import EXPIRIES_PER_BLOCK_MAX, STEPS_PER_BLOCK_MAX, Agenda


class Kept:
    """A schedule that always has more than may be taken, and notes what it was asked for."""

    def __init__(self, units: Sequence[bytes]) -> None:
        self.units = units
        self.asked: list[tuple[int, int]] = []

    def take(self, limit: int, room: int) -> list[bytes]:
        self.asked.append((limit, room))
        return list(self.units)


def test_finality_calls_half_as_many_as_height_and_nobody_twice() -> None:
    heights, final, old = Kept([b"a", b"b"]), Kept([b"b", b"c"]), Kept([b"d"])
    system = SimpleNamespace(number=SimpleNamespace(get=lambda: 9))
    beacon = SimpleNamespace(final_height=lambda: 7)
    agenda = Agenda(system, beacon, heights, final, old)  # type: ignore[arg-type]  # what an agenda uses of them
    assert agenda.due() == (b"b", b"c", b"a")
    assert (final.asked, heights.asked) == ([(7, STEPS_PER_BLOCK_MAX // 2)], [(9, STEPS_PER_BLOCK_MAX)])
    assert agenda.expired() == [b"d"]
    assert old.asked == [(9, EXPIRIES_PER_BLOCK_MAX)]
