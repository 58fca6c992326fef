"""The arrays of a model of `embed-int8` (section `tensors` of its file), checked when read.

The shape fixes every array's size, so the length is checked before an array is made. The arrays are views of the
section: a memory map of the file is enough. Token types are not there: one text has the first type for all its tokens,
so its vector is a part of `positions`.

Invariant: no integer of the forward pass reaches 2**53 with arrays that pass the checks. The limits, as powers of two:

| value | limit | reason |
|---|---|---|
| embedded token | 42 | a word of 7 + 16 bits, 18 bits to the left at most, plus a position of 26 |
| stream | 38 | saturates before and behind each norm |
| sum in a norm | 52 | 13 + 38 for the mean; 13 + 2 * 15 + 8 + 1 for the squares under the root |
| behind a norm | 40 | gain 15 - g, root of the width 6.5, unit 18 |
| sums of a matrix | 52 | 14 + 15 + 7, times a mantissa of 16; no shift to the left, by the least exponents below |
| scores | 48 | head width 8 + 15 + 7, times a mantissa of 16, and a shift of 1 at most |
| mix of values | 50 | 12 + 16 + 7, and 15 for the quotient |
| GELU | 42 | 26 + 16 |
| sum of a text | 50 | 12 + 38 |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.embed_int8.config import EncoderShape, check_shape
from gpu_tasks.workloads.integer_transformer.arithmetic import (
    EXP_BITS,
    EXP_ENTRIES,
    NORMAL_BITS,
    NORMAL_ENTRIES,
    STREAM_BITS,
    UNIT_BITS,
    VALUE_MAX,
)
from gpu_tasks.workloads.integer_transformer.rows import ArrayReader, GainRow, Rows, check_range

OUT_EXPONENT_MIN = STREAM_BITS - 2
"""Of the matrix behind attention, whose activations have at most 27 bits in units of 2**-14, and keep 15."""
DOWN_EXPONENT_MIN = STREAM_BITS - 2
"""Of the matrix behind the GELU, whose activations have at most 43 bits in units of 2**-30, and keep 15."""


@dataclass(frozen=True)
class NormArrays:
    """A layer norm."""

    gain: GainRow
    bias: NDArray[Any]  # int32[width], in units of 2**-18

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        yield from self.gain.arrays()
        yield self.bias

    def check(self) -> int:
        """Return the least exponent of a matrix behind this norm. Raise DecodeError for values out of range."""
        exponent = self.gain.check()
        check_range(self.bias, -VALUE_MAX, VALUE_MAX)
        # A sum of gain and bias has at most 41 - exponent bits, or 28. 15 stay, and the unit has 18.
        return UNIT_BITS + max(41 - exponent, 28) - 15 - STREAM_BITS


@dataclass(frozen=True)
class MatrixArrays:
    """A matrix with a bias for each row, in the unit of its results."""

    rows: Rows
    bias: NDArray[Any]  # int32[n]

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        yield from self.rows.arrays()
        yield self.bias

    def check(self, exponent_min: int) -> None:
        """Raise DecodeError unless all values are in range and every row's exponent is at least `exponent_min`."""
        self.rows.check(exponent_min)
        check_range(self.bias, -VALUE_MAX, VALUE_MAX)


@dataclass(frozen=True)
class EncoderLayer:
    """One block. Field order is file order. Biases are in units of 2**-14 (`qkv`, `up`) and 2**-18 (`out`, `down`)."""

    qkv: MatrixArrays  # [3 * width, width]
    out: MatrixArrays  # [width, width]
    attention_norm: NormArrays
    up: MatrixArrays  # [inner, width]
    down: MatrixArrays  # [width, inner]
    mlp_norm: NormArrays

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        for part in vars(self).values():
            yield from part.arrays()


@dataclass(frozen=True)
class EncoderModel:
    """A whole model."""

    shape: EncoderShape
    words: Rows  # [vocabulary, width]
    positions: NDArray[Any]  # int32[positions, width], in units of 2**-18
    norm: NormArrays
    exponentials: NDArray[Any]  # int32[EXP_ENTRIES]
    normals: NDArray[Any]  # int32[NORMAL_ENTRIES]
    layers: tuple[EncoderLayer, ...]

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        yield from self.words.arrays()
        yield self.positions
        yield from self.norm.arrays()
        yield from (self.exponentials, self.normals)
        for layer in self.layers:
            yield from layer.arrays()


def encode_tensors(model: EncoderModel) -> Iterator[bytes]:
    """Yield the bytes of the section `tensors`."""
    for array in model.arrays():
        yield np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def decode_model(shape: EncoderShape, tensors: NDArray[np.uint8]) -> EncoderModel:
    """Return the model in the section's bytes. Raise DecodeError unless it is exactly one within the limits."""
    reader = ArrayReader(tensors)
    model = EncoderModel(
        shape, reader.rows(shape.vocabulary, shape.width), reader.take("<i4", shape.positions, shape.width),
        _decode_norm(shape, reader), reader.take("<i4", EXP_ENTRIES), reader.take("<i4", NORMAL_ENTRIES),
        tuple(_decode_layer(shape, reader) for _ in range(shape.layers)),
    )  # fmt: skip
    reader.end()
    check_model(model)
    return model


def _decode_layer(s: EncoderShape, reader: ArrayReader) -> EncoderLayer:
    return EncoderLayer(
        _decode_matrix(3 * s.width, s.width, reader), _decode_matrix(s.width, s.width, reader), _decode_norm(s, reader),
        _decode_matrix(s.inner, s.width, reader), _decode_matrix(s.width, s.inner, reader), _decode_norm(s, reader),
    )  # fmt: skip


def _decode_matrix(rows: int, columns: int, reader: ArrayReader) -> MatrixArrays:
    return MatrixArrays(reader.rows(rows, columns), reader.take("<i4", rows))


def _decode_norm(s: EncoderShape, reader: ArrayReader) -> NormArrays:
    return NormArrays(reader.gain(s.width), reader.take("<i4", s.width))


def check_model(model: EncoderModel) -> None:
    """Raise DecodeError for a value that could make the arithmetic overflow, or let padding change a result."""
    check_shape(model.shape)
    model.words.check(0)
    check_range(model.positions, -VALUE_MAX, VALUE_MAX)
    check_range(model.exponentials, 0, 1 << EXP_BITS)
    # The largest share of a softmax must not be zero: all are divided by their sum.
    check_range(model.exponentials[:1], 1 << EXP_BITS, 1 << EXP_BITS)
    # A hidden key has the last entry: any other share would add the padding to a text.
    check_range(model.exponentials[-1:], 0, 0)
    check_range(model.normals, 0, 1 << NORMAL_BITS)
    exponent_min = model.norm.check()
    for layer in model.layers:
        layer.qkv.check(exponent_min)
        layer.out.check(OUT_EXPONENT_MIN)
        layer.up.check(layer.attention_norm.check())
        layer.down.check(DOWN_EXPONENT_MIN)
        exponent_min = layer.mlp_norm.check()
