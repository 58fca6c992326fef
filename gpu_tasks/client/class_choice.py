"""Of which class of devices the racers of a unit shall be.

Where one device is far slower than the other, it computes in vain: the answer of the faster one stands alone, and two
judges must look at it, at their customer's cost. So racers are asked for of one class; which, chance says, by the bond
of its devices: if everybody asked for the largest, the others would stand still. By their number, whoever registers
many tiny devices of a class that nobody else has would be sent nearly everybody.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gpu_tasks.client.offers import Suiting, suiting
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from wallet.client import ChainClient

USUAL, ANY = "usual", "any"
CLASS_CHOICES = (USUAL, ANY, *CLASS_NAMES)


@dataclass(frozen=True, slots=True)
class ClassWish:
    """What a customer asks for: `USUAL`, `ANY`, or a class by name; and what it pays, in grains per thousand tokens."""

    named: str = ANY
    rate_max: int = 0


NO_CLASS = ClassWish()
OWNERS_PER_RACER = 2
"""A class is chosen that has so many owners for each racer. Of as many as race everybody knows who they will be; and
whoever withdraws its devices where that leaves too few, when it knows the beacon, has another draw."""


async def classes_for(
    client: ChainClient, service: int, customer: bytes, racers: int, wish: ClassWish, at: bytes
) -> Callable[[], DeviceClass | None]:
    """What gives each unit that is posted now its class."""
    if wish.named in CLASS_NAMES:
        return lambda: CLASS_NAMES[wish.named]
    if wish.named == ANY or racers == 1:
        return lambda: None
    found = await suiting(client, service, customer, racers=racers, rate_max=wish.rate_max, at=at)
    fitting = fitting_classes(found, racers)
    return lambda: chosen(fitting, secrets.randbelow)


def fitting_classes(found: Suiting, racers: int) -> dict[DeviceClass, int]:
    """The classes that have owners enough of whom enough may race, each with the bond of its devices in grains."""
    owners: dict[DeviceClass, set[bytes]] = {}
    bonds = Counter[DeviceClass]()
    for status in found.devices:
        owners.setdefault(status.device.kind, set()).add(status.device.owner)
        bonds[status.device.kind] += status.device.bond
    return {
        kind: bonds[kind]
        for kind in DeviceClass
        if len(owners.get(kind, ())) >= OWNERS_PER_RACER * racers and found.racing(owners[kind]) >= racers
    }


def chosen(fitting: dict[DeviceClass, int], below: Callable[[int], int]) -> DeviceClass | None:
    """One of the classes, each as likely as it has bond; None where there is none. `below(n)`: a number below n."""
    if not fitting:
        return None
    place = below(sum(fitting.values()))
    for kind, bond in fitting.items():
        if place < bond:
            return kind
        place -= bond
    raise AssertionError("a number below the sum falls into one of the parts")
