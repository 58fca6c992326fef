"""Eviction when a server is full. Pure.

Invariant: strangers never get the places reserved for this machine. One network gets only a part of the others. An idle
guest yields first. If all are busy, the network with the most guests loses one, so that a few networks cannot keep out
another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar


class NoPlaceError(Exception):
    """A newcomer would have to displace a guest with as good a claim."""


class Occupant(Protocol):
    """The holder of a place."""

    @property
    def network(self) -> str | None:
        """The guest's network, from `network_of`."""
        ...

    @property
    def is_idle(self) -> bool:
        """True if the server may end it at once."""
        ...

    @property
    def active_at(self) -> float:
        """The time of its last activity; the smallest yields."""
        ...


OccupantT = TypeVar("OccupantT", bound=Occupant)


@dataclass(frozen=True, slots=True)
class PlaceLimits:
    """Guests at once."""

    total: int
    of_network: int
    kept_for_this_machine: int = 0


def who_yields(guests: Collection[OccupantT], newcomer: str | None, limits: PlaceLimits) -> OccupantT | None:
    """Return the guest that a newcomer of this network replaces; None if there is room.

    Raise `NoPlaceError` if no guest yields.
    """
    strangers = [guest for guest in guests if guest.network is not None]
    candidates, has_room = list(guests), len(guests) < limits.total
    if newcomer is not None:
        same_network = [guest for guest in strangers if guest.network == newcomer]
        if len(same_network) >= limits.of_network:
            return _idlest(same_network) or _refuse()
        candidates, has_room = strangers, has_room and len(strangers) < limits.total - limits.kept_for_this_machine
    return None if has_room else _idlest(candidates) or _of_the_most(guests, newcomer)


def _idlest(candidates: Collection[OccupantT]) -> OccupantT | None:
    return min((guest for guest in candidates if guest.is_idle), key=_active_at, default=None)


def _of_the_most(guests: Collection[OccupantT], newcomer: str | None) -> OccupantT:
    counts = Counter(guest.network for guest in guests)
    most = max((count for network, count in counts.items() if network is not None), default=0)
    if most <= counts[newcomer] + 1:  # otherwise the two would only take turns in displacing each other
        _refuse()
    crowded = {network for network, count in counts.items() if network is not None and count == most}
    return min((guest for guest in guests if guest.network in crowded), key=_active_at)


def _active_at(guest: Occupant) -> float:
    return guest.active_at


def _refuse() -> NoReturn:
    raise NoPlaceError
