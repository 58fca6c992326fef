"""The draw of racers: owners by the bond of their free slots, one slot each, slots with the fewest units first.

Invariants:

* A draw is a function of the beacon, the service and the candidates.
* Two slots of one owner never race for one unit.
* A slot that leaves after the beacon is known (paused or full) removes no other slot from a unit's race.
* A unit that a slot finished after the recording still counts as one of its units. Finishing early brings no slot
  forward.

All units that one beacon draws share one shuffled order of the slots. Each unit takes the first slots that fit it. For
each unit alone this equals the draw by bonds, and many units cost hardly more than one.

The racers of one unit have equally many units ahead of it only as far as enough such slots exist. If equality were
required, an owner could steer the draw: when one slot leaves, only another depth may have enough slots.

Not prevented: an owner that splits its bond over several accounts. It comes first no more often, so races of one racer
give it no advantage. In larger races it can take several places, and it gets more places in total. If one of three
equal owners splits into eight accounts, it has 15 % more places in races of two and 39 % more in races of three. It
also takes both places in every tenth race of two. Among more owners the gain is smaller: docs/market.md has the table,
and `tests/gpu_tasks/market/test_splitting.py` measures it.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from gpu_tasks.market.devices.records import DeviceClass
from runtime.cryptography.draw import lottery

BEACON_DELAY = 2
"""A draw for a unit recorded at block b uses the beacon of b + 2, which is unknown at b."""


RACING_PART = 3
"""The active set's stake divided by this is the most that racers, decliners and the customer of a unit hold together.
At least two thirds stay to check, so a coalition below one third of the stake is less than half of the voters."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A bonded slot that offers a unit's service."""

    device: bytes
    owner: bytes
    bond: int
    free_bond: int
    """The part of the bond that secures no other unit, in grains."""
    ask: int
    """The lowest price that the owner accepts, in grains per 1,000 output tokens."""
    key_since: int
    """The block since which the owner can open sealed inputs."""
    changed_at: int
    """The last block in which the slot joined, resumed, or changed its ask, its bond or its number of places."""
    depth: int = 0
    """The number of units that the slot has."""
    places: int = 1
    """The number of units that the slot takes at once."""
    freed: tuple[int, ...] = ()
    """The blocks in which its newest units ended, newest first: at most `places` of them."""
    kind: DeviceClass = DeviceClass.CPU


@dataclass(frozen=True, slots=True)
class Spare:
    """The validators of the active set that may race. The others must stay to check."""

    count: int
    """The number of validators that may race. A negative number means that there are too few checkers already."""
    heaviest: int
    """The greatest stake of a validator that may race."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions of a unit for its racers."""

    rate: int
    """The highest ask that the unit's price meets, in grains per 1,000 output tokens."""
    collateral: int
    sealed_at: int
    recorded_at: int
    excluded: tuple[bytes, ...]
    """Owners that may not race: the customer, and providers that declined the unit."""
    checkers: Mapping[bytes, int] = field(default_factory=dict)
    """The validators of the active set, each with its stake."""
    spare: Spare = Spare(0, 0)
    """The part of `checkers` that may race."""
    classes: tuple[DeviceClass, ...] = tuple(DeviceClass)
    """The classes of devices that may race."""


class Given:
    """The units that one block has given to slots, beyond the recorded state."""

    def __init__(self) -> None:
        """Start without any unit."""
        self.units: dict[bytes, int] = {}
        """The number of units that a device was given."""
        self.secured: dict[bytes, int] = {}
        """The grains of the device's bond that secure these units."""

    def give(self, device_id: bytes, collateral: int) -> None:
        """Add a unit that `collateral` grains of the device's bond secure."""
        self.units[device_id] = self.units.get(device_id, 0) + 1
        self.secured[device_id] = self.secured.get(device_id, 0) + collateral


def depth_at(slot: FreeSlot, recorded_at: int) -> int:
    """Return the number of units ahead of one recorded at `recorded_at`.

    A unit that ended after that block still counts.
    """
    return slot.depth + sum(freed_height > recorded_at for freed_height in slot.freed)


def is_eligible(candidate: FreeSlot, wanted: Wanted, secured_grains: int = 0) -> bool:
    """Return True if the slot may race: by class, ask, bond, seal key, last change and owner.

    `secured_grains` is the part of its bond that secures units of this block.
    """
    return (
        candidate.kind in wanted.classes
        and candidate.ask <= wanted.rate
        and candidate.free_bond - secured_grains >= wanted.collateral
        and candidate.key_since <= wanted.sealed_at
        # A slot that changes after the recording may know the beacon: it could steer the draw.
        and candidate.changed_at <= wanted.recorded_at
        and candidate.owner not in wanted.excluded
    )


