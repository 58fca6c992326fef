"""The form of every benchmark: a module whose `measure()` gives figures by name, shown as lines or as JSON.

A name ends with its unit. CPU is user and system time, which other programs on the machine disturb least; what is
compared is always measured in one run.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

Figures = dict[str, float]


def report(measure: Callable[[], Figures]) -> None:
    """What `python -m benchmarks.NAME` does; with `--json` the figures are one line for programs."""
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:<44}{figure:>14,.2f}")


class Stopwatch:
    """CPU seconds of this process, over and over: each `split` is the time since the one before."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def split(self) -> float:
        """CPU seconds since the last split."""
        now = time.process_time()
        spent, self._last = now - self._last, now
        return spent


def median_figures(rounds: Sequence[Figures]) -> Figures:
    """The median of every figure over several rounds."""
    return {name: round(statistics.median(figures[name] for figures in rounds), 2) for name in rounds[0]}
