"""The order in which due cases are handled: highest price first.

Invariant: only cases of at least the same price can delay a case, however many cheap ones there are.
"""

from typing import Annotated

from runtime.encoding.codec import Fixed

_PRICE_BYTES = 16
_PRICE_MAX = (1 << 8 * _PRICE_BYTES) - 1

DueCase = Annotated[bytes, Fixed(_PRICE_BYTES + 32)]
"""The highest price less the case's price, big-endian, followed by the case. In a storage item with unhashed keys, keys
sort by falling price."""


def due_case(price: int, case_id: bytes) -> bytes:
    """Return the key of a case of this price."""
    return (_PRICE_MAX - price).to_bytes(_PRICE_BYTES, "big") + case_id


def case_of(due: bytes) -> bytes:
    """Return the case in a key."""
    return due[_PRICE_BYTES:]
