"""The identifiers of units, devices, tasks and services on the chain."""

from typing import Annotated

from runtime.encoding.codec import U32, Fixed
from runtime.encoding.types import Hash

UnitId = Hash
DeviceId = Hash
TaskId = Hash
ServiceId = U32


# Keys of a list of units by age, which is read from the oldest unit on.
#
# Invariant: in a storage item with unhashed keys, keys sort by their block, then by unit.
_HEIGHT_BYTES = 4

AgedUnit = Annotated[bytes, Fixed(_HEIGHT_BYTES + 32)]
"""A block number, big-endian so that keys sort by it, followed by a unit."""


def aged(since_height: int, unit_id: bytes) -> AgedUnit:
    """Return the key of a unit whose age counts from block `since_height`."""
    return since_height.to_bytes(_HEIGHT_BYTES, "big") + unit_id


def since_of(aged_unit: bytes) -> int:
    """Return the block in a key."""
    return int.from_bytes(aged_unit[:_HEIGHT_BYTES], "big")


def unit_of(aged_unit: bytes) -> UnitId:
    """Return the unit in a key."""
    return aged_unit[_HEIGHT_BYTES:]
