"""A run of `train-int8`: states as bytes, steps from any of them, the metric, and the resulting model."""

from collections.abc import Sequence
from hashlib import blake2b, shake_256
from math import isqrt

import numpy as np

from gpu_tasks.workloads.fingerprints import TRAIL_BYTES, trail_after
from gpu_tasks.workloads.sampling import step_bytes
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, Integers
from gpu_tasks.workloads.train_int8.request import REQUEST, TrainingRequest, matrices, segments
from gpu_tasks.workloads.train_int8.state import DIGEST_BYTES, TrainingState, decode_state, encode_state
from gpu_tasks.workloads.train_int8.training_step import MovingWeights, NextByteModel, as_multiplied

# The random choices of a run, the first weights and the windows of each step, come from SHAKE-256 of the seed.
#
# The text is cut into blocks of 64 bytes, and every sixteenth is held out. A window is `context` bytes and the byte to
# guess. Training draws only windows outside held-out blocks. The metric uses windows inside one. A window across a
# border serves neither, so training never sees a held-out byte.
#
# Invariant: nothing here depends on a backend or on anything except the request.
BLOCK = 64
HELD_OUT_ONE_IN = 16
SAMPLE_MAX = 1_024
"""The most windows that the metric uses."""
WEIGHT_BITS = 24
_DOMAIN = b"ogpu/train-int8/1/"
_VARIANCE_OF_VECTORS, _VARIANCE_OF_HIDDEN = 1, 2  # 2 over the inputs, since a ReLU halves it (He et al. 2015)


# A model's quality: thousandths of a bit per byte of held-out text, a whole number.
#
# A byte costs log2(total of powers) - log2(its power), each with 16 binary places by repeated squaring. Floats and
# library tables could differ between machines.
_PLACES = 16
_MANTISSA_BITS = 30


