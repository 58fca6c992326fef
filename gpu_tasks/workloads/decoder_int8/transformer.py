"""Token ids to logits: one forward pass for every backend.

The values of a position depend, bit for bit, only on that position's prefix. Decoding token by token, a prefill in
chunks of any size, and any batch therefore give the same logits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from gpu_tasks.workloads.decoder_int8.config import DecoderShape
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, LayerArrays
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.arithmetic import Cached, Gain, Linear, Scaled, TransformerBackend
from gpu_tasks.workloads.integer_transformer.rows import Rows
from gpu_tasks.workloads.sampling import sampled_places


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

    Integers are stored [texts, key heads, positions, head width], mantissas and exponents [texts, key heads,
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

    def narrow(self, lanes: Sequence[int]) -> None:
        """Keep only the texts at these places, in that order."""
        # One layer after the other, so that no second cache is in memory.
        for part in (self.keys, self.values):
            for number, c in enumerate(part):
                part[number] = Cached(c.integers[lanes], c.mantissas[lanes], c.exponents[lanes])


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
class _Block:
    """Queries whose attention is computed at once, so that the scores stay in a processor's caches."""

    texts: slice
    lanes: slice | BackendArray
    """The places of the texts in the cache."""
    heads: slice
    """Of keys and values."""
    rows: slice
    """Rows of `_grouped`."""
    end: int
    """The end of the cached positions that a row can see."""
    hidden: BackendArray
    """[texts, 1, rows, last positions]: 1 for each of the last positions before `end` that a row must not see."""


@dataclass(frozen=True)
class _Places:
    """The places of a pass's tokens in the cache, and values that every layer uses."""

    lanes: BackendArray
    """Indices [texts, 1]."""
    positions: BackendArray
    """Indices [texts, length]."""
    blocks: tuple[_Block, ...]
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
    model: LoadedDecoder,
    tokens: Integers,
    cache: KeyValueCache,
    starts: Integers,
    lanes: Sequence[int] | None = None,
    samples: StreamSamples | None = None,
) -> BackendArray:
    """Read int64[texts, length] tokens at the positions from int64[texts] `starts` on.

    Return the final stream [texts, length, width]. `lanes` are the texts' places in the cache, by default all in order.
    A text's cache must hold the positions before its start. Positions behind a text's end may hold padding: nothing
    before them depends on them. `samples` are those of the only text.
    """
    return through_layers(model, embedded(model, tokens), cache, starts, lanes, samples)


def through_layers(
    model: LoadedDecoder,
    stream: BackendArray,
    cache: KeyValueCache,
    starts: Integers,
    lanes: Sequence[int] | None = None,
    samples: StreamSamples | None = None,
) -> BackendArray:
    """Return the stream [texts, length, width] behind the layers, with positions, cache and lanes as in `forward`."""
    backend, s = model.backend, model.shape
    places = _places(
        model, starts[:, None] + np.arange(stream.shape[1]), range(len(starts)) if lanes is None else lanes
    )
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


def _places(model: LoadedDecoder, positions: Integers, lanes: Sequence[int]) -> _Places:
    backend = model.backend
    places = backend.indices(positions)
    return _Places(
        backend.indices(np.array(lanes, dtype=np.int64)[:, None]), places, tuple(_blocks(model, positions, lanes)),
        model.cosines[places][:, :, None], model.sines[places][:, :, None],
    )  # fmt: skip


def _blocks(model: LoadedDecoder, positions: Integers, lanes: Sequence[int]) -> Iterator[_Block]:
    """Cut a pass [texts, length] into blocks: of several texts, of heads of a text, or of rows of a head."""
    backend, s = model.backend, model.shape
    # The heads of a group share keys, so they are rows of one product.
    seen_by_row = np.repeat(positions, s.heads // s.key_heads, axis=1)
    texts, rows = seen_by_row.shape
    row_scores = int(positions.max()) + 1
    step, head_step, row_step = (
        max(1, backend.scores_at_once // (row_scores * count)) for count in (rows * s.key_heads, rows, 1)
    )
    for text, row in product(range(0, texts, step), range(0, rows, row_step)):
        seen = seen_by_row[text : text + step, row : row + row_step]
        first, end = int(seen.min()) + 1, int(seen.max()) + 1
        hidden = backend.put((np.arange(first, end) > seen[:, :, None]).astype(np.int64)[:, None])
        block_lanes = _run(backend, lanes[text : text + step])
        for head in range(0, s.key_heads, head_step):
            yield _Block(
                slice(text, text + step), block_lanes, slice(head, head + head_step), slice(row, row + row_step), end,
                hidden,
            )  # fmt: skip


def _run(backend: TransformerBackend, lanes: Sequence[int]) -> slice | BackendArray:
    """Return lanes as a slice if one follows the other, else as indices: a slice copies no keys."""
    if list(lanes) == list(range(lanes[0], lanes[0] + len(lanes))):
        return slice(lanes[0], lanes[0] + len(lanes))
    return backend.indices(np.array(lanes, dtype=np.int64))


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
    integers, exponents = _grouped(s, scaled.integers), _grouped(s, scaled.exponent)
    mixed = backend.numbers(integers.shape)
    for block in places.blocks:
        part = block.texts, block.heads, block.rows
        mixed[part] = ops.attention(
            backend, Scaled(integers[part], exponents[part]), _seen(block, cached_keys), _seen(block, cached_values),
            block.hidden, model.exponentials,
        )  # fmt: skip
    mixed = mixed.reshape(texts, s.key_heads, length, -1).swapaxes(1, 2).reshape(texts, length, -1)
    return ops.scaled(backend, backend.clamp(mixed, -ops.VALUE_MAX, ops.VALUE_MAX), ops.UNIT_BITS)


def _head_norm(model: LoadedDecoder, gain: Gain | None, heads: BackendArray) -> BackendArray:
    if gain is None:
        return heads
    x = ops.norm(model.backend, heads, gain, model.shape.epsilon, ops.UNIT_BITS)
    return ops.fixed(model.backend, x, ops.UNIT_BITS, ops.VALUE_MAX)


def _store(backend: TransformerBackend, places: _Places, cached: Cached, new: Cached) -> None:
    """Write [texts, length, key heads, ..] at the positions of the pass."""
    cached.integers[places.lanes, :, places.positions] = backend.stored(new.integers)
    cached.mantissas[places.lanes, :, places.positions] = new.mantissas
    cached.exponents[places.lanes, :, places.positions] = new.exponents


def _seen(block: _Block, cached: Cached) -> Cached:
    part = block.lanes, block.heads, slice(block.end)
    return Cached(cached.integers[part], cached.mantissas[part], cached.exponents[part])


def _grouped(s: DecoderShape, heads: BackendArray) -> BackendArray:
    """Return [texts, key heads, length * group, k] of [texts, length, heads, k]."""
    texts, length, _, depth = heads.shape
    return heads.reshape(texts, length, s.key_heads, -1, depth).swapaxes(1, 2).reshape(texts, s.key_heads, -1, depth)
