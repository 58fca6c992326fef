"""Units in the order of their ages: the key of a list that is read from its oldest on.

Always: in a storage that does not hash them, the order of keys is that of the blocks in them, and then of the units.
"""

from typing import Annotated

from gpu_tasks.market.ids import UnitId
from runtime.encoding.codec import Fixed

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
