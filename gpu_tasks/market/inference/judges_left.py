"""Who of those in office stays outside a race, to judge what comes of it.

Always: a unit is drawn, and a place of its race filled, only if `judges_needed` of those in office who may judge it
neither race, nor declined it, nor are its customer; whether each can stand for a seat is seen when a case opens, for
nobody knows now what it can spend then.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, judge_of
from runtime.encoding.types import Weight
from runtime.frame.weights import work

LEFT_MIN = 3
"""A committee, and a court, if nobody else may sit."""
LEFT_MIN_SMALL = 2
"""Two who agree decide; in a small set there is no court."""
SMALL_SET = 6
"""Fewer are a small set."""
DEVELOPMENT_SET = 4
"""Fewer are a chain for development, whose units race unjudged: two racers would leave nobody who could decide."""
LOOK_WEIGHT = work(reads=4, microseconds=4)
"""One in office, and whether it may judge."""


@dataclass(frozen=True, slots=True)
class JudgesLeft:
    """Those in office who may judge, each with the block since which it can read inputs, and how many must stay."""

    needed: int
    since: Mapping[bytes, int]

    def spare(self, sealed_at: int, barred: Iterable[bytes]) -> int:
        """How many may race for an input of that height, the barred apart; below 0 it has too few judges already."""
        outside = sum(self.since[stash] <= sealed_at for stash in dict.fromkeys(barred) if stash in self.since)
        return sum(since <= sealed_at for since in self.since.values()) - outside - self.needed

    def racing(self, owners: Collection[bytes], spare: int) -> int:
        """How many of the owners may race for one unit, where so many who may judge are to spare."""
        judging = sum(owner in self.since for owner in owners)
        return len(owners) - judging + min(judging, max(0, spare))


@dataclass(frozen=True, slots=True)
class JudgesFound:
    """Whether there are enough, and at how many of those in office it took a look to know."""

    is_enough: bool
    looks: int


def judges_needed(in_office: int) -> int:
    """How many of so many in office must stay outside a race."""
    if in_office < DEVELOPMENT_SET:
        return 0
    return LEFT_MIN_SMALL if in_office < SMALL_SET else LEFT_MIN


def read_judges(devices: Devices) -> tuple[JudgesLeft, Weight]:
    """Those who may judge now, and what reading them weighs."""
    stashes = [stash for stash, _ in in_office(devices)]
    needed = judges_needed(len(stashes))
    if not needed:
        return JudgesLeft(0, {}), Weight(0, 0)
    since = {stash: judge.key_since for stash in stashes if (judge := judge_of(devices, stash)) is not None}
    return JudgesLeft(needed, since), Weight(len(stashes) * LOOK_WEIGHT.ref_time, 0)


def find_judges(devices: Devices, customer: bytes, sealed_at: int) -> JudgesFound:
    """Whether enough in office may judge an input of that height, racers not thought of; looks at no more than that.

    Where those in office are providers, that is as many as must stay, and the customer.
    """
    stashes = [stash for stash, _ in in_office(devices)]
    own, needed = (customer, devices.operator(customer)), judges_needed(len(stashes))
    able = looks = 0
    while able < needed and looks < len(stashes):
        stash = stashes[looks]
        judge = None if stash in own else judge_of(devices, stash)
        able += judge is not None and judge.key_since <= sealed_at
        looks += 1
    return JudgesFound(able == needed, looks)
