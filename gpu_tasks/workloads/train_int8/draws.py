"""All chance of a run: first weights and the windows of each step, from SHAKE-256 of the seed; and what is held out.

Text is cut into blocks of 64 bytes, of which every sixteenth is held out. A window is `context` bytes and the byte to
guess; one that lies in blocks that are not held out may be drawn, one that lies in a block that is serves the metric,
and the others, with a foot in both, serve nothing. So no byte that is held out is ever seen in training.

Always: nothing here depends on a backend or on anything but the request.
"""

from hashlib import shake_256
from math import isqrt

import numpy as np

from gpu_tasks.workloads.train_int8.arithmetic import Integers
from gpu_tasks.workloads.train_int8.request import TrainingRequest, matrices

BLOCK = 64
HELD_OUT_ONE_IN = 16
SAMPLE_MAX = 1_024
"""Windows that the metric looks at."""
WEIGHT_BITS = 24
_DOMAIN = b"ogpu/train-int8/1/"
_VARIANCE_OF_VECTORS, _VARIANCE_OF_HIDDEN = 1, 2  # the latter times the inputs: half of what a ReLU sees is lost


def first_weights(asked: TrainingRequest) -> list[Integers]:
    """Each matrix evenly drawn around 0, in units of 2**-24; guesses begin even, so their weights at 0."""
    shapes = matrices(asked)
    drawn = []
    for index, (rows, columns) in enumerate(shapes[:-1]):
        variance, inputs = (_VARIANCE_OF_VECTORS, 1) if index == 0 else (_VARIANCE_OF_HIDDEN, rows)
        most = isqrt((3 * variance << 2 * WEIGHT_BITS) // inputs)
        raw = np.frombuffer(_drawn(b"weights", asked.seed, index, 4 * rows * columns), "<u4").astype(np.int64)
        drawn.append(((raw * (2 * most + 1) >> 32) - most).reshape(rows, columns))
    return [*drawn, np.zeros(shapes[-1], dtype=np.int64)]


def windows_of_step(asked: TrainingRequest, ends: Integers, step: int) -> Integers:
    """int64[batch]: where the windows of a step end, drawn from `ends`."""
    raw = np.frombuffer(_drawn(b"windows", asked.seed, step, 8 * asked.batch), "<u8")
    drawn: Integers = ends[(raw % np.uint64(len(ends))).astype(np.int64)]
    return drawn


def window_ends(length: int, context: int) -> tuple[Integers, Integers]:
    """Where windows end, of a text: those that may be drawn, and the sample of those that are held out."""
    ends = np.arange(context, length, dtype=np.int64)
    first, last = _is_held_out(ends - context), _is_held_out(ends)
    held_out = ends[first & last]
    count = min(SAMPLE_MAX, len(held_out))
    return ends[~first & ~last], held_out[np.arange(count, dtype=np.int64) * len(held_out) // count]


def _is_held_out(places: Integers) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether each place lies in a block that is held out; no window reaches from one of those into the next."""
    return np.asarray(places // BLOCK % HELD_OUT_ONE_IN == HELD_OUT_ONE_IN - 1)


def _drawn(purpose: bytes, seed: bytes, number: int, length: int) -> bytes:
    """Bytes for one purpose of one seed; purposes differ, so no two draws hash the same bytes."""
    return shake_256(_DOMAIN + purpose + seed + number.to_bytes(4, "little")).digest(length)
