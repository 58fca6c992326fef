"""Token ids to logits: one forward pass for every backend.

The values of a position depend, bit for bit, only on that position's prefix. Decoding token by token, a prefill in
chunks of any size, and any batch therefore give the same logits.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.decoder_int8.config import DecoderShape
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, LayerArrays
from gpu_tasks.workloads.fingerprints import sampled_places
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.arithmetic import Cached, Gain, Linear, Scaled, TransformerBackend
from gpu_tasks.workloads.integer_transformer.rows import Rows


@dataclass(frozen=True)
class LoadedBlock:
    """A layer in the arrays of a backend."""

    attention_gain: Gain
    qkv: Linear
    query_gain: Gain | None
    key_gain: Gain | None
    out: Linear
    mlp_gain: Gain
    gate_up: Linear
    down: Linear


@dataclass(frozen=True)
class LoadedDecoder:
    """A model in the arrays of a backend, ready to run."""

    backend: TransformerBackend
    shape: DecoderShape
    embeddings: Rows
    cosines: BackendArray
    sines: BackendArray
    exponentials: BackendArray
    sigmoids: BackendArray
    layers: tuple[LoadedBlock, ...]
    final_gain: Gain
    head: Linear


class KeyValueCache:
    """Keys and values of `texts` texts of up to `positions` positions, by layer.

    Integers are operands [texts, key heads, positions, head width], mantissas and exponents [texts, key heads,
    positions].
    """

    def __init__(self, model: LoadedDecoder, texts: int, positions: int) -> None:
        """Allocate zeros. The caller bounds the size by `cache_bytes`."""
        s, backend = model.shape, model.backend
        rows = (texts, s.key_heads, positions)

        def empty() -> Cached:
            return Cached(backend.operands((*rows, s.head_width)), backend.numbers(rows), backend.numbers(rows))

        self.keys = [empty() for _ in range(s.layers)]
        self.values = [empty() for _ in range(s.layers)]

    def arrays(self) -> Iterator[BackendArray]:
        """Yield all arrays, in one order for every cache."""
        for cached in (*self.keys, *self.values):
            yield from (cached.integers, cached.mantissas, cached.exponents)

    def put(self, lanes: Sequence[int], source: "KeyValueCache") -> None:
        """Copy the texts of another cache, in their order, to these places."""
        for target, new in zip(self.arrays(), source.arrays(), strict=True):
            target[lanes, :, : new.shape[2]] = new

    def narrowed(self, lanes: Sequence[int]) -> "KeyValueCache":
        """Return a cache of only the texts at these places, in that order."""
        result = copy(self)
        for name in ("keys", "values"):
            kept = [Cached(c.integers[lanes], c.mantissas[lanes], c.exponents[lanes]) for c in getattr(self, name)]
            setattr(result, name, kept)
        return result


def load(backend: TransformerBackend, model: DecoderModel) -> LoadedDecoder:
    """Put `model` into the arrays of `backend`."""
    return LoadedDecoder(
        backend, model.shape, model.embeddings, backend.put(model.cosines), backend.put(model.sines),
        backend.put(model.exponentials), backend.put(model.sigmoids),
        tuple(load_layer(backend, layer) for layer in model.layers), model.final_gain.loaded(backend),
        model.head.loaded(backend),
    )  # fmt: skip


def load_layer(backend: TransformerBackend, layer: LayerArrays) -> LoadedBlock:
    """Put a layer into the arrays of `backend`."""
    return LoadedBlock(
        layer.attention_gain.loaded(backend), layer.qkv.loaded(backend, layer.qkv_bias),
        None if layer.query_gain is None else layer.query_gain.loaded(backend),
        None if layer.key_gain is None else layer.key_gain.loaded(backend), layer.out.loaded(backend, layer.out_bias),
        layer.mlp_gain.loaded(backend), layer.gate_up.loaded(backend), layer.down.loaded(backend),
    )  # fmt: skip


@dataclass(frozen=True)
class _Places:
    """The places of a pass's tokens in the cache, and values that every layer uses."""

    texts: BackendArray
    """Indices [texts, 1]."""
    positions: BackendArray
    """Indices [texts, length]."""
    end: int
    """The end of the cached positions that the pass can see."""
    hidden: BackendArray
    """[texts, 1, group * length, end]: 1 for each cached position that a token must not see."""
    cosines: BackendArray
    """[texts, length, 1, head width / 2], as `sines`."""
    sines: BackendArray


