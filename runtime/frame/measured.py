"""Weights that were measured: the form of the tables that `make weights WRITE=1` generates, one in each room.

A row is named after a call or hook, `Pallet.method`, or after a part of one, `Pallet.method part`: what each further
unit, validator or byte adds. Always: what has no row weighs so much that no block holds many of it, and
`tests/benchmarks/test_weight_tables.py` says its name.
"""

from collections.abc import Mapping

from runtime.cryptography.hashing import blake2_128
from runtime.encoding.types import Weight

PICOSECONDS = 1_000
UNMEASURED = Weight(10_000_000_000, 0)
"""10 ms: a call that was written a moment ago can be measured, and nobody can take it for measured."""


class MeasuredWeights:
    """The rows of one room, in nanoseconds of reference time (`runtime.frame.weights`)."""

    def __init__(self, digest: str, rows: Mapping[str, int]) -> None:
        """As generated; `digest` is that of the rows, and tells if somebody wrote one by hand."""
        self.digest = digest
        self.rows = dict(rows)
        self._weights = {name: Weight(nanoseconds * PICOSECONDS, 0) for name, nanoseconds in rows.items()}

    def __getitem__(self, name: str) -> Weight:
        """The weight of a row; UNMEASURED where there is none."""
        return self._weights.get(name, UNMEASURED)


def digest_of(rows: Mapping[str, int]) -> str:
    """What a table says of its rows."""
    return blake2_128("".join(f"{name} {rows[name]}\n" for name in sorted(rows)).encode()).hex()


def times(count: int, weight: Weight) -> Weight:
    """So many of it."""
    return Weight(count * weight.ref_time, count * weight.proof_size)
