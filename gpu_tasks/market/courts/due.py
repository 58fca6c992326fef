"""The order in which cases that are due are looked at: the dearest first.

Always: to keep a case waiting takes cases of its price; however many there are about next to nothing, they do not.
"""

from typing import Annotated

from runtime.encoding.codec import Fixed

_PRICE_BYTES = 16
_PRICE_MAX = (1 << 8 * _PRICE_BYTES) - 1

DueCase = Annotated[bytes, Fixed(_PRICE_BYTES + 32)]
"""What is left of the highest price, big-endian, before the case: in a storage that does not hash it, the order of keys
is that of falling prices."""


def due_case(price: int, case_id: bytes) -> bytes:
    """The key of a case about so much."""
    return (_PRICE_MAX - price).to_bytes(_PRICE_BYTES, "big") + case_id


def case_of(due: bytes) -> bytes:
    """The case of a key."""
    return due[_PRICE_BYTES:]
