"""The parts of a run: consecutive cases of one kind, each part in any process."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from simulation.honest.machines import KilledLog
from simulation.honest.play import Tally, Workshop, play_flip, play_honest
from simulation.honest.work import backends_here

PART_CASES = 250
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 # a file system, and no file in it has a fixed name
UNIT, TASK, FLIP = "unit", "task", "flip"


@dataclass(frozen=True)
class Part:
    """Consecutive cases of one kind. They follow from these fields."""

    seed: int
    kind: str
    first: int
    count: int


@dataclass
class Played:
    """The figures of a part, and its CPU time."""

    tally: Tally
    seconds: float


class HereWorkshop(Workshop):
    """The workshop of this process, in a folder that ends with it."""

    def __init__(self) -> None:
        """The folder is in memory where the machine has such a file system."""
        base = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
        self._temporary = TemporaryDirectory(prefix="honest-", dir=base)
        super().__init__(Path(self._temporary.name), backends_here())


@cache
def workshop() -> Workshop:
    """Return the workshop of this process. To open all workloads with their vectors takes seconds."""
    return HereWorkshop()


def play(part: Part) -> Played:
    """Play all cases of a part."""
    log, failed = logging.getLogger("ogpu.provider"), KilledLog()
    log.handlers, log.propagate = [failed], False
    tally, started, shop = Tally(), time.process_time(), workshop()
    for number in range(part.first, part.first + part.count):
        name = f"{part.kind}/{part.seed}/{number}"
        if part.kind == FLIP:
            play_flip(shop, name, tally, is_task=number % 2 == 1)
        else:
            play_honest(shop, name, tally, is_task=part.kind == TASK)
    # A flipped bit may break a computation in any way, as a worker's process may end.
    tally.failures += failed.failures if part.kind != FLIP else []
    return Played(tally, time.process_time() - started)


def parts_of(seed: int, counts: dict[str, int]) -> Iterator[Part]:
    """Yield the parts of a run, of all kinds in turn, so that an early look at the bar shows each."""
    most = max(counts.values())
    for first in range(0, most, PART_CASES):
        for kind, number in counts.items():
            if first < number:
                yield Part(seed, kind, first, min(PART_CASES, number - first))
