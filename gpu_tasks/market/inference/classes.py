"""The classes of devices that may race for a unit: the named one, then its neighbours, then all as the price rises.

A class is the owner's statement. While roll calls are in force, the device has proven the class's least throughput
(`gpu_tasks/market/capacity`). Racers of one class take about equally long, so no racer waits in vain for another.

Invariant: the admitted classes depend on the unit's named class and its age at the recording, before its beacon is
known. So no later arrival or departure changes the class of other racers.
"""

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.units import Unit

ALL_CLASSES = tuple(DeviceClass)
STEPS = len(ALL_CLASSES) - 1
"""The number of times that a unit's classes widen, if it names the lowest or the highest class."""
QUEUE_PART = 2
"""Any class may race once a unit has waited for its maximum time divided by this, however slowly its price rises.
Otherwise a unit could expire because the owners of its class have left, while devices of other classes are idle."""


def classes_at(named: DeviceClass | None, age_blocks: int, ramp_blocks: int) -> tuple[DeviceClass, ...]:
    """Return the classes that may race for a unit that has waited for `age_blocks`.

    They widen by one step in each equal part of the ramp, so from its end on they are all classes.
    """
    if named is None or age_blocks >= ramp_blocks:
        return ALL_CLASSES
    classes_reached = age_blocks * STEPS // ramp_blocks
    return tuple(device_class for device_class in ALL_CLASSES if abs(device_class - named) <= classes_reached)


def age_of_widening(named: DeviceClass | None, age_blocks: int, ramp_blocks: int) -> int | None:
    """Return the age at which more classes may race for a unit of this age, or None if all may."""
    classes_now = classes_at(named, age_blocks, ramp_blocks)
    # One step may admit all classes beside a middle one: later steps then change nothing.
    widening_ages = (-(-ramp_blocks * step // STEPS) for step in range(1, STEPS + 1))
    return next(
        (
            widening_age
            for widening_age in widening_ages
            if widening_age > age_blocks and classes_at(named, widening_age, ramp_blocks) != classes_now
        ),
        None,
    )


def ramp_of_classes(record: Unit, ramp_blocks: int) -> int:
    """Return the blocks in which a unit's classes widen to all: `ramp_blocks`, or fewer if its wait is short."""
    return min(ramp_blocks, record.rules.queue_blocks // QUEUE_PART)


def classes_of(record: Unit, ramp_blocks: int) -> tuple[DeviceClass, ...]:
    """Return the classes that may race for a unit, by its age at its recording or at that of its current race."""
    # The block of the draw must not decide: a proposer can delay it by referring to an older final block.
    recorded_at = record.recorded_at if record.round is None else record.race_recorded_at
    return classes_at(record.terms.device_class, recorded_at - record.posted_at, ramp_of_classes(record, ramp_blocks))


def next_widening(record: Unit, ramp_blocks: int) -> int | None:
    """Return the age at which more classes may race for a queued unit than at its recording, or None if all may."""
    age_blocks = record.recorded_at - record.posted_at
    return age_of_widening(record.terms.device_class, age_blocks, ramp_of_classes(record, ramp_blocks))