def spare_of_stake(stakes: Mapping[bytes, int], barred: Mapping[bytes, None], place_count: int) -> Spare:
    """Return the number and the greatest stake of validators that may race, so that any draw stays within a third.

    The third is that of the active set's stake. The function tries each number of places from `place_count` downward.
    For each number it leaves out the heaviest validators until any choice of that many others, together with the barred
    ones, holds at most a third.

    The result depends on the active set alone. A check during the draw, racer by racer, would be open to an attack: an
    owner that knows the beacon withdraws a slot and so pushes a rival out of the race.
    """
    room = sum(stakes.values()) // RACING_PART - sum(stake for stash, stake in stakes.items() if stash in barred)
    heaviest_first = sorted(
        (stake for stash, stake in stakes.items() if stash not in barred),
        reverse=True,
    )
    sums = list(accumulate(heaviest_first, initial=0))
    for racing_count in range(min(place_count, len(heaviest_first)), 0, -1):
        for first_index in range(len(heaviest_first) - racing_count + 1):
            # `Spare` names a stake, not a validator. A limit equal to a left-out validator's stake would admit it.
            is_tied = first_index > 0 and heaviest_first[first_index] == heaviest_first[first_index - 1]
            if not is_tied and sums[first_index + racing_count] - sums[first_index] <= room:
                return Spare(racing_count, heaviest_first[first_index])
    return Spare(0, 0)


class DrawOrder:
    """All slots of a service in the order in which one beacon draws them: by number of units, then by bond."""

    def __init__(
        self, candidates: Sequence[FreeSlot], *, seed: bytes, label: bytes, recorded_at: int, given_units: Given
    ) -> None:
        """Shuffle the slots once. All units of the draw were recorded at one block.

        The order of `candidates` does not matter.
        """
        entrants = [(slot.device, slot.bond) for slot in candidates]
        self._given = given_units
        shuffled = [candidates[position] for position in lottery(seed, label, entrants, len(entrants))]
        self._slots = sorted(
            (depth_before + given_units.units.get(slot.device, 0), position, depth_before, slot)
            for position, slot in enumerate(shuffled)
            for depth_before in (depth_at(slot, recorded_at),)
        )
        """Depth, place in the beacon's order, depth before this block, and slot.

        A slot that got deeper moves when the draw reaches it. The third member saves computing the depth again for
        every unit and slot.
        """
        self.looks = 0
        """The number of slots that the draws have looked at: the measure of their cost."""

    def draw(self, wanted: Wanted, racers: int) -> list[FreeSlot]:
        """Return the first `racer_count` eligible slots of distinct owners, or an empty list if there are too few.

        The first slot of an owner comes as early as one slot with the sum of its bonds would, so this draws owners by
        their bonds. It skips validators that must stay to check. Later owners outside the active set race instead.
        """
        spare_count = wanted.spare.count
        if spare_count < 0:
            return []
        drawn: dict[bytes, FreeSlot] = {}
        secured_grains = self._given.secured
        for candidate in self._in_order():
            if candidate.owner in drawn or not is_eligible(candidate, wanted, secured_grains.get(candidate.device, 0)):
                continue
            owner_stake = wanted.checkers.get(candidate.owner)
            if owner_stake is not None:
                if not spare_count or owner_stake > wanted.spare.heaviest:
                    continue
                spare_count -= 1
            drawn[candidate.owner] = candidate
            if len(drawn) == racers:
                return list(drawn.values())
        return []

    def _in_order(self) -> Iterator[FreeSlot]:
        """Yield every slot with a free place, fewest units first."""
        slot_index, slots, given = 0, self._slots, self._given.units
        while slot_index < len(slots):
            self.looks += 1
            noted_depth, position, depth_before, slot = slots[slot_index]
            current_depth = depth_before + given.get(slot.device, 0)
            if current_depth >= slot.places:
                # Nothing takes units from a slot within a block: a full slot can leave the order for good.
                del slots[slot_index]
            elif current_depth > noted_depth:
                del slots[slot_index]
                insort(slots, (current_depth, position, depth_before, slot), lo=slot_index)
            else:
                slot_index += 1
                yield slot
