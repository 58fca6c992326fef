"""A float model of the Llama family to a model of `decoder-int8`.

Weights are rounded to 8 bits with one scale for each row. Before, every channel between two matrices is rescaled so
that the columns of the second use the whole range; the function of the model stays the same (weight equalisation,
arXiv:1906.04721, with the scales of SmoothQuant, arXiv:2211.10438). A norm's gain, the rows of `up` and of the values
take the inverse factors, which cost nothing there: rows have scales of their own, and activations have 16 bits.

Invariant: the result is a function of the source's bytes. Only operations with one correct result in IEEE arithmetic
are used (`+ - * / sqrt`, maxima, medians, rounding), so every machine writes the same file with the same id.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal  # deterministic: exact to the stated digits
from typing import Any

import numpy as np

from gpu_tasks.models.sources.configs import FREQUENCY_FACTORS
from gpu_tasks.models.sources.source_model import SourceError, SourceModel
from gpu_tasks.workloads.decoder_int8.config import (
    CACHE_BYTES,
    CONTEXT_MAX,
    SHAPE,
    DecoderShape,
    cache_bytes,
    decode_shape,
)
from gpu_tasks.workloads.decoder_int8.model import LEAST_EXPONENTS, DecoderModel, LayerArrays
from gpu_tasks.workloads.integer_transformer.arithmetic import EPSILON_BITS, STREAM_BITS, UNIT_BITS
from gpu_tasks.workloads.integer_transformer.rounding import (
    Floats,
    balanced_gain,
    column_peaks,
    eight_bit_rows,
    fixed_bias,
    gain_row,
    inverse_peaks,
)
from gpu_tasks.workloads.integer_transformer.rows import GainRow, Rows
from gpu_tasks.workloads.integer_transformer.tables import exponential_table, rotary_tables, sigmoid_table

LOG2_E = 1.4426950408889634
"""Of the head: logits are base-2 logarithms."""


def quantised_decoder(
    source: SourceModel, progress: Callable[[int, int], object] = lambda _done, _all: None
) -> DecoderModel:
    """Return the integer model. Raise SourceError for a model that `decoder-int8` cannot compute."""
    shape = _shape(source)
    tensors = source.tensors
    embeddings = _float(tensors, "model.embed_tokens.weight")
    head = embeddings if source.config["tie_word_embeddings"] else _float(tensors, "lm_head.weight")
    final_gain, (balanced_head,) = balanced_gain(_float(tensors, "model.norm.weight"), [head])
    cosines, sines = rotary_tables(shape.context, _frequencies(source, shape))
    layers = []
    for number in range(shape.layers):
        layers.append(_layer(source, shape, number))
        progress(number + 1, shape.layers)
    return DecoderModel(
        shape, _rows("embeddings", embeddings), cosines, sines, exponential_table(), sigmoid_table(),
        tuple(layers), final_gain,
        _rows("head", balanced_head * LOG2_E, final_gain),
    )  # fmt: skip


def _shape(source: SourceModel) -> DecoderShape:
    config = source.config
    if source.architecture != "llama" or config["mlp_bias"]:
        raise SourceError("architecture", f"decoder-int8 has no place for {source.architecture} with biases in its MLP")
    end_tokens = source.generation.get("eos_token_id", ())
    shape = DecoderShape(
        width=int(config["hidden_size"]), layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]), key_heads=int(config["num_key_value_heads"]),
        head_width=int(config["head_dim"]), hidden=int(config["intermediate_size"]),
        context=min(CONTEXT_MAX, int(config["max_position_embeddings"])), vocabulary=int(config["vocab_size"]),
        epsilon=round(float(config["rms_norm_eps"]) * (1 << EPSILON_BITS)),  # deterministic: one IEEE product
        has_attention_bias=bool(config["attention_bias"]), has_out_bias=bool(config["attention_output_bias"]),
        has_head_norm=bool(config["qk_norm"]), end_tokens=tuple(end_tokens),  # type: ignore[arg-type]
    )  # fmt: skip
    shape = replace(shape, context=min(shape.context, CACHE_BYTES // cache_bytes(shape)))
    try:
        return decode_shape(SHAPE.encode(shape))
    # A size beyond the bits of its field raises OverflowError.
    except (OverflowError, ValueError) as error:
        raise SourceError("range", f"decoder-int8 cannot compute this model: {error}") from None


def _frequencies(source: SourceModel, shape: DecoderShape) -> list[Decimal]:
    """Return the angle of each rotary pair for one position, in radians."""
    base, half = Decimal(float(source.config["rope_theta"])), shape.head_width // 2
    factors = source.tensors[FREQUENCY_FACTORS] if source.config["rope_scaling"] else np.ones(half)
    # A GGUF file holds any factors. The series of `rotary_tables` ends too early for an angle above 1.
    if factors.min() < 1:
        raise SourceError("rope_scaling", f"a rotary frequency is divided by {factors.min():.3g}, which is below 1")
    return [base ** (Decimal(-2 * pair) / shape.head_width) / Decimal(float(factors[pair])) for pair in range(half)]


def _rows(part: str, weights: Floats, gain: GainRow | None = None) -> Rows:
    """Round a matrix to 8 bits. `gain`: of the norm before it."""
    return eight_bit_rows(weights, LEAST_EXPONENTS[part] - (0 if gain is None else int(gain.exponent[0])))


def _float(tensors: Mapping[str, Any], name: str) -> Floats:
    return np.asarray(tensors[name], dtype=np.float64)


def _layer(source: SourceModel, s: DecoderShape, number: int) -> LayerArrays:
    prefix = f"model.layers.{number}."

    def tensor(name: str) -> Floats:
        return _float(source.tensors, prefix + name)

    out, down = tensor("self_attn.o_proj.weight"), tensor("mlp.down_proj.weight")
    gate, up = tensor("mlp.gate_proj.weight"), tensor("mlp.up_proj.weight")
    active_factors = column_peaks(down)
    up, down = up * active_factors[:, None], down / active_factors

    gain = tensor("input_layernorm.weight")
    factors = _head_factors(s, out, *(tensor(f"self_attn.{part}_proj.weight") * gain for part in ("k", "v")))
    out = out / np.repeat(factors.values.reshape(s.key_heads, 1, -1), s.heads // s.key_heads, 1).reshape(-1)
    parts = [tensor(f"self_attn.{part}_proj.weight") * rows[:, None] for part, rows in factors.by_part().items()]
    biases = (
        [tensor(f"self_attn.{part}_proj.bias") * rows for part, rows in factors.by_part().items()]
        if s.has_attention_bias
        else []
    )
    attention_gain, parts = balanced_gain(gain, parts)
    mlp_gain, (gate, up) = balanced_gain(tensor("post_attention_layernorm.weight"), [gate, up])
    has_norm = s.has_head_norm
    return LayerArrays(
        attention_gain, _rows("qkv", np.concatenate(parts), attention_gain),
        fixed_bias(np.concatenate(biases), UNIT_BITS) if biases else None,
        gain_row(tensor("self_attn.q_norm.weight")) if has_norm else None,
        gain_row(tensor("self_attn.k_norm.weight")) if has_norm else None,
        _rows("out", out), fixed_bias(tensor("self_attn.o_proj.bias"), STREAM_BITS) if s.has_out_bias else None,
        mlp_gain, _rows("gate_up", np.concatenate([gate, up]), mlp_gain), _rows("down", down),
    )  # fmt: skip


@dataclass(frozen=True)
class _HeadFactors:
    """Factors for the rows of queries, keys and values that leave attention's result the same."""

    queries: Floats  # [heads * head_width]
    keys: Floats  # [key_heads * head_width]
    values: Floats  # [key_heads * head_width]

    def by_part(self) -> dict[str, Floats]:
        return {"q": self.queries, "k": self.keys, "v": self.values}


def _head_factors(s: DecoderShape, out: Floats, keys: Floats, values: Floats) -> _HeadFactors:
    """Let keys and values use their 8 bits: one scale for each head of a token serves all of its channels.

    `keys` and `values` are the matrices times the gain before them.
    """
    group, half = s.heads // s.key_heads, s.head_width // 2
    peaks = column_peaks(out).reshape(s.key_heads, group, s.head_width).max(axis=1).reshape(-1)
    # Half of the way, by the root: a factor on a value narrows its 8 bits by as much as it widens the column of `out`.
    value_factors = np.sqrt(peaks * inverse_peaks(np.abs(values).max(axis=1)))
    if s.has_head_norm:
        return _HeadFactors(np.ones(s.heads * s.head_width), np.ones(s.key_heads * s.head_width), value_factors)
    # Both channels of a rotary pair take one factor, since they turn into each other.
    pairs = np.abs(keys).max(axis=1).reshape(s.key_heads, 2, half).max(axis=1)
    pair_factors = np.stack([inverse_peaks(head) for head in pairs])
    by_channel = np.concatenate([pair_factors, pair_factors], axis=1)
    return _HeadFactors(np.repeat(1 / by_channel, group, axis=0).reshape(-1), by_channel.reshape(-1), value_factors)
