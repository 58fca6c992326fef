"""Small models of `decoder-int8`: floats drawn from a seed, and integers at the limits of their ranges."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.models.sources.configs import canonical_config, tensor_shapes
from gpu_tasks.models.sources.source_model import SourceModel, StoredTensor, Tensors
from gpu_tasks.workloads.decoder_int8.config import DecoderShape
from gpu_tasks.workloads.decoder_int8.model import DecoderModel, LayerArrays
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, forward, logits_of
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import EXP_ENTRIES, SIGMOID_ENTRIES, VALUE_MAX
from gpu_tasks.workloads.integer_transformer.rows import GainRow, Rows

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 64, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "tie_word_embeddings": False,
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "one group": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "groups of one": {"num_key_value_heads": 4, "attention_bias": True},
    "head norm": {"architectures": ["Qwen3ForCausalLM"], "head_dim": 12},
}
"""Changes to `CONFIG` that reach every part of a layer."""


def drawn_source(seed: int = 1, **changes: Any) -> SourceModel:
    """Return a float model with weights of the usual size: each linear map about keeps the size of its input."""
    architecture, config = canonical_config(CONFIG | changes)
    draw = np.random.default_rng(seed)
    tensors = {name: _drawn_tensor(draw, name, shape) for name, shape in tensor_shapes(architecture, config).items()}
    return source_of(tensors, config, architecture)


def source_of(tensors: dict[str, NDArray[Any]], config: Any, architecture: str = "llama") -> SourceModel:
    """Return a float model of these tensors."""
    stored = {name: StoredTensor(values.shape, lambda v=values: v) for name, values in tensors.items()}  # type: ignore[misc]
    return SourceModel(architecture, config, Tensors(stored), b"", "", {"eos_token_id": [0]}, "tiny", "", "", "", "")


def _drawn_tensor(draw: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if len(shape) == 1:
        size = draw.normal(1, 0.2, shape) if "norm" in name else draw.normal(0, 0.3, shape)
        return size.astype(np.float32)
    spread = 1.0 if "embed" in name else 3.0 if "q_proj" in name or "k_proj" in name or "head" in name else 1.5
    return (draw.normal(0, spread, shape) / (1 if "embed" in name else np.sqrt(shape[1]))).astype(np.float32)


def extreme_model(shape: DecoderShape, seed: int) -> DecoderModel:
    """Return a model that passes the checks, with nearly every value at a limit of its range."""
    draw, s = np.random.default_rng(seed), shape
    half, heads = s.head_width // 2, (s.heads + 2 * s.key_heads) * s.head_width

    def limits(low: int, high: int, *size: int) -> Any:
        kind = draw.integers(4)
        between = draw.integers(low, high + 1, size)
        values = (np.full(size, high), np.full(size, low), draw.choice([low, high], size), between)[kind]
        return np.where(draw.random(size) < draw.choice([0, 0.1]), between, values)

    def rows(count: int, columns: int, least: int) -> Rows:
        least_exponents = np.full(count, least) if draw.random() < 0.7 else limits(least, 62, count)
        return Rows(
            limits(-127, 127, count, columns).astype(np.int8), limits(1 << 15, (1 << 16) - 1, count).astype(np.uint16),
            least_exponents.astype(np.int8),
        )  # fmt: skip

    def gain(channels: int) -> GainRow:
        integers = limits(-32767, 32767, channels) * (draw.random(channels) < draw.choice([1, 0.1]))
        exponent = draw.choice([0, 15, 62, int(draw.integers(63))])
        return GainRow(integers.astype(np.int16), np.array([exponent], dtype=np.int8))

    def biases(count: int) -> Any:
        return limits(-VALUE_MAX, VALUE_MAX, count).astype(np.int32)

    def layer() -> LayerArrays:
        attention_gain, mlp_gain = gain(s.width), gain(s.width)
        return LayerArrays(
            attention_gain, rows(heads, s.width, 22 - int(attention_gain.exponent[0])),
            biases(heads) if s.has_attention_bias else None, gain(s.head_width) if s.has_head_norm else None,
            gain(s.head_width) if s.has_head_norm else None, rows(s.width, s.heads * s.head_width, 15),
            biases(s.width) if s.has_out_bias else None, mlp_gain,
            rows(2 * s.hidden, s.width, 22 - int(mlp_gain.exponent[0])), rows(s.width, s.hidden, 17),
        )  # fmt: skip

    def turns() -> Any:
        return limits(-(1 << 14), 1 << 14, s.context, half).astype(np.int16)

    exponentials, final_gain = limits(0, 1 << 24, EXP_ENTRIES).astype(np.int32), gain(s.width)
    exponentials[0], exponentials[-1] = 1 << 24, 0
    return DecoderModel(
        s, rows(s.vocabulary, s.width, 4), turns(), turns(), exponentials,
        limits(0, 1 << 16, SIGMOID_ENTRIES).astype(np.int32), tuple(layer() for _ in range(s.layers)), final_gain,
        rows(s.vocabulary, s.width, 24 - int(final_gain.exponent[0])),
    )  # fmt: skip


def logits(model: LoadedDecoder, tokens: Integers) -> Integers:
    """Return the logits [texts, length, vocabulary] of whole texts, in one pass."""
    stream = forward(model, tokens, KeyValueCache(model, *tokens.shape), np.zeros(len(tokens), dtype=np.int64))
    return logits_of(model, stream)
