"""Python's search for circles of dead objects, done in the middle of a slot, where nobody waits for this node.

A node that only makes and checks empty blocks leaves some 400 such objects a second. Left to Python's own threshold,
which lies high so that no import is held up by it, 250,000 were searched at once after ten minutes: 150 ms and more, in
nodes that had started together at the same moment; a block was 400 ms late in it.
"""

import gc
import random

QUIET_FROM, QUIET_UNTIL = 0.3, 0.6
"""Of a slot: its block is final by then, and the next one is not made yet."""
YOUNG_MIN = 10_000
"""New objects that are worth a search; it takes some 5 ms."""
OLDER_EVERY, ALL_EVERY = 8, 64
"""Searches until one looks at what earlier ones left, and until one looks at everything since the start."""


class Collector:
    """Searches a little at a time, where `rest` finds it quiet."""

    def __init__(self, slot_ms: int) -> None:
        """Nodes that start together do not search everything together."""
        self._slot_ms = slot_ms
        self._searches = random.randrange(ALL_EVERY)

    def rest(self, now_ms: int) -> None:
        """There is nothing to do at this moment: search, where it is quiet and there is something to find."""
        place = now_ms % self._slot_ms
        if not QUIET_FROM * self._slot_ms <= place < QUIET_UNTIL * self._slot_ms or gc.get_count()[0] < YOUNG_MIN:
            return
        self._searches += 1
        gc.collect(2 if self._searches % ALL_EVERY == 0 else 1 if self._searches % OLDER_EVERY == 0 else 0)
