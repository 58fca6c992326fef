"""The units of one device: its current one, and the waiting ones in the order of their draws.

Invariants: a device has at most `places` units, and works on the one that was drawn first. The number of its units at a
unit's recording stays known for as long as it matters. So no owner brings its device into a draw by an action after the
beacon is known.
"""

from dataclasses import replace

from gpu_tasks.market.devices.records import Device
from gpu_tasks.market.ids import UnitId


def places(device: Device) -> int:
    """Return the number of units that a device takes at once, its current one included."""
    return device.queue + 1


def units_of(device: Device) -> tuple[UnitId, ...]:
    """Return the device's units, the current one first."""
    return () if device.assignment is None else (device.assignment, *device.behind)


def has_place(device: Device) -> bool:
    """Return True if the device may be drawn for one more unit."""
    return not device.is_dedicated and len(units_of(device)) < places(device)


def with_unit(device: Device, unit_id: UnitId) -> Device:
    """Return the device with one more unit, behind all others."""
    assert has_place(device), "a device has no more units than its queue allows"
    if device.assignment is None:
        return replace(device, assignment=unit_id)
    return replace(device, behind=(*device.behind, unit_id))


def without_unit(device: Device, unit_id: UnitId, height: int) -> Device:
    """Return the device after block `height` ended its work on a unit. The units behind that one move up."""
    remaining = tuple(other for other in units_of(device) if other != unit_id)
    return replace(
        device,
        assignment=remaining[0] if remaining else None,
        behind=remaining[1:],
        is_dedicated=False,
        # `draws.depth_at` counts these units, so finishing one after a beacon is known brings the device into no draw.
        freed_at=(height, *device.freed_at)[: places(device)],
    )
