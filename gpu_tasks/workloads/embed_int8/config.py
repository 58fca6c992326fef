"""The sizes of a model of `embed-int8`: the section `config` of its file. It needs no NumPy.

The limits keep every integer of the arithmetic below 2**53: see `model` for the sums.
"""

from collections.abc import Sequence

from gpu_tasks.workloads.form import Effort
from gpu_tasks.workloads.integer_transformer.effort import PASS_POSITIONS, SCORE_OPERATIONS
from runtime.encoding.codec import U16, U32, DecodeError, codec, struct

WIDTH_MAX = 1 << 13
"""Sums of this many squares of 15 bits, with eight more bits for the root, are at most 2**52. So are sums of this many
values of a stream, of 38 bits."""
LAYERS_MAX = 256
HEADS_MAX = 256
HEAD_WIDTH_MAX = 256
INNER_MAX = 1 << 14
"""Sums of this many products of 15 and 7 bits, times a mantissa of 16 bits, are at most 2**52."""
POSITIONS_MAX = 1 << 12
"""Sums of this many shares of 16 bits times 7 bits, with fifteen more bits for the quotient, are below 2**52. So are
sums of this many values of a stream."""
VOCABULARY_MAX = 1 << 18
EPSILON_MAX = 1 << 30
POSITIONS_A_PASS = 512
"""Of texts side by side. NumPy computes fastest so: more of them exceed a processor's caches."""
ARRAYS_A_PASS = 8
"""Arrays of float64 for each value of a layer, at most: an upper limit of those that a pass holds at once."""


@struct
class EncoderShape:
    """Sizes of a model. `heads` divides `width`."""

    width: U16
    layers: U16
    heads: U16
    inner: U16
    """The width between the two matrices of an MLP."""
    positions: U16
    """The most tokens of a text."""
    vocabulary: U32
    epsilon: U32
    """Of all norms, in units of 2**-40."""

    @property
    def head_width(self) -> int:
        """The width of one head's queries, keys and values."""
        return self.width // self.heads


SHAPE = codec(EncoderShape)


def pass_bytes(shape: EncoderShape) -> int:
    """Return the memory of a pass beside the model, in bytes."""
    return 8 * ARRAYS_A_PASS * max(POSITIONS_A_PASS, shape.positions) * max(shape.inner, 3 * shape.width)


def effort(s: EncoderShape, lengths: Sequence[int]) -> Effort:
    """Return the work of texts of these lengths side by side."""
    weights = s.layers * s.width * (4 * s.width + 2 * s.inner)
    score = s.layers * s.heads * (2 * s.head_width + SCORE_OPERATIONS)
    # A text longer than a pass has one alone.
    passes = sum(lengths) // POSITIONS_A_PASS + sum(length > POSITIONS_A_PASS // 2 for length in lengths) + 1
    reading = sum(lengths) * weights + sum(length * length for length in lengths) * score
    return Effort(reading, min(passes, len(lengths)) * PASS_POSITIONS * weights)


def decode_shape(encoded: bytes) -> EncoderShape:
    """Return the shape in a section. Raise DecodeError unless it is canonical and within the limits."""
    shape = SHAPE.decode(encoded)
    check_shape(shape)
    return shape


def check_shape(s: EncoderShape) -> None:
    """Raise DecodeError for a size beyond its limit, or sizes that do not fit together."""
    limits = (
        (s.width, WIDTH_MAX), (s.layers, LAYERS_MAX), (s.heads, HEADS_MAX), (s.inner, INNER_MAX),
        (s.positions, POSITIONS_MAX), (s.vocabulary, VOCABULARY_MAX),
    )  # fmt: skip
    if any(not 1 <= size <= limit for size, limit in limits) or s.epsilon > EPSILON_MAX:
        raise DecodeError("a model size out of range")
    if s.width % s.heads or s.head_width > HEAD_WIDTH_MAX:
        raise DecodeError("a model shape that does not fit together")
