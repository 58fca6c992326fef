"""The model file: a header and integer arrays in one canonical order, and nothing else.

The file is its own canonical form: the model id is the blake2b-256 of its bytes. The header fixes every size, so the
length is checked before any array is made. A file that decodes cannot make the arithmetic overflow (limits below).
Numbers are little-endian.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.textgen_int8.integer_ops import ACTIVATION_MAX, GELU_ENTRIES, WEIGHT_MAX
from runtime.encoding.scale import DecodeError

MAGIC = b"ogpu/tg1"
VOCABULARY = 257  # The bytes, and the boundary of a text
BOUNDARY = 256
WIDTH_MAX = 1024  # 2048 * 127 * 63 and 1024 * 127 * 127 are below 2**24
HIDDEN_MAX = 2048
CONTEXT_MAX = 1024
LAYERS_MAX = 64
FILE_MAX = 64 << 20
GAIN_MAX = 1 << 20
_HEADER_BYTES = len(MAGIC) + 10


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model. `heads` divides `width`."""

    width: int
    layers: int
    heads: int
    hidden: int
    context: int


@dataclass(frozen=True)
class TransformerLayer:
    """One block. Field order is file order. Each comment gives the dtype and the shape in names of sizes."""

    gains: NDArray[Any]  # int32[2]: norm before attention, norm before the MLP
    qkv: NDArray[Any]  # int8[3 * width, width]
    qkv_multipliers: NDArray[Any]  # int32[3 * width]
    score_multipliers: NDArray[Any]  # int32[heads]: score to steps of the exp table
    mix_multipliers: NDArray[Any]  # int32[heads]: probability * value to activation
    out: NDArray[Any]  # int8[width, width]
    out_multipliers: NDArray[Any]  # int32[width]: to the residual stream
    up: NDArray[Any]  # int8[hidden, width]
    up_multipliers: NDArray[Any]  # int32[hidden]: to the 12-bit index of the GELU table
    gelu: NDArray[Any]  # int8[4096]
    down: NDArray[Any]  # int8[width, hidden]
    down_multipliers: NDArray[Any]  # int32[width]


@dataclass(frozen=True)
class Model:
    """A whole model. The residual stream is in units of the embeddings, logits are in 1/1024 nat."""

    shape: ModelShape
    tokens: NDArray[Any]  # int16[257, width]
    positions: NDArray[Any]  # int16[context, width]
    layers: tuple[TransformerLayer, ...]
    final_gain: NDArray[Any]  # int32[1]
    head: NDArray[Any]  # int8[257, width]
    head_multipliers: NDArray[Any]  # int32[257]


def model_id(encoded: bytes) -> bytes:
    """Return the 32-byte id of the model whose file is `encoded_bytes`."""
    return blake2b(encoded, digest_size=32).digest()


def encode_model(model: Model) -> bytes:
    """Return the file of `model`."""
    s = model.shape
    header = np.array([s.width, s.layers, s.heads, s.hidden, s.context], dtype="<u2")
    arrays = [model.tokens, model.positions]
    for layer in model.layers:
        arrays += [getattr(layer, field.name) for field in fields(TransformerLayer)]
    arrays += [model.final_gain, model.head, model.head_multipliers]
    parts = [MAGIC, header.tobytes()]
    for array, (dtype, size) in zip(arrays, _layout(s), strict=True):
        parts.append(array.astype(dtype).reshape(size).tobytes())
    return b"".join(parts)


def decode_model(encoded: bytes) -> Model:
    """Return the model in a file. Raise DecodeError unless it is exactly one within the limits."""
    # Neither compressed nor pickled: a hostile file can neither unpack to more than its length nor run code.
    if not _HEADER_BYTES <= len(encoded) <= FILE_MAX or encoded[: len(MAGIC)] != MAGIC:
        raise DecodeError("not a model file")
    shape = ModelShape(*(int(n) for n in np.frombuffer(encoded, "<u2", 5, len(MAGIC))))
    _check_shape(shape)
    layout = list(_layout(shape))
    sizes = [np.dtype(dtype).itemsize * int(np.prod(size)) for dtype, size in layout]
    # Before any array is made: a header can name sizes far beyond the file.
    if len(encoded) != _HEADER_BYTES + sum(sizes):
        raise DecodeError("a model file of the wrong length", len(encoded))
    arrays, start = [], _HEADER_BYTES
    for (dtype, size), length in zip(layout, sizes, strict=True):
        arrays.append(np.frombuffer(encoded[start : start + length], dtype).reshape(size))
        start += length
    return _assemble(shape, arrays)


def _assemble(shape: ModelShape, arrays: list[NDArray[Any]]) -> Model:
    """Name the arrays, which are in file order, and check their values."""
    arrays_per_layer = len(fields(TransformerLayer))
    blocks = [arrays[2 + i * arrays_per_layer : 2 + (i + 1) * arrays_per_layer] for i in range(shape.layers)]
    model = Model(shape, arrays[0], arrays[1], tuple(TransformerLayer(*block) for block in blocks), *arrays[-3:])
    for layer in model.layers:
        _check_layer(layer)
    _check(model.final_gain, 1, GAIN_MAX)
    _check(model.head, -WEIGHT_MAX, WEIGHT_MAX)
    _check(model.head_multipliers, 0, (1 << 31) - 1)
    return model


def _check_shape(shape: ModelShape) -> None:
    """Check the sizes' limits, which keep sums of products below 2**24 and sums of squares below 2**52."""
    limits = (WIDTH_MAX, LAYERS_MAX, WIDTH_MAX, HIDDEN_MAX, CONTEXT_MAX)
    sizes = (shape.width, shape.layers, shape.heads, shape.hidden, shape.context)
    if any(not 1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
        raise DecodeError("a model size out of range", len(MAGIC))
    if shape.width % shape.heads:
        raise DecodeError("a width that is no multiple of the number of heads", len(MAGIC))


def _check_layer(layer: TransformerLayer) -> None:
    """Check the ranges of a layer's values."""
    _check(layer.gains, 1, GAIN_MAX)
    for weights in (layer.qkv, layer.out, layer.up, layer.down):
        _check(weights, -WEIGHT_MAX, WEIGHT_MAX)
    for field in fields(TransformerLayer):
        if field.name.endswith("_multipliers"):
            _check(getattr(layer, field.name), 0, (1 << 31) - 1)
    _check(layer.gelu, -ACTIVATION_MAX, ACTIVATION_MAX)


def _check(values: NDArray[Any], low: int, high: int) -> None:
    """Raise DecodeError unless all values are from `low` to `high`."""
    if values.min() < low or values.max() > high:
        raise DecodeError("a model value out of range")


def _layout(s: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the dtype and shape of every array, in file order."""
    yield from (("<i2", (VOCABULARY, s.width)), ("<i2", (s.context, s.width)))
    for _ in range(s.layers):
        yield from (("<i4", (2,)), ("<i1", (3 * s.width, s.width)), ("<i4", (3 * s.width,)))
        yield from (("<i4", (s.heads,)), ("<i4", (s.heads,)))
        yield from (("<i1", (s.width, s.width)), ("<i4", (s.width,)))
        yield from (("<i1", (s.hidden, s.width)), ("<i4", (s.hidden,)))
        yield from (("<i1", (GELU_ENTRIES,)), ("<i1", (s.width, s.hidden)), ("<i4", (s.width,)))
    yield from (("<i4", (1,)), ("<i1", (VOCABULARY, s.width)), ("<i4", (VOCABULARY,)))
