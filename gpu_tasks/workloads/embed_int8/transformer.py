"""Token ids to vectors: one forward pass for every backend.

The values of a text depend, bit for bit, only on that text. Texts of different lengths side by side therefore give the
same vectors as each alone: no token sees the padding, and no sum includes it.

Sources: arXiv:1810.04805 (BERT), arXiv:1908.10084 (the mean over the tokens as the vector of a text).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.embed_int8.config import EncoderShape
from gpu_tasks.workloads.embed_int8.model import EncoderLayer, EncoderModel, MatrixArrays, NormArrays
from gpu_tasks.workloads.embed_int8.request import VALUE_ONE
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.arithmetic import Cached, Gain, Linear, Scaled, TransformerBackend
from gpu_tasks.workloads.integer_transformer.rows import Rows

ROOT_BITS = 4
"""Four more bits of a root: `arithmetic` takes it of 256 times the squares."""


@dataclass(frozen=True)
class LoadedNorm:
    """A layer norm in the arrays of a backend."""

    gain: Gain
    bias: BackendArray


@dataclass(frozen=True)
class LoadedEncoderLayer:
    """A layer in the arrays of a backend."""

    qkv: Linear
    out: Linear
    attention_norm: LoadedNorm
    up: Linear
    down: Linear
    mlp_norm: LoadedNorm


@dataclass(frozen=True)
class LoadedEncoder:
    """A model in the arrays of a backend, ready to run."""

    backend: TransformerBackend
    shape: EncoderShape
    words: Rows
    positions: BackendArray
    norm: LoadedNorm
    exponentials: BackendArray
    normals: BackendArray
    layers: tuple[LoadedEncoderLayer, ...]


def load(backend: TransformerBackend, model: EncoderModel) -> LoadedEncoder:
    """Put `model` into the arrays of `backend`."""
    return LoadedEncoder(
        backend, model.shape, model.words, backend.put(model.positions), _load_norm(backend, model.norm),
        backend.put(model.exponentials), backend.put(model.normals),
        tuple(_load_layer(backend, layer) for layer in model.layers),
    )  # fmt: skip


def _load_layer(backend: TransformerBackend, layer: EncoderLayer) -> LoadedEncoderLayer:
    def matrix(arrays: MatrixArrays) -> Linear:
        return arrays.rows.loaded(backend, arrays.bias)

    return LoadedEncoderLayer(
        matrix(layer.qkv), matrix(layer.out), _load_norm(backend, layer.attention_norm), matrix(layer.up),
        matrix(layer.down), _load_norm(backend, layer.mlp_norm),
    )  # fmt: skip


def _load_norm(backend: TransformerBackend, norm: NormArrays) -> LoadedNorm:
    return LoadedNorm(norm.gain.loaded(backend), backend.put(norm.bias))


def vectors(model: LoadedEncoder, tokens: Integers, lengths: Integers) -> Integers:
    """Return int64[texts, width]: the vector of each text, of length 1 in units of 2**-15.

    `tokens` is int64[texts, longest], with any token ids of the model behind a text's length.
    """
    *_, last = streams(model, tokens, lengths)
    backend = model.backend
    visible = backend.put(_visible(tokens, lengths)[:, None, :])
    # The sum has the direction of the mean, so nothing is divided by the count of tokens.
    sums = backend.total(last.swapaxes(1, 2) * visible)[..., 0]
    return backend.take(_of_length_one(backend, sums))


def streams(model: LoadedEncoder, tokens: Integers, lengths: Integers) -> Iterator[BackendArray]:
    """Yield the stream [texts, longest, width] behind the embeddings, then behind each layer, in units of 2**-18."""
    backend = model.backend
    stream = _normed(model, model.norm, _embedded(model, tokens))
    yield stream
    scores_hidden = 1 - _visible(tokens, lengths)
    hidden = backend.put(scores_hidden[:, None, None, :])
    for layer in model.layers:
        mixed = _attend(model, layer, ops.scaled(backend, stream, ops.STREAM_BITS), hidden)
        update = ops.linear(backend, mixed, layer.out, ops.STREAM_BITS, ops.STREAM_MAX)
        stream = _normed(model, layer.attention_norm, stream + update)
        inner = ops.linear(
            backend, ops.scaled(backend, stream, ops.STREAM_BITS), layer.up, ops.UNIT_BITS, ops.VALUE_MAX
        )
        active = ops.gelu(backend, inner, model.normals)
        update = ops.linear(backend, active, layer.down, ops.STREAM_BITS, ops.STREAM_MAX)
        stream = _normed(model, layer.mlp_norm, stream + update)
        yield stream


def _visible(tokens: Integers, lengths: Integers) -> Integers:
    """Return int64[texts, longest]: 1 for each token of a text, 0 for the padding."""
    return (np.arange(tokens.shape[1]) < lengths[:, None]).astype(np.int64)


def _normed(model: LoadedEncoder, norm: LoadedNorm, stream: BackendArray) -> BackendArray:
    return ops.layer_norm(model.backend, stream, norm.gain, norm.bias, model.shape.epsilon)


def _embedded(model: LoadedEncoder, tokens: Integers) -> BackendArray:
    backend, rows = model.backend, model.words
    integers = rows.integers[tokens].astype(np.int64) * rows.mantissas[tokens].astype(np.int64)[..., None]
    exponents = rows.exponents[tokens].astype(np.int64)[..., None]
    words = backend.rounded(backend.put(integers), backend.put(exponents - ops.STREAM_BITS))
    return words + model.positions[: tokens.shape[1]]


def _attend(model: LoadedEncoder, layer: LoadedEncoderLayer, x: Scaled, hidden: BackendArray) -> Scaled:
    """Return each token's mix of the values of its text."""
    backend, s = model.backend, model.shape
    texts, length, width = x.integers.shape
    heads = ops.linear(backend, x, layer.qkv, ops.UNIT_BITS, ops.VALUE_MAX)
    heads = heads.reshape(texts, length, 3, s.heads, s.head_width).swapaxes(1, 3)
    queries = ops.scaled(backend, heads[:, :, 0], ops.UNIT_BITS)
    keys = _operands(backend, ops.eight_bits(backend, heads[:, :, 1], ops.key_factor(s.head_width)))
    values = _operands(backend, ops.eight_bits(backend, heads[:, :, 2], ops.VALUE_FACTOR))
    mixed = backend.numbers((texts, s.heads, length, s.head_width))
    step = max(1, backend.scores_at_once // (texts * s.heads * length))
    for start in range(0, length, step):
        part = slice(start, start + step)
        some = Scaled(queries.integers[:, :, part], queries.exponent[:, :, part])
        mixed[:, :, part] = ops.attention(backend, some, keys, values, hidden, model.exponentials)
    mixed = backend.clamp(mixed.swapaxes(1, 2).reshape(texts, length, width), -ops.VALUE_MAX, ops.VALUE_MAX)
    return ops.scaled(backend, mixed, ops.UNIT_BITS)


def _operands(backend: TransformerBackend, rows: Cached) -> Cached:
    """Return the rows in the form that products take."""
    return Cached(backend.operand(rows.integers), rows.mantissas, rows.exponents)


def _of_length_one(backend: TransformerBackend, values: BackendArray) -> BackendArray:
    """Return rows [..., width] divided by their lengths, in units of 2**-15. A row of zeros stays."""
    x = ops.scaled(backend, values, 0).integers
    root = backend.clamp(backend.root(backend.total(x * x) * (1 << 2 * ROOT_BITS)), 1, 1 << 26)
    # Half of the divisor rounds to the nearest integer.
    integers = backend.quotient(x * (VALUE_ONE << ROOT_BITS + 1) + root, root * 2)
    return backend.clamp(integers, 1 - VALUE_ONE, VALUE_ONE - 1)
