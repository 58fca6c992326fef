"""CPU seconds of compared pieces of work, measured in turns, each at its fastest.

Invariant: compared pieces run in the same turn, so that other programs on the machine slow all of them. Work too short
for the clock is repeated.
"""

import time
from collections.abc import Callable, Mapping

SHORTEST_S = 0.01
"""The shortest measurable work. A process's clock moves in steps of a microsecond, and a first call fills caches."""
Work = Callable[[], object]


def lowest(works: Mapping[str, Work], turns: int) -> dict[str, float]:
    """Return the CPU seconds of each piece of work, the lowest of `turns` turns."""
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