def milli_bits(powers: Integers, next_symbols: Integers) -> int:
    """Return the mean over int64[n, 256] powers in units of 2**-24 and int64[n] bytes, rounded.

    A power of 0 counts as 1.
    """
    own_powers = np.maximum(powers[np.arange(len(next_symbols)), next_symbols], 1)
    total = int((log2(powers.sum(axis=-1)) - log2(own_powers)).sum())  # At most 2**10 windows of 32 bits: below 2**31
    return (2 * 1000 * total // (len(next_symbols) << _PLACES) + 1) // 2


def log2(numbers: Integers) -> Integers:
    """Return binary logarithms in units of 2**-16 of integers from 1 to 2**32, rounded down."""
    highest_bits = np.zeros_like(numbers)
    for shift_bits in (32, 16, 8, 4, 2, 1):
        highest_bits += shift_bits * (numbers >> highest_bits >= 1 << shift_bits)
    mantissas = (numbers << _MANTISSA_BITS) >> highest_bits  # From 2**30 to 2**31 - 1, so that squares are below 2**62
    logarithms = highest_bits
    # Each squaring doubles the logarithm, and its carry is the next binary place.
    for _ in range(_PLACES):
        squares = mantissas * mantissas >> _MANTISSA_BITS
        carries = squares >> (_MANTISSA_BITS + 1)
        mantissas = squares >> carries
        logarithms = 2 * logarithms + carries
    return logarithms


def first_weights(request: TrainingRequest) -> list[Integers]:
    """Return each matrix drawn evenly around 0, in units of 2**-24.

    The output layer's weights are 0, so that all guesses are equal at first.
    """
    shapes = matrices(request)
    weights = []
    for index, (rows, columns) in enumerate(shapes[:-1]):
        variance, input_count = (_VARIANCE_OF_VECTORS, 1) if index == 0 else (_VARIANCE_OF_HIDDEN, rows)
        weight_max = isqrt((3 * variance << 2 * WEIGHT_BITS) // input_count)
        words = np.frombuffer(draw_bytes(b"weights", request.seed, index, 4 * rows * columns), "<u4").astype(np.int64)
        # Multiply and shift: a modulo would favour the small numbers.
        weights.append(((words * (2 * weight_max + 1) >> 32) - weight_max).reshape(rows, columns))
    return [*weights, np.zeros(shapes[-1], dtype=np.int64)]


def windows_of_step(request: TrainingRequest, possible_ends: Integers, step: int) -> Integers:
    """Return int64[batch]: the ends of a step's windows, drawn from `possible_ends`."""
    words = np.frombuffer(draw_bytes(b"windows", request.seed, step, 8 * request.batch), "<u8")
    drawn_ends: Integers = possible_ends[(words % np.uint64(len(possible_ends))).astype(np.int64)]
    return drawn_ends


def sampled_entries(sizes: Sequence[int], seed: bytes, step: int) -> list[int]:
    """Return an entry below each matrix's size: a step hashes these entries of the gradients into the trail."""
    word = int.from_bytes(draw_bytes(b"trail", seed, step, 8), "little")
    return [word % size for size in sizes]


def window_ends(text_length: int, context: int) -> tuple[Integers, Integers]:
    """Return the ends of a text's windows: those for training, and the sample of held-out ones."""
    ends = np.arange(context, text_length, dtype=np.int64)
    first, last = _is_held_out(ends - context), _is_held_out(ends)
    held_out = ends[first & last]
    count = min(SAMPLE_MAX, len(held_out))
    return ends[~first & ~last], held_out[np.arange(count, dtype=np.int64) * len(held_out) // count]


def _is_held_out(places: Integers) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether each place lies in a held-out block. No window reaches from one held-out block to the next."""
    return np.asarray(places // BLOCK % HELD_OUT_ONE_IN == HELD_OUT_ONE_IN - 1)


def draw_bytes(purpose: bytes, seed: bytes, number: int, length: int) -> bytes:
    """Return bytes for one purpose of one seed. Purposes differ, so no two draws hash the same bytes."""
    return shake_256(_DOMAIN + purpose + seed + number.to_bytes(4, "little")).digest(length)


class TrainingRun:
    """A run of `train-int8`. Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, backend: ExactArithmetic, request: TrainingRequest) -> None:
        """Take a request that is within the limits."""
        self._backend, self._request = backend, request
        self._digest = blake2b(REQUEST.encode(request), digest_size=DIGEST_BYTES).digest()
        self._network = NextByteModel(backend, request)
        self._text = np.frombuffer(request.text, np.uint8)
        self.drawable, self._held_out = window_ends(len(request.text), request.context)

    @property
    def segments(self) -> int:
        """The number of segments. All but the last have the length that the request names."""
        return segments(self._request)

    def boundary(self, index: int) -> int:
        """Return a multiple of the segment's length, or all steps at the end."""
        return min(index * self._request.segment, self._request.steps)

    def initial_state(self) -> bytes:
        """Return drawn weights without momentum."""
        weights = first_weights(self._request)
        return encode_state(self._digest, TrainingState(0, weights, [np.zeros_like(weight) for weight in weights]))

    def steps_done(self, state: bytes) -> int:
        """Return the number in the header of a complete state."""
        return self._decoded(state).done

    def advance(self, state: bytes, steps: int) -> bytes:
        """Compute each step on the windows drawn for it."""
        return self.trailed(state, steps, bytes(TRAIL_BYTES))[0]

    def trailed(self, state: bytes, steps: int, trail: bytes) -> tuple[bytes, bytes]:
        """Hash one entry of each matrix's gradient in each step into the trail."""
        start, backend = self._decoded(state), self._backend
        if not 0 <= steps <= self._request.steps - start.done:
            raise ValueError(f"{steps} steps after {start.done} of {self._request.steps}")
        weights, momenta = ([backend.put(matrix) for matrix in half] for half in (start.weights, start.momenta))
        parameters = MovingWeights(weights, momenta)
        # On the device until the end, because a step that waits for a number of the step before it idles a GPU.
        sizes = [matrix.size for matrix in start.weights]
        samples = backend.put(np.zeros((steps, len(sizes)), dtype=np.int64))
        for number, step in enumerate(range(start.done, start.done + steps)):
            places = sampled_entries(sizes, self._request.seed, step)
            # No name for the gradients: kept until the next step, they cost 5 % of its time in fresh memory.
            samples[number] = backend.entries(self._network.step(parameters, self._windows_of(step), step), places)
        weights, momenta = (
            [backend.take(matrix) for matrix in half] for half in (parameters.weights, parameters.momenta)
        )
        later_state = encode_state(self._digest, TrainingState(start.done + steps, weights, momenta))
        return later_state, trail_after(trail, step_bytes(backend.take(samples)))

    def metric(self, state: bytes) -> int:
        """Return thousandths of a bit per byte of the sample of held-out windows."""
        # Always the same windows, so the metrics of two states can be compared.
        windows = self._windows(self._held_out)
        return milli_bits(self._backend.take(self._network.powers(self._logits(state, windows))), windows[:, -1])

    def model(self, state: bytes) -> bytes:
        """Return the weights as they multiply, matrix by matrix: i16, little-endian."""
        return b"".join(weight.astype("<i2").tobytes() for weight in as_multiplied(self._decoded(state).weights))

    def _decoded(self, state: bytes) -> TrainingState:
        return decode_state(self._request, self._digest, state)

    def _logits(self, state: bytes, windows: Integers) -> Integers:
        weights = [self._backend.put(weight) for weight in self._decoded(state).weights]
        logits: Integers = self._network.logits(weights, windows)
        return logits

    def _windows_of(self, step: int) -> Integers:
        return self._windows(windows_of_step(self._request, self.drawable, step))

    def _windows(self, ends: Integers) -> Integers:
        """Return int64[n, context + 1]: the text up to and including each end."""
        windows: Integers = self._text[ends[:, None] + np.arange(-self._request.context, 1)].astype(np.int64)
        return windows
