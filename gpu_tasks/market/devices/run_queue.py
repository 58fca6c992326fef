"""The units of one device: the one that it works on, and those that it was drawn for meanwhile, in their order.

Always: a device has at most `places` units, and works on the one that was drawn first; how many it had when a unit was
recorded can be told as long as it matters, so nobody comes into a draw by what he does once its beacon is known.
"""

from dataclasses import replace

from gpu_tasks.market.devices.records import Device
from gpu_tasks.market.ids import UnitId


def places(device: Device) -> int:
    """How many units it takes at once, the one that it works on included."""
    return device.queue + 1


def units_of(device: Device) -> tuple[UnitId, ...]:
    """What it is assigned to, the next one first."""
    return () if device.assignment is None else (device.assignment, *device.behind)


def has_place(device: Device) -> bool:
    """Whether it may be drawn for one unit more."""
    return not device.is_dedicated and len(units_of(device)) < places(device)


def with_unit(device: Device, unit: UnitId) -> Device:
    """The device with one unit more, behind all others."""
    assert has_place(device), "a device takes as many units as its owner said"
    if device.assignment is None:
        return replace(device, assignment=unit)
    return replace(device, behind=(*device.behind, unit))


def without_unit(device: Device, unit: UnitId, height: int) -> Device:
    """The device after block `height` ended its work on one of its units; what was behind that one moves up."""
    left = tuple(other for other in units_of(device) if other != unit)
    return replace(
        device,
        assignment=left[0] if left else None,
        behind=left[1:],
        is_dedicated=False,
        freed_at=(height, *device.freed_at)[: places(device)],
    )
