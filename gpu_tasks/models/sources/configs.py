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
    kind = _rope_kind(scaling)
    if kind == "default":
        return None
    half = int(config["head_dim"]) // 2
    factor = _float(scaling, "factor", 1.0, 1e6)
    if kind == "linear":
        return np.full(half, factor, dtype=np.float32)
    low = _float(scaling, "low_freq_factor", 1e-3, 1e6)
    high = _float(scaling, "high_freq_factor", 1e-3, 1e6)
    if low >= high:
        raise SourceError("rope_scaling", "low_freq_factor of rope_scaling is not below high_freq_factor")
    context = _int(scaling, "original_max_position_embeddings", CONTEXT_MAX)
    waves = 2 * math.pi * float(config["rope_theta"]) ** (np.arange(half, dtype=np.float64) / half)
    blend = np.clip((context / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - blend) / factor + blend)).astype(np.float32)


def _llama(raw: RawConfig, name: str) -> dict[str, ConfigValue]:
    config = _sizes(raw) | {"rms_norm_eps": _float(raw, "rms_norm_eps", 1e-12, 1.0)}
    heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
    groups = _int(raw, "num_key_value_heads", heads, default=heads)
    if heads % groups:
        raise SourceError("config", f"{heads} attention heads do not divide into {groups} groups of keys and values")
    if raw.get("head_dim") is None and width % heads:
        raise SourceError("config", f"hidden_size {width} does not divide into {heads} heads")
    head = _int(raw, "head_dim", WIDTH_MAX, default=width // heads)
    if head % 2:
        raise SourceError("config", f"head_dim {head} is odd, so it has no rotary pairs")
    _check_equal(raw, "hidden_act", "silu")
    _check_equal(raw, "partial_rotary_factor", 1)
    _check_equal(raw, "rope_interleaved", value=False)
    window = raw.get("sliding_window") if raw.get("use_sliding_window", True) else None
    if window is not None and _int(raw, "sliding_window", CONTEXT_MAX) < int(config["max_position_embeddings"]):
        raise SourceError(
            "sliding_window",
            f"the sliding window of {window} tokens is shorter than the context; models that attend to a part of their "
            "context are not supported",
        )
    rope = _rope(raw)
    bias = _bool(raw, "attention_bias", name == "Qwen2ForCausalLM")
    return config | {
        "num_key_value_heads": groups,
        "head_dim": head,
        "rope_theta": _float(raw if raw.get("rope_theta") is not None else rope, "rope_theta", 1.0, 1e12, 10_000.0),
        "rope_scaling": _rope_kind(rope) != "default",
        "tie_word_embeddings": _bool(raw, "tie_word_embeddings", default=False),
        "attention_bias": bias,
        "attention_output_bias": bias and name != "Qwen2ForCausalLM",
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
    """Return the scaling of positions, of which newer configs hold a part called `rope_parameters`."""
    found = raw.get("rope_scaling")
    found = raw.get("rope_parameters") if found is None else found
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SourceError("rope_scaling", "rope_scaling of the config is not an object")
    return found


def _rope_kind(scaling: RawConfig) -> str:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if not isinstance(kind, str) or kind not in {"default", "linear", "llama3"}:
        raise SourceError(
            "rope_scaling", f"unknown scaling of positions {str(kind)[:100]!r}; the known ones are linear and llama3"
        )
    return kind


def _llama_shapes(config: Mapping[str, ConfigValue]) -> Shapes:
    width, inner, rows = (int(config[key]) for key in ("hidden_size", "intermediate_size", "vocab_size"))
    head = int(config["head_dim"])
    queries, keys = int(config["num_attention_heads"]) * head, int(config["num_key_value_heads"]) * head
    layer: Shapes = {
        "input_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (queries, width),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.o_proj.weight": (width, queries),
        "post_attention_layernorm.weight": (width,),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }
    if config["attention_bias"]:
        sizes = {"q": queries, "k": keys, "v": keys}
        layer |= {f"self_attn.{part}_proj.bias": (size,) for part, size in sizes.items()}
    if config["attention_output_bias"]:
        layer["self_attn.o_proj.bias"] = (width,)
    if config["mlp_bias"]:
        layer |= {
            f"mlp.{part}_proj.bias": (size,) for part, size in {"gate": inner, "up": inner, "down": width}.items()
        }
    if config["qk_norm"]:
        layer |= {"self_attn.q_norm.weight": (head,), "self_attn.k_norm.weight": (head,)}
    shapes: Shapes = {"model.embed_tokens.weight": (rows, width), "model.norm.weight": (width,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (rows, width)
    if config["rope_scaling"]:
        shapes[FREQUENCY_FACTORS] = (head // 2,)
    return shapes | _in_layers("model.layers", layer, config)


def _bert_shapes(config: Mapping[str, ConfigValue]) -> Shapes:
    width, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    layer: Shapes = {}
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        layer |= {f"{part}.weight": (width, width), f"{part}.bias": (width,)}
    for part in ("attention.output.LayerNorm", "output.LayerNorm"):
        layer |= {f"{part}.weight": (width,), f"{part}.bias": (width,)}
    layer |= {"intermediate.dense.weight": (inner, width), "intermediate.dense.bias": (inner,)}
    layer |= {"output.dense.weight": (width, inner), "output.dense.bias": (width,)}
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (int(config["vocab_size"]), width),
        "embeddings.position_embeddings.weight": (int(config["max_position_embeddings"]), width),
        "embeddings.token_type_embeddings.weight": (int(config["type_vocab_size"]), width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    return shapes | _in_layers("encoder.layer", layer, config)


def _in_layers(prefix: str, layer: Shapes, config: Mapping[str, ConfigValue]) -> Shapes:
    count = int(config["num_hidden_layers"])
    return {f"{prefix}.{place}.{name}": shape for place in range(count) for name, shape in layer.items()}


def _int(raw: RawConfig, key: str, most: int, default: int | None = None) -> int:
    value = raw.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SourceError("config", f"{key} of the config is {str(value)[:100]}, not an integer from 1 to {most}")
    return value


def _float(raw: RawConfig, key: str, least: float, most: float, default: float | None = None) -> float:
    value = raw.get(key)
    value = default if value is None else value
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
