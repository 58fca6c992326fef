"""Devices of a known speed: what computes for one runs in its own part of every tenth of a second, and stands else.

On one machine six nodes and four devices share the processors, which nobody's devices do elsewhere: what a device
computed in the market would go by what the nodes leave it. A device that asks for a quarter of one core, in turns with
the others, loses less to them.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain

from devnet.proofs.market.family import going_on_after, send

PERIOD_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""So often is it looked which processes compute: looking at all of a machine costs some milliseconds."""

Groups = Callable[[], list[list[int]]]
"""The processes that compute for each device."""


@contextlib.contextmanager
def in_turns(groups: Groups, part: float) -> Iterator[None]:
    """Each device's processes run for such a part of every period, one device after the other; all go on in the end.

    The parts of all devices come to one at most.
    """
    is_over = threading.Event()
    thread = threading.Thread(target=_take_turns, args=(groups, part, is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _take_turns(groups: Groups, part: float, is_over: threading.Event) -> None:
    found, looked_at = list[list[int]](), 0.0
    with going_on_after() as tell:
        while not is_over.is_set():
            began = time.monotonic()
            if not found or began - looked_at >= LOOK_SECONDS:
                found, looked_at = groups(), began
                tell(chain.from_iterable(found))
                for computing in found:
                    send(computing, signal.SIGSTOP)
            for computing in found:
                send(computing, signal.SIGCONT)
                time.sleep(part * PERIOD_SECONDS)
                send(computing, signal.SIGSTOP)
            time.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - began)))
