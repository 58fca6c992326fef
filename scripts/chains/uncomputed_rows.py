"""Rows that nobody computed, under a root: the chain takes them as it takes right ones, and inspectors do not.

For simulations of roll calls, whose devices are names, and whose chain multiplies nothing anyway.
"""

from functools import cache

from gpu_tasks.market.capacity.proofs import ROW_DOMAIN, ROWS_MIN, ShownRow, drawn_rows
from runtime.cryptography.merkle import merkle_path, merkle_root

DIGESTS = [number.to_bytes(32, "little") for number in range(ROWS_MIN)]
ROOT = merkle_root(ROW_DOMAIN, DIGESTS)


def shown_rows(rows_seed: bytes, device: bytes) -> tuple[ShownRow, ...]:
    """What opens `ROOT` where a device has as few rows as there may be."""
    return tuple(ShownRow(DIGESTS[place], _path(place)) for place in drawn_rows(rows_seed, device, ROWS_MIN))


@cache  # a path costs the whole tree, and there are as many as rows
def _path(place: int) -> tuple[bytes, ...]:
    return merkle_path(ROW_DOMAIN, DIGESTS, place)
