"""The arrays of a model of `decoder-int8`: the section `tensors` of its file, checked when read.

The shape fixes every array's size, so the length is checked before an array is made. The arrays are views of the
section: a memory map of the file is enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.decoder_int8.config import DecoderShape
from gpu_tasks.workloads.integer_transformer.arithmetic import (
    EXP_BITS,
    EXP_ENTRIES,
    LOGIT_BITS,
    SIGMOID_BITS,
    SIGMOID_ENTRIES,
    STREAM_BITS,
    UNIT_BITS,
    VALUE_MAX,
)
from gpu_tasks.workloads.integer_transformer.rows import ArrayReader, GainRow, Rows, check_range

_BEHIND_NORM, _BEHIND_ATTENTION, _BEHIND_MLP = 8, -3, -1
"""The greatest exponent of scaled activations; behind a norm, less the exponent of its gain."""
LEAST_EXPONENTS = {
    "embeddings": 4,
    "qkv": UNIT_BITS + _BEHIND_NORM,
    "out": STREAM_BITS + _BEHIND_ATTENTION,
    "gate_up": UNIT_BITS + _BEHIND_NORM,
    "down": STREAM_BITS + _BEHIND_MLP,
    "head": LOGIT_BITS + _BEHIND_NORM,
}
"""The least exponent of a matrix's rows: no shift of a sum is to the left, and an embedding stays within STREAM_MAX.

Behind a norm (`qkv`, `gate_up`, `head`) it is less by the exponent of the norm's gain.
"""


@dataclass(frozen=True)
class LayerArrays:
    """One block. Field order is file order."""

    attention_gain: GainRow
    qkv: Rows  # [(heads + 2 * key_heads) * head_width, width]
    qkv_bias: NDArray[Any] | None  # int32, in units of 2**-14
    query_gain: GainRow | None  # [head_width]
    key_gain: GainRow | None
    out: Rows  # [width, heads * head_width]
    out_bias: NDArray[Any] | None  # int32, in units of 2**-18
    mlp_gain: GainRow
    gate_up: Rows  # [2 * hidden, width]
    down: Rows  # [width, hidden]

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        for part in vars(self).values():
            if isinstance(part, Rows | GainRow):
                yield from part.arrays()
            elif part is not None:
                yield part


@dataclass(frozen=True)
class DecoderModel:
    """A whole model."""

    shape: DecoderShape
    embeddings: Rows  # [vocabulary, width]
    cosines: NDArray[Any]  # int16[context, head_width / 2], in units of 2**-14
    sines: NDArray[Any]
    exponentials: NDArray[Any]  # int32[EXP_ENTRIES]
    sigmoids: NDArray[Any]  # int32[SIGMOID_ENTRIES]
    layers: tuple[LayerArrays, ...]
    final_gain: GainRow
    head: Rows  # [vocabulary, width]

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        yield from self.embeddings.arrays()
        yield from (self.cosines, self.sines, self.exponentials, self.sigmoids)
        for layer in self.layers:
            yield from layer.arrays()
        yield from self.final_gain.arrays()
        yield from self.head.arrays()


def encode_tensors(model: DecoderModel) -> Iterator[bytes]:
    """Yield the bytes of the section `tensors`."""
    for array in model.arrays():
        yield np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def decode_model(shape: DecoderShape, tensors: NDArray[np.uint8]) -> DecoderModel:
    """Return the model in the section's bytes. Raise DecodeError unless it is exactly one within the limits."""
    reader = ArrayReader(tensors)
    half = shape.head_width // 2
    model = DecoderModel(
        shape, reader.rows(shape.vocabulary, shape.width), reader.take("<i2", shape.context, half),
        reader.take("<i2", shape.context, half), reader.take("<i4", EXP_ENTRIES), reader.take("<i4", SIGMOID_ENTRIES),
        tuple(_decode_layer(shape, reader) for _ in range(shape.layers)), reader.gain(shape.width),
        reader.rows(shape.vocabulary, shape.width),
    )  # fmt: skip
    reader.end()
    _check(model)
    return model


def _decode_layer(s: DecoderShape, reader: ArrayReader) -> LayerArrays:
    rows = (s.heads + 2 * s.key_heads) * s.head_width
    return LayerArrays(
        reader.gain(s.width), reader.rows(rows, s.width), reader.take("<i4", rows) if s.has_attention_bias else None,
        reader.gain(s.head_width) if s.has_head_norm else None, reader.gain(s.head_width) if s.has_head_norm else None,
        reader.rows(s.width, s.heads * s.head_width), reader.take("<i4", s.width) if s.has_out_bias else None,
        reader.gain(s.width), reader.rows(2 * s.hidden, s.width), reader.rows(s.width, s.hidden),
    )  # fmt: skip


def _check(model: DecoderModel) -> None:
    model.embeddings.check(LEAST_EXPONENTS["embeddings"])
    for table, low, high in (
        (model.cosines, -(1 << UNIT_BITS), 1 << UNIT_BITS), (model.sines, -(1 << UNIT_BITS), 1 << UNIT_BITS),
        (model.exponentials, 0, 1 << EXP_BITS), (model.sigmoids, 0, 1 << SIGMOID_BITS),
    ):  # fmt: skip
        check_range(table, low, high)
    # The largest share of a softmax must not be zero: all are divided by their sum.
    check_range(model.exponentials[:1], 1 << EXP_BITS, 1 << EXP_BITS)
    # Else a token would have a share in keys that it must not see: padding, and positions that other texts reach.
    check_range(model.exponentials[-1:], 0, 0)
    for layer in model.layers:
        _check_layer(layer)
    model.head.check(LEAST_EXPONENTS["head"] - model.final_gain.check())


def _check_layer(layer: LayerArrays) -> None:
    layer.qkv.check(LEAST_EXPONENTS["qkv"] - layer.attention_gain.check())
    layer.gate_up.check(LEAST_EXPONENTS["gate_up"] - layer.mlp_gain.check())
    layer.out.check(LEAST_EXPONENTS["out"])
    layer.down.check(LEAST_EXPONENTS["down"])
    for gain in (layer.query_gain, layer.key_gain):
        if gain is not None:
            gain.check()
    for bias in (layer.qkv_bias, layer.out_bias):
        if bias is not None:
            check_range(bias, -VALUE_MAX, VALUE_MAX)
