"""Who races: owners drawn by the bond of their slots, one slot each; those with the fewest units before the others.

Always: a draw is a function of the beacon, the service and the candidates; two slots of one owner never race for one
unit; slots that leave after the beacon is known (by a pause, or full) bring nobody else out of a unit's race; a unit
that a slot was done with after the recording counts as if it had it still, so nobody comes forward by being done.
Units that one beacon draws share one order of the slots, each taking those that come first for it: for each unit alone
that is the draw by bonds, and many units cost hardly more than one.

Racers of one unit have as many units before them, as far as slots last. If they had to, an owner could steer: where one
slot leaves, there may be enough only of others.

What is not prevented: an owner who splits its bond over several accounts. It comes first no more often, so races of one
give it nothing; but it may have several places of a race, and has more of them in all. One of three equal owners that
comes as eight has 15 % more places where two race and 39 % more where three do, and both places of every tenth race of
two. Among more owners it is less: docs/market.md has the table, `tests/gpu_tasks/market/test_splitting.py` measures it.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from gpu_tasks.market.devices.records import DeviceClass
from runtime.cryptography.draw import lottery

BEACON_DELAY = 2
"""A draw for something recorded at b uses the beacon of b + 2, which nobody knew at b."""


RACING_PART = 3
"""Who races for a unit, declined it or is its customer holds one part in so many of the stake in office at most: of
what is left to judge it, a coalition of less than a third is less than half."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A bonded slot with a place for a unit, which offers its service."""

    device: bytes
    owner: bytes
    bond: int
    free_bond: int
    """The part of the bond that secures no other unit."""
    ask: int
    """The lowest price its owner works for."""
    key_since: int
    """The block since which the owner can open sealed inputs."""
    changed_at: int
    """The last block in which the slot joined, resumed, or changed its ask or its places."""
    depth: int = 0
    """How many units it has."""
    places: int = 1
    """How many it takes."""
    freed: tuple[int, ...] = ()
    """The blocks in which its newest units ended, as many of them as it has places at most, the last one first."""
    kind: DeviceClass = DeviceClass.CPU


@dataclass(frozen=True, slots=True)
class Spare:
    """Who of those in office may race: the others must stay to judge."""

    count: int
    """So many; below 0 there are too few judges already."""
    heaviest: int
    """None who has more stake than this."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a unit asks of a slot."""

    rate: int
    """The highest ask that its price meets."""
    collateral: int
    sealed_at: int
    recorded_at: int
    excluded: tuple[bytes, ...]
    """Owners who may not race: the customer and those who declined."""
    judges: Mapping[bytes, int] = field(default_factory=dict)
    """Those in office, each with its stake."""
    spare: Spare = Spare(0, 0)
    """Who of them may race."""
    classes: tuple[DeviceClass, ...] = tuple(DeviceClass)
    """Of which devices may race."""


class Given:
    """What one block has given to slots, beside what it found."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.units: dict[bytes, int] = {}
        """How many units a device was given, if any."""
        self.secured: dict[bytes, int] = {}
        """What of its bond secures them."""

    def give(self, device: bytes, collateral: int) -> None:
        """A unit more, secured by so much."""
        self.units[device] = self.units.get(device, 0) + 1
        self.secured[device] = self.secured.get(device, 0) + collateral


def depth_at(slot: FreeSlot, recorded_at: int) -> int:
    """How many units are before one that was recorded at a block: who was done since then counts as if it was not."""
    return slot.depth + sum(height > recorded_at for height in slot.freed)


def is_eligible(candidate: FreeSlot, wanted: Wanted, secured: int = 0) -> bool:
    """Whether the slot may race: of its class, priced right, secured, able to read, not steered.

    `secured`: what of its bond secures what this block gave it.
    """
    return (
        candidate.kind in wanted.classes
        and candidate.ask <= wanted.rate
        and candidate.free_bond - secured >= wanted.collateral
        and candidate.key_since <= wanted.sealed_at
        and candidate.changed_at <= wanted.recorded_at  # nobody joins a draw whose beacon he may know
        and candidate.owner not in wanted.excluded
    )


def spare_of_stake(stakes: Mapping[bytes, int], barred: Mapping[bytes, None], places: int) -> Spare:
    """How many of those in office may take so many places, however the draw falls: they hold a third at most.

    As many places as can be: for each number of them, the heaviest are left out until any so many of the others, with
    the barred, are within the third. It goes by who is in office alone: were it looked at while drawing whether one
    more still fits, who withdrew a slot once the beacon is known could put a rival out of a race.
    """
    room = sum(stakes.values()) // RACING_PART - sum(stake for stash, stake in stakes.items() if stash in barred)
    heavy = sorted((stake for stash, stake in stakes.items() if stash not in barred), reverse=True)
    before = list(accumulate(heavy, initial=0))
    for count in range(min(places, len(heavy)), 0, -1):
        for first in range(len(heavy) - count + 1):
            is_tied = first > 0 and heavy[first] == heavy[first - 1]
            if not is_tied and before[first + count] - before[first] <= room:
                return Spare(count, heavy[first])
    return Spare(0, 0)


class DrawOrder:
    """All slots of a service in the order in which one beacon draws them: by what they have to do, then by bonds."""

    def __init__(
        self, candidates: Sequence[FreeSlot], *, seed: bytes, label: bytes, recorded_at: int, given: Given
    ) -> None:
        """Shuffle once; the order of `candidates` does not matter. All its units were recorded at one block."""
        entrants = [(slot.device, slot.bond) for slot in candidates]
        self._given = given
        shuffled = [candidates[place] for place in lottery(seed, label, entrants, len(entrants))]
        self._slots = sorted(
            (before + given.units.get(slot.device, 0), place, before, slot)
            for place, slot in enumerate(shuffled)
            for before in (depth_at(slot, recorded_at),)
        )
        """Depth, then the beacon's order; what has become deeper since is moved when it is come upon.

        Beside each how many units it had before this block gave it any: asked for every unit, of every slot.
        """
        self.looks = 0
        """How many slots its draws have looked at."""

    def draw(self, wanted: Wanted, racers: int) -> list[FreeSlot]:
        """The first `racers` slots of distinct owners that may race and have a place, or none if there are too few.

        The first slot of an owner comes as early as one slot with the sum of its bonds would: owners are drawn by that.
        Who would leave too few judges is passed over: those who come later and judge nothing race instead.
        """
        spare = wanted.spare.count
        if spare < 0:
            return []
        drawn: dict[bytes, FreeSlot] = {}
        secured = self._given.secured
        for candidate in self._in_order():
            if candidate.owner in drawn or not is_eligible(candidate, wanted, secured.get(candidate.device, 0)):
                continue
            stake = wanted.judges.get(candidate.owner)
            if stake is not None:
                if not spare or stake > wanted.spare.heaviest:
                    continue
                spare -= 1
            drawn[candidate.owner] = candidate
            if len(drawn) == racers:
                return list(drawn.values())
        return []

    def _in_order(self) -> Iterator[FreeSlot]:
        """Every slot that has a place, the one with the fewest units first."""
        place, slots, given = 0, self._slots, self._given.units
        while place < len(slots):
            self.looks += 1
            noted, order, before, slot = slots[place]
            depth = before + given.get(slot.device, 0)
            if depth >= slot.places:
                del slots[place]
            elif depth > noted:
                del slots[place]
                insort(slots, (depth, order, before, slot), lo=place)
            else:
                place += 1
                yield slot
