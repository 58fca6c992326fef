"""Tokens to logits: one forward pass for every backend.

The values of a position depend, bit for bit, only on that position's prefix, never on the rest of the batch. Decoding
token by token, one prefill of the whole text, and any batch therefore give the same logits.
"""

from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.textgen_int8 import integer_ops as ops
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Array, Ints
from gpu_tasks.workloads.textgen_int8.model import Model, ModelShape, TransformerLayer


@dataclass(frozen=True)
class LoadedLayer:
    """A `TransformerLayer` in the arrays of a backend."""

    attention_gain: int
    mlp_gain: int
    qkv: Array
    qkv_multipliers: Array
    score_multipliers: Array
    mix_multipliers: Array
    out: Array
    out_multipliers: Array
    up: Array
    up_multipliers: Array
    gelu: Array
    down: Array
    down_multipliers: Array


@dataclass(frozen=True)
class Loaded:
    """A model in the arrays of a backend, ready to run."""

    backend: Arithmetic
    shape: ModelShape
    tokens: Array
    positions: Array
    layers: tuple[LoadedLayer, ...]
    final_gain: int
    head: Array
    head_multipliers: Array
    exps: Array


@dataclass
class Cache:
    """Keys [batch, heads, context, depth] and values [batch, heads, depth, context] by layer."""

    length: int
    keys: list[Array]
    values: list[Array]


def load(backend: Arithmetic, model: Model) -> Loaded:
    """Put `model` into the arrays of `backend`."""
    return Loaded(
        backend, model.shape, backend.put(model.tokens), backend.put(model.positions),
        tuple(_load_layer(backend, layer) for layer in model.layers), int(model.final_gain[0]),
        backend.operand(backend.put(model.head)), backend.put(model.head_multipliers), backend.put(ops.exp_table()),
    )  # fmt: skip


def _load_layer(backend: Arithmetic, layer: TransformerLayer) -> LoadedLayer:
    """Load one layer. Per-head multipliers take the shape [heads, 1, 1]."""
    return LoadedLayer(
        int(layer.gains[0]), int(layer.gains[1]),
        backend.operand(backend.put(layer.qkv)), backend.put(layer.qkv_multipliers),
        backend.put(layer.score_multipliers.reshape(-1, 1, 1)),
        backend.put(layer.mix_multipliers.reshape(-1, 1, 1)),
        backend.operand(backend.put(layer.out)), backend.put(layer.out_multipliers),
        backend.operand(backend.put(layer.up)), backend.put(layer.up_multipliers), backend.put(layer.gelu),
        backend.operand(backend.put(layer.down)), backend.put(layer.down_multipliers),
    )  # fmt: skip


def moved(cache: Cache, lanes: Ints, source: Cache) -> None:
    """Copy the texts of `source`, in their order, to the places int64[n] of a cache."""
    for keys, new_values in zip(cache.keys, source.keys, strict=True):
        keys[lanes] = new_values
    for values, new_values in zip(cache.values, source.values, strict=True):
        values[lanes] = new_values


def narrowed(cache: Cache, lanes: Ints) -> Cache:
    """Return a cache of only the texts at the places int64[n], in that order."""
    return Cache(cache.length, [keys[lanes] for keys in cache.keys], [values[lanes] for values in cache.values])


def empty_cache(model: Loaded, batch: int = 1) -> Cache:
    """Return a cache for `batch` sequences of up to the model's context."""
    s = model.shape
    depth = s.width // s.heads
    keys = np.zeros((batch, s.heads, s.context, depth), dtype=np.int64)
    values = np.zeros((batch, s.heads, depth, s.context), dtype=np.int64)
    backend = model.backend
    return Cache(
        0,
        [backend.operand(backend.put(keys)) for _ in range(s.layers)],
        [backend.operand(backend.put(values)) for _ in range(s.layers)],
    )


@dataclass(frozen=True)
class _Places:
    """The positions of a pass's tokens: the same in every text of the batch, or one for each text."""

    embedded: Array
    """[length, width], or [batch, 1, width]: added to each token for its position."""
    end: int
    """The end of the positions that a pass can see."""
    visible: Array | None
    """1 where a position may see another. None where each sees all before `end`."""
    rows: Array | slice
    at: Array | slice
    """The cache's entries of the pass, by text and by position."""


