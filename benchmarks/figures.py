"""The form of every benchmark: a module whose `measure()` returns figures by name.

A name ends with its unit. CPU is user and system time, the figure that other programs on the machine disturb least.
Compared figures always come from one run. `machine()` describes the machine that took the figures.
"""

import os
import platform
import statistics
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

Figures = dict[str, float]


def named_model() -> str:
    """Return the value of MODEL. Exit with a sentence if it is not set."""
    if "MODEL" not in os.environ:
        raise SystemExit("MODEL is not set; benchmarks/README.md describes its value for this benchmark")
    return os.environ["MODEL"]


class Stopwatch:
    """A stopwatch of this process's CPU time. Each `split` returns the seconds since the previous one."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def split(self) -> float:
        """Return the CPU seconds since the last split."""
        now = time.process_time()
        spent, self._last = now - self._last, now
        return spent


def median_figures(rounds: Sequence[Figures]) -> Figures:
    """Return the median of every figure over several rounds."""
    return {name: round(statistics.median(figures[name] for figures in rounds), 2) for name in rounds[0]}


VERSIONS = ("PyNaCl", "numpy", "plyvel", "trio", "libp2p")


def machine() -> dict[str, object]:
    """Return the machine, the versions and the current load, which includes other programs."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in VERSIONS},
    }
