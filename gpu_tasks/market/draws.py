"""Who races: owners drawn by the bond of their free slots, one slot each.

Always: a draw is a function of the beacon, the service and the candidates; two slots of one owner never race for one
unit; slots that leave after the beacon is known (by a pause, or busy again) bring nobody else out of a unit's race.
Units that one beacon draws share one order of the slots, each taking those that come first for it: for each unit alone
that is the draw by bonds, and many units cost hardly more than one.

What is not prevented: an owner who splits its bond over several accounts. It comes first no more often, so races of one
give it nothing; but it may have several places of a race, and has more of them in all. One of three equal owners that
comes as eight has 15 % more places where two race and 39 % more where three do, and both places of every tenth race of
two. Among more owners it is less: docs/market.md has the table, `tests/gpu_tasks/market/test_splitting.py` measures it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.cryptography.draw import lottery

BEACON_DELAY = 2
"""A draw for something recorded at b uses the beacon of b + 2, which nobody knew at b."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A free, bonded slot that offers the unit's service."""

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
    """The last block in which the slot joined, resumed, was freed or changed its ask."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a unit asks of a slot."""

    price: int
    collateral: int
    sealed_at: int
    recorded_at: int
    excluded: tuple[bytes, ...]
    """Owners who may not race: the customer and those who declined."""
    judges: Mapping[bytes, int] = field(default_factory=dict)
    """Those in office who may judge."""
    spare: int = 0
    """How many of them may race: the others must stay to judge. Below 0 there are too few already."""


def is_eligible(candidate: FreeSlot, wanted: Wanted) -> bool:
    """Whether the slot may race: priced right, secured, able to read, and not steered."""
    return (
        candidate.ask <= wanted.price
        and candidate.free_bond >= wanted.collateral
        and candidate.key_since <= wanted.sealed_at
        and candidate.changed_at <= wanted.recorded_at  # nobody joins a draw whose beacon he may know
        and candidate.owner not in wanted.excluded
    )


class DrawOrder:
    """All free slots of a service in the order in which one beacon draws them, each by its bond."""

    def __init__(self, candidates: Sequence[FreeSlot], *, seed: bytes, label: bytes) -> None:
        """Shuffle once; the order of `candidates` does not matter."""
        entrants = [(slot.device, slot.bond) for slot in candidates]
        self._slots = [candidates[place] for place in lottery(seed, label, entrants, len(entrants))]
        self.looks = 0
        """How many slots its draws have looked at."""

    def draw(self, wanted: Wanted, racers: int, taken: Mapping[bytes, None]) -> list[FreeSlot]:
        """The first `racers` slots of distinct owners that may race and are not taken, or none if there are too few.

        The first slot of an owner comes as early as one slot with the sum of its bonds would: owners are drawn by that.
        Who would leave too few judges is passed over: those who come later and judge nothing race instead.
        """
        if wanted.spare < 0:
            return []
        drawn: dict[bytes, FreeSlot] = {}
        spare = wanted.spare
        for place, candidate in enumerate(self._slots, 1):
            if candidate.device in taken or candidate.owner in drawn or not is_eligible(candidate, wanted):
                continue
            if candidate.owner in wanted.judges:
                if not spare:
                    continue
                spare -= 1
            drawn[candidate.owner] = candidate
            if len(drawn) == racers:
                self.looks += place
                return list(drawn.values())
        self.looks += len(self._slots)
        return []

    def forget(self, taken: Mapping[bytes, None]) -> None:
        """Look at slots that are taken no more."""
        self._slots = [slot for slot in self._slots if slot.device not in taken]
