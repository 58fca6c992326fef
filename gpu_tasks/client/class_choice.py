"""Of which class of devices the racers of a unit shall be.

Where one device is far slower than the other, it computes in vain: the answer of the faster one stands alone, and two
judges must look at it, at their customer's cost. So racers are asked for of one class; which, chance says, by how many
devices each has: if everybody asked for the largest, the others would stand still.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_tasks.client.offers import drawable
from gpu_tasks.market.devices.records import CLASS_NAMES, Device, DeviceClass
from wallet.client import ChainClient

USUAL, ANY = "usual", "any"
CLASS_CHOICES = (USUAL, ANY, *CLASS_NAMES)


@dataclass(frozen=True, slots=True)
class ClassWish:
    """What a customer asks for: `USUAL`, `ANY`, or a class by name; and what it pays, in grains per thousand tokens."""

    named: str = ANY
    rate_max: int = 0


NO_CLASS = ClassWish()


async def classes_for(
    client: ChainClient, service: int, customer: bytes, racers: int, wish: ClassWish, at: bytes
) -> Callable[[], DeviceClass | None]:
    """What gives each unit that is posted now its class."""
    if wish.named in CLASS_NAMES:
        return lambda: CLASS_NAMES[wish.named]
    if wish.named == ANY or racers == 1:
        return lambda: None
    found = await drawable(client, service, customer, racers=racers, rate_max=wish.rate_max, at=at)
    fitting = fitting_classes((status.device for status in found), racers)
    return lambda: chosen(fitting, secrets.randbelow)


def fitting_classes(devices: Iterable[Device], racers: int) -> dict[DeviceClass, int]:
    """The classes that have so many owners, each with how many devices it has; paused ones do not count."""
    owners: dict[DeviceClass, set[bytes]] = {}
    counts = Counter[DeviceClass]()
    for device in devices:
        if not device.is_paused:
            owners.setdefault(device.kind, set()).add(device.owner)
            counts[device.kind] += 1
    return {kind: counts[kind] for kind in DeviceClass if len(owners.get(kind, ())) >= racers}


def chosen(fitting: dict[DeviceClass, int], below: Callable[[int], int]) -> DeviceClass | None:
    """One of the classes, each as likely as it has devices; None where there is none. `below(n)`: a number below n."""
    if not fitting:
        return None
    place = below(sum(fitting.values()))
    for kind, count in fitting.items():
        if place < count:
            return kind
        place -= count
    raise AssertionError("a number below the sum falls into one of the parts")
