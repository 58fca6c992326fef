"""The config of a model: from Hugging Face's `config.json` to checked values, and the tensors that it requires.

A reader of another format first writes its metadata as such a config, so every model passes the same checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from gpu_tasks.models.sources.source_model import ConfigValue, Floats, SourceError

LAYERS_MAX = 1_024
WIDTH_MAX = 2**17
HEADS_MAX = 2_048
VOCABULARY_MAX = 2**20
CONTEXT_MAX = 2**24
ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "llama",
    "Qwen3ForCausalLM": "llama",
    "BertModel": "bert",
}
"""Hugging Face's class to the canonical architecture."""
FREQUENCY_FACTORS = "rope_freq_factors"
"""A tensor [head_dim / 2] of a model with scaled positions: each rotary frequency is divided by its factor."""

RawConfig: TypeAlias = Mapping[str, object]
Shapes: TypeAlias = dict[str, tuple[int, ...]]


def canonical_config(raw: RawConfig) -> tuple[str, dict[str, ConfigValue]]:
    """Return the architecture and the checked config. Raise SourceError for an unknown class or an unfit value.

    `llama`: `hidden_size`, `num_hidden_layers`, `num_attention_heads`, `num_key_value_heads`, `head_dim`,
    `intermediate_size`, `vocab_size`, `max_position_embeddings`, `rms_norm_eps`, `rope_theta`, `rope_scaling` (whether
    the tensor `rope_freq_factors` exists), `tie_word_embeddings`, `attention_bias` (queries, keys, values),
    `attention_output_bias`, `mlp_bias`, `qk_norm`.
    `bert`: the sizes, `type_vocab_size`, `layer_norm_eps`.
    """
    names = raw.get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    if not isinstance(name, str) or name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise SourceError("architecture", f"unknown architecture {str(name)[:100]!r}; the known ones are {known}")
    if raw.get("quantization_config") is not None:
        raise SourceError("type", "the model is quantised already; give the model with float weights, or its GGUF file")
    architecture = ARCHITECTURES[name]
    return architecture, _bert(raw) if architecture == "bert" else _llama(raw, name)


def tensor_shapes(architecture: str, config: Mapping[str, ConfigValue]) -> Shapes:
    """Return the name and the shape of each tensor that a model of this config has."""
    return _bert_shapes(config) if architecture == "bert" else _llama_shapes(config)


def frequency_factors(raw: RawConfig, config: Mapping[str, ConfigValue]) -> Floats | None:
    """Return the factors by which scaled positions slow each rotary frequency, or None without scaling.

    The formula of `llama3` is that of `transformers`, modeling_rope_utils: long waves are divided by the factor, short
    ones stay, and those between are blended.
    """
    scaling = _rope(raw)
    scaling_kind = _rope_kind(scaling)
    if scaling_kind == "default":
        return None
    pair_count = int(config["head_dim"]) // 2
    factor = _float(scaling, "factor", 1.0, 1e6)
    if scaling_kind == "linear":
        return np.full(pair_count, factor, dtype=np.float32)
    low_factor = _float(scaling, "low_freq_factor", 1e-3, 1e6)
    high_factor = _float(scaling, "high_freq_factor", 1e-3, 1e6)
    if low_factor >= high_factor:
        raise SourceError("rope_scaling", "low_freq_factor of rope_scaling is not below high_freq_factor")
    context = _int(scaling, "original_max_position_embeddings", CONTEXT_MAX)
    wavelengths = 2 * math.pi * float(config["rope_theta"]) ** (np.arange(pair_count, dtype=np.float64) / pair_count)
    blend = np.clip((context / wavelengths - low_factor) / (high_factor - low_factor), 0, 1)
    return (1 / ((1 - blend) / factor + blend)).astype(np.float32)


