"""Which classes of devices may race for a unit: the one that it names, then its neighbours, and any as its price rises.

A class is what a device says that it is, and where roll calls are in force, what it has proven the least throughput of
(`gpu_tasks/market/capacity`). Racers of one class take about as long as each other, so none is waited for in vain.

Always: who may race goes by what the unit names and by how long it had waited when it was recorded, which is before its
beacon is known; so whoever comes or goes afterwards changes nobody else's class.
"""

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.units import Unit

ALL_CLASSES = tuple(DeviceClass)
STEPS = len(ALL_CLASSES) - 1
"""So often a unit's classes widen, if it names one at an end."""
QUEUE_PART = 2
"""Any class may race for a unit once it has waited for one part in so many of the time that it may, however slowly
its price rises: else a class whose owners have left let it expire beside devices that stand still."""


def classes_at(named: DeviceClass | None, age: int, ramp: int) -> tuple[DeviceClass, ...]:
    """The classes of which devices may race for a unit that has waited for `age` blocks.

    One step further from the named one with each equal part of the ramp, so all of them from its end on.
    """
    if named is None or age >= ramp:
        return ALL_CLASSES
    reach = age * STEPS // ramp
    return tuple(each for each in ALL_CLASSES if abs(each - named) <= reach)


def age_of_widening(named: DeviceClass | None, age: int, ramp: int) -> int | None:
    """The age at which a unit of this age is open to more classes; None if it is open to all."""
    found = classes_at(named, age, ramp)
    steps = (-(-ramp * step // STEPS) for step in range(1, STEPS + 1))
    return next((each for each in steps if each > age and classes_at(named, each, ramp) != found), None)


def ramp_of_classes(record: Unit, ramp: int) -> int:
    """In how many blocks the classes of a unit become all: as its price rises in `ramp` blocks, or sooner."""
    return min(ramp, record.rules.queue_blocks // QUEUE_PART)


def classes_of(record: Unit, ramp: int) -> tuple[DeviceClass, ...]:
    """The classes that may race for a unit: as it was recorded, or as it was when its race was drawn for."""
    # not by the draw's own block, which whoever proposes can put off by referring to no newer final one
    since = record.recorded_at if record.round is None else record.race_recorded_at
    return classes_at(record.terms.device_class, since - record.posted_at, ramp_of_classes(record, ramp))


def next_widening(record: Unit, ramp: int) -> int | None:
    """The age at which a unit in the queue is open to more classes than as it was recorded; None if it is to all."""
    age = record.recorded_at - record.posted_at
    return age_of_widening(record.terms.device_class, age, ramp_of_classes(record, ramp))
