"""Processes that want a whole processor each, at the nodes' own priority: the small or shared machine of an operator.

What always holds: there is one for each processor that this program may use; all end with the context, and with this
program even if it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from devnet.launcher import processes

BUSY = "while True: pass"


@contextmanager
def beside_the_nodes() -> Iterator[int]:
    """Keep every processor busy. Yield the number of processors."""
    count = len(os.sched_getaffinity(0))
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            hogs.append(  # noqa: PERF401  # those that started are ended if the next one cannot
                subprocess.Popen(
                    [sys.executable, "-S", "-c", BUSY],
                    stdin=subprocess.DEVNULL,
                    preexec_fn=processes.dying_with(os.getpid()),  # noqa: PLW1509  # before any thread is made
                )
            )
        yield count
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()