class StreamSamples:
    """One channel of the stream of each position of one text behind each layer, drawn from a seed."""

    def __init__(self, model: LoadedDecoder, seed: bytes, positions: int) -> None:
        """Take 32 bytes of seed, and the number of the text's positions."""
        self._backend, s = model.backend, model.shape
        self._places = [sampled_places(seed, layer, positions, s.width) for layer in range(s.layers)]
        self.layers = [np.zeros(positions, dtype=np.int64) for _ in self._places]

    def take(self, layer: int, start: int, stream: BackendArray) -> None:
        """Sample the stream [length, width] of the positions from `start` on."""
        length = len(stream)
        rows, channels = np.arange(length), self._places[layer][start : start + length]
        sampled = stream[self._backend.indices(rows), self._backend.indices(channels)]
        self.layers[layer][start : start + length] = self._backend.take(sampled)


def forward(
    model: LoadedDecoder, tokens: Integers, cache: KeyValueCache, starts: Integers, samples: StreamSamples | None = None
) -> BackendArray:
    """Read int64[texts, length] tokens at the positions from int64[texts] `starts` on.

    Return the final stream [texts, length, width]. A text's cache must hold the positions before its start. Positions
    behind a text's end may hold padding: nothing before them depends on them. `samples` are those of the only text.
    """
    return through_layers(model, embedded(model, tokens), cache, starts, samples)


def through_layers(
    model: LoadedDecoder,
    stream: BackendArray,
    cache: KeyValueCache,
    starts: Integers,
    samples: StreamSamples | None = None,
) -> BackendArray:
    """Return the stream [texts, length, width] behind the layers, with positions and cache as in `forward`."""
    backend, s = model.backend, model.shape
    places = _places(model, starts[:, None] + np.arange(stream.shape[1]))
    for number, layer in enumerate(model.layers):
        x = ops.norm(backend, stream, layer.attention_gain, s.epsilon)
        mixed = _attend(model, layer, x, cache.keys[number], cache.values[number], places)
        stream = ops.added(backend, stream, ops.linear(backend, mixed, layer.out, ops.STREAM_BITS, ops.STREAM_MAX))
        x = ops.norm(backend, stream, layer.mlp_gain, s.epsilon)
        both = ops.linear(backend, x, layer.gate_up, ops.UNIT_BITS, ops.VALUE_MAX)
        active = ops.silu_product(backend, both[..., : s.hidden], both[..., s.hidden :], model.sigmoids)
        stream = ops.added(backend, stream, ops.linear(backend, active, layer.down, ops.STREAM_BITS, ops.STREAM_MAX))
        if samples is not None:
            samples.take(number, int(starts[0]), stream[0])
    return stream


def logits_of(model: LoadedDecoder, stream: BackendArray) -> Integers:
    """Return int64[..., vocabulary] of a final stream [..., width]: base-2 logarithms in units of 2**-16."""
    x = ops.norm(model.backend, stream, model.final_gain, model.shape.epsilon)
    return model.backend.take(ops.linear(model.backend, x, model.head, ops.LOGIT_BITS, ops.LOGIT_MAX))


