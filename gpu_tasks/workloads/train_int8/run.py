"""A run of `train-int8`: states as bytes, steps from any of them, the metric, and the model that comes of it."""

from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, Integers
from gpu_tasks.workloads.train_int8.draws import first_weights, window_ends, windows_of_step
from gpu_tasks.workloads.train_int8.quality import milli_bits
from gpu_tasks.workloads.train_int8.request import REQUEST, TrainingRequest, segments
from gpu_tasks.workloads.train_int8.state import DIGEST_BYTES, TrainingState, decode_state, encode_state
from gpu_tasks.workloads.train_int8.training_step import MovingWeights, NextByteModel, as_multiplied


class TrainingRun:
    """Implements `SegmentedRun` (see there for the methods)."""

    def __init__(self, use: ExactArithmetic, asked: TrainingRequest) -> None:
        """`asked` is within the limits."""
        self._use, self._asked = use, asked
        self._digest = blake2b(REQUEST.encode(asked), digest_size=DIGEST_BYTES).digest()
        self._network = NextByteModel(use, asked)
        self._text = np.frombuffer(asked.text, np.uint8)
        self.drawable, self._held_out = window_ends(len(asked.text), asked.context)

    @property
    def segments(self) -> int:
        """All but the last of the length that the request names."""
        return segments(self._asked)

    def boundary(self, index: int) -> int:
        """A multiple of the segment's length, but for the end."""
        return min(index * self._asked.segment, self._asked.steps)

    def initial_state(self) -> bytes:
        """Drawn weights, no momentum."""
        weights = first_weights(self._asked)
        return encode_state(self._digest, TrainingState(0, weights, [np.zeros_like(weight) for weight in weights]))

    def steps_done(self, state: bytes) -> int:
        """From the header of a state that is whole."""
        return self._decoded(state).done

    def advance(self, state: bytes, steps: int) -> bytes:
        """Each step on the windows that are drawn for it."""
        start = self._decoded(state)
        if not 0 <= steps <= self._asked.steps - start.done:
            raise ValueError(f"{steps} steps after {start.done}: there are {self._asked.steps}")
        use, done = self._use, start.done
        parameters = MovingWeights([use.put(w) for w in start.weights], [use.put(m) for m in start.momenta])
        for index in range(done, done + steps):
            self._network.step(parameters, self._windows_of(index), index)
        weights = [use.take(weight) for weight in parameters.weights]
        momenta = [use.take(momentum) for momentum in parameters.momenta]
        return encode_state(self._digest, TrainingState(done + steps, weights, momenta))

    def metric(self, state: bytes) -> int:
        """Thousandths of a bit for a byte of the sample of held-out windows."""
        windows = self._windows(self._held_out)
        return milli_bits(self._use.take(self._network.powers(self._logits(state, windows))), windows[:, -1])

    def model(self, state: bytes) -> bytes:
        """The weights as they multiply, matrix by matrix: i16, little-endian."""
        return b"".join(weight.astype("<i2").tobytes() for weight in as_multiplied(self._decoded(state).weights))

    def guesses(self, state: bytes) -> bytes:
        """The logits of the windows of the step that comes after a state, if there is another: i64, little-endian."""
        windows = self._windows_of(min(self._decoded(state).done, self._asked.steps - 1))
        return self._use.take(self._logits(state, windows)).astype("<i8").tobytes()

    def _decoded(self, state: bytes) -> TrainingState:
        return decode_state(self._asked, self._digest, state)

    def _logits(self, state: bytes, windows: Integers) -> Integers:
        weights = [self._use.put(weight) for weight in self._decoded(state).weights]
        logits: Integers = self._network.logits(weights, windows)
        return logits

    def _windows_of(self, step: int) -> Integers:
        return self._windows(windows_of_step(self._asked, self.drawable, step))

    def _windows(self, ends: Integers) -> Integers:
        """int64[n, context + 1]: the text up to each end, the byte there included."""
        windows: Integers = self._text[ends[:, None] + np.arange(-self._asked.context, 1)].astype(np.int64)
        return windows
