"""CPU seconds of several pieces of work that are compared: in turns, each at its fastest.

Always: what is compared runs in the same turn, so that whatever else the machine does slows all of it; what is too
short for the clock is repeated until it is not.
"""

import time
from collections.abc import Callable, Mapping

SHORTEST_S = 0.01
"""The clock of a process moves in steps of a microsecond, and a first call warms caches up."""
Work = Callable[[], object]


def lowest(works: Mapping[str, Work], turns: int) -> dict[str, float]:
    """The CPU seconds of each piece of work, the lowest of so many turns."""
    seconds = {name: float("inf") for name in works}
    for _ in range(turns):
        for name, work in works.items():
            seconds[name] = min(seconds[name], _seconds(work))
    return seconds


def _seconds(work: Work) -> float:
    times, spent = 1, _spent(work, 1)
    while spent < SHORTEST_S:
        times *= max(2, round(SHORTEST_S / max(spent, SHORTEST_S / 100)))
        spent = _spent(work, times)
    return spent / times


def _spent(work: Work, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start