def _places(model: LoadedDecoder, positions: Integers) -> _Places:
    s, backend = model.shape, model.backend
    end = int(positions.max()) + 1
    hidden = (np.arange(end) > positions[:, :, None]).astype(np.int64)[:, None]
    # The heads of a group share keys, so they are rows of one product.
    hidden = np.tile(hidden, (1, 1, s.heads // s.key_heads, 1))
    texts, places = backend.indices(np.arange(len(positions))[:, None]), backend.indices(positions)
    return _Places(
        texts, places, end, backend.put(hidden), model.cosines[places][:, :, None], model.sines[places][:, :, None]
    )


def embedded(model: LoadedDecoder, tokens: Integers) -> BackendArray:
    """Return the stream [..., width] of tokens before the first layer."""
    backend, rows = model.backend, model.embeddings
    integers = rows.integers[tokens].astype(np.int64) * rows.mantissas[tokens].astype(np.int64)[..., None]
    exponents = rows.exponents[tokens].astype(np.int64)[..., None]
    return backend.rounded(backend.put(integers), backend.put(exponents - ops.STREAM_BITS))


def _attend(
    model: LoadedDecoder, layer: LoadedBlock, x: Scaled, cached_keys: Cached, cached_values: Cached, places: _Places
) -> Scaled:
    """Store keys and values of the pass, and return each token's mix of the values that it sees."""
    backend, s = model.backend, model.shape
    texts, length = places.positions.shape
    heads = ops.linear(backend, x, layer.qkv, ops.UNIT_BITS, ops.VALUE_MAX)
    heads = heads.reshape(texts, length, s.heads + 2 * s.key_heads, s.head_width)
    queries, keys, values = heads[:, :, : s.heads], heads[:, :, s.heads : -s.key_heads], heads[:, :, -s.key_heads :]
    queries, keys = _head_norm(model, layer.query_gain, queries), _head_norm(model, layer.key_gain, keys)
    keys = ops.rotated(backend, keys, places.cosines, places.sines)
    _store(backend, places, cached_keys, ops.eight_bits(backend, keys, ops.key_factor(s.head_width)))
    _store(backend, places, cached_values, ops.eight_bits(backend, values, ops.VALUE_FACTOR))
    scaled = ops.scaled(backend, ops.rotated(backend, queries, places.cosines, places.sines), ops.UNIT_BITS)
    mixed = ops.attention(
        backend, Scaled(_grouped(s, scaled.integers), _grouped(s, scaled.exponent)), _seen(places, cached_keys),
        _seen(places, cached_values), places.hidden, model.exponentials,
    )  # fmt: skip
    mixed = mixed.reshape(texts, s.key_heads, s.heads // s.key_heads, length, s.head_width)
    mixed = mixed.swapaxes(2, 3).swapaxes(1, 2).reshape(texts, length, s.heads * s.head_width)
    return ops.scaled(backend, backend.clamp(mixed, -ops.VALUE_MAX, ops.VALUE_MAX), ops.UNIT_BITS)


def _head_norm(model: LoadedDecoder, gain: Gain | None, heads: BackendArray) -> BackendArray:
    if gain is None:
        return heads
    x = ops.norm(model.backend, heads, gain, model.shape.epsilon, ops.UNIT_BITS)
    return ops.fixed(model.backend, x, ops.UNIT_BITS, ops.VALUE_MAX)


def _store(backend: TransformerBackend, places: _Places, cached: Cached, new: Cached) -> None:
    """Write [texts, length, key heads, ..] at the positions of the pass."""
    cached.integers[places.texts, :, places.positions] = backend.operand(new.integers)
    cached.mantissas[places.texts, :, places.positions] = new.mantissas
    cached.exponents[places.texts, :, places.positions] = new.exponents


def _seen(places: _Places, cached: Cached) -> Cached:
    end = places.end
    return Cached(cached.integers[:, :, :end], cached.mantissas[:, :, :end], cached.exponents[:, :, :end])


def _grouped(s: DecoderShape, heads: BackendArray) -> BackendArray:
    """Return [texts, key heads, group * length, k] of [texts, length, heads, k]."""
    texts, length, _, depth = heads.shape
    grouped = heads.reshape(texts, length, s.key_heads, s.heads // s.key_heads, depth)
    return grouped.swapaxes(1, 2).swapaxes(2, 3).reshape(texts, s.key_heads, -1, depth)
