"""Measured weights: the form of the tables that `make weights WRITE=1` generates, one in each room.

A row is named after a call or hook, `Pallet.method`, or after a part of one, `Pallet.method part`: the cost of each
further unit, validator or byte. Invariant: a name without a row weighs so much that no block has room for many of it,
and `tests/benchmarks/test_weight_tables.py` fails with that name.
"""

from collections.abc import Mapping

from runtime.cryptography.hashing import blake2_128
from runtime.encoding.types import Weight

PICOSECONDS = 1_000
UNMEASURED = Weight(10_000_000_000, 0)
"""10 ms: low enough that a new call can run to be measured, and too high to pass for a measurement."""


class MeasuredWeights:
    """The rows of one room, in nanoseconds of reference time (`runtime.frame.weights`)."""

    def __init__(self, digest: str, rows: Mapping[str, int]) -> None:
        """Take generated rows. A `digest` that differs from theirs shows an edit by hand."""
        self.digest = digest
        self.rows = dict(rows)
        self._weights = {row_name: Weight(nanoseconds * PICOSECONDS, 0) for row_name, nanoseconds in rows.items()}

    def __getitem__(self, name: str) -> Weight:
        """Return the weight of a row, UNMEASURED if there is none."""
        return self._weights.get(name, UNMEASURED)


def digest_of(rows: Mapping[str, int]) -> str:
    """Return the digest of a table's rows."""
    return blake2_128("".join(f"{row_name} {rows[row_name]}\n" for row_name in sorted(rows)).encode()).hex()


def times(unit_count: int, unit_weight: Weight) -> Weight:
    """Return `unit_count` times a weight."""
    return Weight(unit_count * unit_weight.ref_time, unit_count * unit_weight.proof_size)
