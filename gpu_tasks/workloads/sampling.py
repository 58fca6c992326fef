"""Samples of a computation: one integer of each row at places drawn from a seed, and the fingerprint over them.

A row is the stream of one position behind one layer, a product, or a step of a run.

Invariant: a place depends on the seed, the layer and the row's number alone, for any partition of the computation.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b, shake_256

import numpy as np

from gpu_tasks.workloads.fingerprints import FINGERPRINT_BYTES
from gpu_tasks.workloads.integer_arrays import Integers

_PLACES, _HASH = b"ogpu/fingerprint/places", b"ogpu/fingerprint"
_WORD_BYTES = 8


def sampled_places(seed: bytes, layer: int, rows: int, width: int) -> Integers:
    """Return int64[rows]: for each row of a layer, a place below `width`, at most 2^32.

    The bias of a place is below 2^-32. Fewer rows have the first places of more rows.
    """
    words = shake_256(_PLACES + seed + layer.to_bytes(4, "little")).digest(_WORD_BYTES * rows)
    return (np.frombuffer(words, "<u8") % np.uint64(width)).astype(np.int64)


def fingerprint(seed: bytes, layers: Sequence[Integers]) -> bytes:
    """Return the 16 bytes over the sampled integers, int64, little-endian, layer by layer."""
    digest = blake2b(digest_size=FINGERPRINT_BYTES, key=seed, person=_HASH)
    for samples in layers:
        digest.update(samples.astype("<i8").tobytes())
    return digest.digest()


def step_bytes(samples: Integers) -> Iterator[bytes]:
    """Yield the samples of each step for its trail, from int64[steps, n]."""
    return (row.tobytes() for row in samples.astype("<i8"))