def forward(model: Loaded, tokens: Ints, cache: Cache) -> Ints:
    """Append int64[batch, length] tokens to the cached ones. Return the logits, int64[batch, length, 257].

    Raise ValueError when the context is exceeded. The caller checks that beforehand.
    """
    backend, start, end = model.backend, cache.length, cache.length + tokens.shape[1]
    if end > model.shape.context:
        raise ValueError("more tokens than in the context")
    new = slice(start, end)
    places = _Places(model.positions[new], end, _causal_mask(backend, start, end), slice(None), new)
    cache.length = end
    return _final_stream(model, tokens, cache, places)


def forward_each(model: Loaded, tokens: Ints, cache: Cache, token_positions: Ints) -> Ints:
    """Compute one token of each text, int64[batch], at its own position, int64[batch].

    Return the logits, int64[batch, 257]. A lane's cache entries from its position on belong to no text, and are
    overwritten before a pass sees them.
    """
    backend, end = model.backend, int(token_positions.max()) + 1
    if end > model.shape.context:
        raise ValueError("more tokens than in the context")
    own = backend.put(token_positions)
    # A lane still holds the keys of the text that it had before, and these lie behind its position.
    visible = backend.put(np.arange(end)[None, :] <= token_positions[:, None])[:, None, None, :]
    places = _Places(model.positions[own][:, None, :], end, visible, backend.put(np.arange(len(token_positions))), own)
    logits: Ints = _final_stream(model, tokens[:, None], cache, places)[:, 0]
    return logits


def _final_stream(model: Loaded, tokens: Ints, cache: Cache, places: _Places) -> Ints:
    backend = model.backend
    stream = model.tokens[backend.put(tokens)] + places.embedded
    for index, layer in enumerate(model.layers):
        normed = ops.norm(backend, stream, layer.attention_gain)
        mixed = _attention(model, index, normed, cache, places)
        stream = ops.add(backend, stream, ops.linear(backend, mixed, layer.out, layer.out_multipliers))
        normed = ops.norm(backend, stream, layer.mlp_gain)
        hidden = ops.linear(backend, normed, layer.up, layer.up_multipliers)
        hidden = ops.gelu(backend, hidden, layer.gelu)
        stream = ops.add(backend, stream, ops.linear(backend, hidden, layer.down, layer.down_multipliers))
    normed = ops.norm(backend, stream, model.final_gain)
    return backend.take(ops.linear(backend, normed, model.head, model.head_multipliers))


def _attention(model: Loaded, index: int, x: Array, cache: Cache, places: _Places) -> Array:
    """Return the causal attention of layer `layer_index` over the cached and the new positions, to 8 bits."""
    backend, layer, heads = model.backend, model.layers[index], model.shape.heads
    batch, length, width = x.shape
    end = places.end
    qkv = ops.activation(backend, ops.linear(backend, x, layer.qkv, layer.qkv_multipliers))
    split = qkv.reshape(batch, length, 3, heads, width // heads).swapaxes(1, 3)
    query, key, value = split[:, :, 0], split[:, :, 1], split[:, :, 2]
    keys, values = cache.keys[index], cache.values[index]
    if isinstance(places.at, slice):
        keys[:, :, places.at] = key
        values[:, :, :, places.at] = value.swapaxes(2, 3)
    else:
        # PyTorch does not cast values that are assigned at places given by tensors
        keys[places.rows, :, places.at] = backend.operand(key[:, :, 0])
        values[places.rows, :, :, places.at] = backend.operand(value[:, :, 0])
    scores = backend.product(query, keys[:, :, :end])
    shares = ops.probabilities(backend, scores, layer.score_multipliers, model.exps, places.visible)
    mixed = ops.rescale(backend.product(shares, values[:, :, :, :end]), layer.mix_multipliers)
    return ops.activation(backend, mixed).swapaxes(1, 2).reshape(batch, length, width)


def _causal_mask(backend: Arithmetic, start: int, end: int) -> Array | None:
    """Return int64[end - start, end]: 1 where a position may see another.

    Return None for a single position, which sees all.
    """
    # A single new token sees all before it, and a mask of ones would cost a product.
    if end - start == 1:
        return None
    return backend.put(np.arange(end)[None, :] <= np.arange(start, end)[:, None])
