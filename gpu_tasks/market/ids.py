"""What things of the market are called on the chain."""

from typing import Annotated

from runtime.encoding.codec import U32, Fixed
from runtime.encoding.types import Hash

UnitId = Hash
DeviceId = Hash
TaskId = Hash
ServiceId = U32


# Units in the order of their ages: the key of a list that is read from its oldest on.
#
# Always: in a storage that does not hash them, the order of keys is that of the blocks in them, and then of the units.
_HEIGHT_BYTES = 4

AgedUnit = Annotated[bytes, Fixed(_HEIGHT_BYTES + 32)]
"""A block, big-endian, before the unit."""


def aged(since: int, unit: bytes) -> AgedUnit:
    """The key of a unit that counts from a block on."""
    return since.to_bytes(_HEIGHT_BYTES, "big") + unit


def since_of(key: bytes) -> int:
    """The block that a key names."""
    return int.from_bytes(key[:_HEIGHT_BYTES], "big")


def unit_of(key: bytes) -> UnitId:
    """The unit that a key names."""
    return key[_HEIGHT_BYTES:]