def _llama(raw: RawConfig, name: str) -> dict[str, ConfigValue]:
    config = _sizes(raw) | {"rms_norm_eps": _float(raw, "rms_norm_eps", 1e-12, 1.0)}
    head_count, width = int(config["num_attention_heads"]), int(config["hidden_size"])
    group_count = _int(raw, "num_key_value_heads", head_count, default=head_count)
    if head_count % group_count:
        raise SourceError(
            "config", f"{head_count} attention heads do not divide into {group_count} groups of keys and values"
        )
    if raw.get("head_dim") is None and width % head_count:
        raise SourceError("config", f"hidden_size {width} does not divide into {head_count} heads")
    head_width = _int(raw, "head_dim", WIDTH_MAX, default=width // head_count)
    if head_width % 2:
        raise SourceError("config", f"head_dim {head_width} is odd, so it has no rotary pairs")
    _check_equal(raw, "hidden_act", "silu")
    _check_equal(raw, "partial_rotary_factor", 1)
    _check_equal(raw, "rope_interleaved", value=False)
    # Qwen2's configs state a window and switch it off by `use_sliding_window`.
    window_tokens = raw.get("sliding_window") if raw.get("use_sliding_window", True) else None
    if window_tokens is not None and _int(raw, "sliding_window", CONTEXT_MAX) < int(config["max_position_embeddings"]):
        raise SourceError(
            "sliding_window",
            f"the sliding window of {window_tokens} tokens is shorter than the context; models that attend to part of "
            "their context are not supported",
        )
    position_scaling = _rope(raw)
    # Qwen2 has biases of queries, keys and values without a statement in its config, and none of the output.
    attention_bias = _bool(raw, "attention_bias", name == "Qwen2ForCausalLM")
    return config | {
        "num_key_value_heads": group_count,
        "head_dim": head_width,
        "rope_theta": _float(
            raw if raw.get("rope_theta") is not None else position_scaling, "rope_theta", 1.0, 1e12, 10_000.0
        ),
        "rope_scaling": _rope_kind(position_scaling) != "default",
        "tie_word_embeddings": _bool(raw, "tie_word_embeddings", default=False),
        "attention_bias": attention_bias,
        "attention_output_bias": attention_bias and name != "Qwen2ForCausalLM",
        "mlp_bias": _bool(raw, "mlp_bias", default=False),
        "qk_norm": name == "Qwen3ForCausalLM",
    }


def _bert(raw: RawConfig) -> dict[str, ConfigValue]:
    _check_equal(raw, "hidden_act", "gelu")
    _check_equal(raw, "position_embedding_type", "absolute")
    _check_equal(raw, "is_decoder", value=False)
    config = _sizes(raw)
    if int(config["hidden_size"]) % int(config["num_attention_heads"]):
        raise SourceError("config", "hidden_size does not divide into the attention heads")
    return config | {
        "head_dim": int(config["hidden_size"]) // int(config["num_attention_heads"]),
        "type_vocab_size": _int(raw, "type_vocab_size", 1_024),
        "layer_norm_eps": _float(raw, "layer_norm_eps", 1e-14, 1.0),
    }


def _sizes(raw: RawConfig) -> dict[str, ConfigValue]:
    return {
        "hidden_size": _int(raw, "hidden_size", WIDTH_MAX),
        "num_hidden_layers": _int(raw, "num_hidden_layers", LAYERS_MAX),
        "num_attention_heads": _int(raw, "num_attention_heads", HEADS_MAX),
        "intermediate_size": _int(raw, "intermediate_size", WIDTH_MAX),
        "vocab_size": _int(raw, "vocab_size", VOCABULARY_MAX),
        "max_position_embeddings": _int(raw, "max_position_embeddings", CONTEXT_MAX),
    }


def _rope(raw: RawConfig) -> RawConfig:
    """Return the scaling of positions. Newer configs call it `rope_parameters`."""
    found = raw.get("rope_scaling")
    found = raw.get("rope_parameters") if found is None else found
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SourceError("rope_scaling", "rope_scaling of the config is not an object")
    return found


def _rope_kind(scaling: RawConfig) -> str:
    # Older configs call the key `type`.
    scaling_kind = scaling.get("rope_type", scaling.get("type", "default"))
    if not isinstance(scaling_kind, str) or scaling_kind not in {"default", "linear", "llama3"}:
        raise SourceError(
            "rope_scaling",
            f"unknown scaling of positions {str(scaling_kind)[:100]!r}; the known ones are linear and llama3",
        )
    return scaling_kind


def _llama_shapes(config: Mapping[str, ConfigValue]) -> Shapes:
    width, inner_width = int(config["hidden_size"]), int(config["intermediate_size"])
    vocabulary_rows = int(config["vocab_size"])
    head_width = int(config["head_dim"])
    query_width = int(config["num_attention_heads"]) * head_width
    key_width = int(config["num_key_value_heads"]) * head_width
    layer_shapes: Shapes = {
        "input_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (query_width, width),
        "self_attn.k_proj.weight": (key_width, width),
        "self_attn.v_proj.weight": (key_width, width),
        "self_attn.o_proj.weight": (width, query_width),
        "post_attention_layernorm.weight": (width,),
        "mlp.gate_proj.weight": (inner_width, width),
        "mlp.up_proj.weight": (inner_width, width),
        "mlp.down_proj.weight": (width, inner_width),
    }
    if config["attention_bias"]:
        sizes = {"q": query_width, "k": key_width, "v": key_width}
        layer_shapes |= {f"self_attn.{part}_proj.bias": (size,) for part, size in sizes.items()}
    if config["attention_output_bias"]:
        layer_shapes["self_attn.o_proj.bias"] = (width,)
    if config["mlp_bias"]:
        layer_shapes |= {
            f"mlp.{part}_proj.bias": (size,)
            for part, size in {"gate": inner_width, "up": inner_width, "down": width}.items()
        }
    if config["qk_norm"]:
        layer_shapes |= {"self_attn.q_norm.weight": (head_width,), "self_attn.k_norm.weight": (head_width,)}
    shapes: Shapes = {"model.embed_tokens.weight": (vocabulary_rows, width), "model.norm.weight": (width,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary_rows, width)
    if config["rope_scaling"]:
        shapes[FREQUENCY_FACTORS] = (head_width // 2,)
    return shapes | _in_layers("model.layers", layer_shapes, config)


def _bert_shapes(config: Mapping[str, ConfigValue]) -> Shapes:
    width, inner_width = int(config["hidden_size"]), int(config["intermediate_size"])
    layer_shapes: Shapes = {}
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        layer_shapes |= {f"{part}.weight": (width, width), f"{part}.bias": (width,)}
    for part in ("attention.output.LayerNorm", "output.LayerNorm"):
        layer_shapes |= {f"{part}.weight": (width,), f"{part}.bias": (width,)}
    layer_shapes |= {"intermediate.dense.weight": (inner_width, width), "intermediate.dense.bias": (inner_width,)}
    layer_shapes |= {"output.dense.weight": (width, inner_width), "output.dense.bias": (width,)}
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (int(config["vocab_size"]), width),
        "embeddings.position_embeddings.weight": (int(config["max_position_embeddings"]), width),
        "embeddings.token_type_embeddings.weight": (int(config["type_vocab_size"]), width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    return shapes | _in_layers("encoder.layer", layer_shapes, config)


def _in_layers(prefix: str, layer_shapes: Shapes, config: Mapping[str, ConfigValue]) -> Shapes:
    layer_count = int(config["num_hidden_layers"])
    return {
        f"{prefix}.{layer_index}.{name}": shape
        for layer_index in range(layer_count)
        for name, shape in layer_shapes.items()
    }


def _int(raw: RawConfig, key: str, most: int, default: int | None = None) -> int:
    value = raw.get(key)
    value = default if value is None else value
    # In Python `True` is an integer, so JSON's `true` would pass as the size 1.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SourceError("config", f"{key} of the config is {str(value)[:100]}, not an integer from 1 to {most}")
    return value


def _float(raw: RawConfig, key: str, least: float, most: float, default: float | None = None) -> float:
    value = raw.get(key)
    value = default if value is None else value
    # A GGUF file may hold NaN or infinity here. Both fail the comparison.
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise SourceError("config", f"{key} of the config is {str(value)[:100]}, not a number from {least} to {most}")
    return float(value)


def _bool(raw: RawConfig, key: str, default: bool) -> bool:
    value = raw.get(key)
    value = default if value is None else value
    if not isinstance(value, bool):
        raise SourceError("config", f"{key} of the config is {str(value)[:100]}, not true or false")
    return value


def _check_equal(raw: RawConfig, key: str, value: ConfigValue) -> None:
    """Raise SourceError for a value that this project does not compute. An absent key means the usual value."""
    if (found := raw.get(key)) is not None and found != value:
        raise SourceError("config", f"{key} of the config is {str(found)[:100]!r}; only {value!r} is supported")
