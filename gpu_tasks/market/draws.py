"""Who races: owners drawn by the bond of their free slots, one slot each.

Always: the draw is a function of the beacon, the unit and the candidates; two slots of one owner
never race for one unit; splitting a bond over several accounts changes no owner's expected work;
slots that leave after the beacon is known (by a pause, or busy again) bring nobody else out of the race.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
    """The last block in which the slot joined, resumed or changed its ask."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a unit asks of a slot."""

    price: int
    collateral: int
    sealed_at: int
    recorded_at: int
    excluded: tuple[bytes, ...]
    """Owners who may not race: the customer and those who declined."""


def is_eligible(candidate: FreeSlot, wanted: Wanted) -> bool:
    """Whether the slot may race: priced right, secured, able to read, and not steered."""
    return (
        candidate.ask <= wanted.price
        and candidate.free_bond >= wanted.collateral
        and candidate.key_since <= wanted.sealed_at
        and candidate.changed_at <= wanted.recorded_at  # nobody joins a draw whose beacon he may know
        and candidate.owner not in wanted.excluded
    )


def draw_racers(
    candidates: Sequence[FreeSlot], wanted: Wanted, racers: int, *, seed: bytes, label: bytes
) -> list[FreeSlot]:
    """Exactly `racers` slots of distinct owners in draw order, or none if there are too few.

    An owner is drawn by the sum of its eligible bonds, then races with its first slot by id: the
    same chances as drawing single slots and striking out their owners' others.
    """
    owned: dict[bytes, list[FreeSlot]] = {}
    for candidate in sorted(candidates, key=lambda slot: slot.device):
        if is_eligible(candidate, wanted):
            owned.setdefault(candidate.owner, []).append(candidate)
    if len(owned) < racers:
        return []
    owners = sorted(owned)
    entrants = [(owner, sum(slot.bond for slot in owned[owner])) for owner in owners]
    drawn = lottery(seed, label, entrants, racers)
    return [owned[owners[place]][0] for place in drawn] if len(drawn) == racers else []
