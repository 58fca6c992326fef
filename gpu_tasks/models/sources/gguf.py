"""A GGUF file as a source model: llama.cpp's names and row order become Hugging Face's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from gpu_tasks.models.sources.configs import FREQUENCY_FACTORS, canonical_config, frequency_factors, tensor_shapes
from gpu_tasks.models.sources.gguf_file import read_gguf
from gpu_tasks.models.sources.gguf_tokenizer import special_token, tokenizer_json
from gpu_tasks.models.sources.opened_file import OpenedFile
from gpu_tasks.models.sources.origin import REVISION_MAX, SOURCE_MAX, ModelOrigin, licence_id, model_name, one_line
from gpu_tasks.models.sources.source_model import (
    ConfigValue,
    Floats,
    SourceError,
    SourceModel,
    StoredTensor,
    Tensors,
    check_names,
)
from gpu_tasks.models.sources.source_tokenizer import check_chat_template, check_tokenizer

QUANTISATION = re.compile(r"[-._](?:i?q\d\w*|bf16|f16|f32|fp16|fp32)$", re.IGNORECASE)
"""The end of a usual file name, as in `SmolLM2-135M-Instruct.Q4_1`."""
NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k": "self_attn.k_proj",
    "attn_k_norm": "self_attn.k_norm",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LAYER_TENSOR = re.compile(r"blk\.(0|[1-9][0-9]{0,5})\.(\w+)\.(weight|bias)")
MODEL_TENSOR = re.compile(r"(\w+)\.(weight|bias)")


class GgufArchitecture(NamedTuple):
    """A model family under its name in GGUF files."""

    hugging_face_class: str
    has_paired_rows: bool = False
    """Whether llama.cpp's converter puts the rows of rotary pairs side by side."""


ARCHITECTURES = {
    "llama": GgufArchitecture("LlamaForCausalLM", has_paired_rows=True),
    "qwen2": GgufArchitecture("Qwen2ForCausalLM"),
    "qwen3": GgufArchitecture("Qwen3ForCausalLM"),
}
"""By the name in GGUF files. The row orders are those of llama.cpp's convert_hf_to_gguf.py."""


def read_gguf_model(file: OpenedFile, origin: ModelOrigin) -> SourceModel:
    """Return the model in a file. Parts that the file states replace those of `origin`. Raise SourceError."""
    container = read_gguf(file)
    metadata = container.metadata
    stored = {_hugging_face_name(name): tensor for name, tensor in container.tensors.items()}
    family = _family(metadata)
    raw = _raw_config(metadata, stored, family)
    architecture, config = canonical_config(raw)
    if FREQUENCY_FACTORS not in stored and (factors := frequency_factors(raw, config)) is not None:
        stored[FREQUENCY_FACTORS] = StoredTensor(factors.shape, factors.copy)
    check_names(stored, tensor_shapes(architecture, config))
    rows = int(config["vocab_size"])
    tokenizer = tokenizer_json(metadata, rows)
    check_tokenizer(tokenizer, rows)
    licence = licence_id(_text(metadata, "general.license")) or origin.licence
    return SourceModel(
        architecture=architecture,
        config=config,
        tensors=Tensors(_unpermuted(stored, config) if family.has_paired_rows else stored),
        tokenizer=tokenizer,
        chat_template=check_chat_template(_text(metadata, "tokenizer.chat_template")),
        generation=_generation(metadata, rows),
        name=origin.name,
        licence=licence,
        licence_text=origin.text_for(licence),
        revision=one_line(_text(metadata, "general.version"), REVISION_MAX) or origin.revision,
        source=origin.source or one_line(_text(metadata, "general.source.url"), SOURCE_MAX),
    )


def name_of_file(stem: str) -> str:
    """Return the name of the model in a file: its own name without the quantisation."""
    return model_name(QUANTISATION.sub("", stem))


def _hugging_face_name(name: str) -> str:
    if name == "rope_freqs.weight":
        return FREQUENCY_FACTORS
    if (name_match := LAYER_TENSOR.fullmatch(name)) and name_match[2] in LAYER_NAMES:
        return f"model.layers.{name_match[1]}.{LAYER_NAMES[name_match[2]]}.{name_match[3]}"
    if (name_match := MODEL_TENSOR.fullmatch(name)) and name_match[1] in NAMES:
        return f"{NAMES[name_match[1]]}.{name_match[2]}"
    return name


def _family(metadata: Mapping[str, object]) -> GgufArchitecture:
    """Return the family of a model. Raise SourceError for an architecture without a translation."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise SourceError(
            "architecture",
            f"unknown architecture {str(architecture)[:100]!r}; the known ones of GGUF files are {known}",
        )
    return ARCHITECTURES[architecture]


def _raw_config(
    metadata: Mapping[str, object], stored: Mapping[str, StoredTensor], family: GgufArchitecture
) -> dict[str, object]:
    """Return the metadata as a `config.json`. Raise SourceError for a model outside of it."""
    prefix = f"{metadata['general.architecture']}."

    def value(key: str, default: object = None) -> object:
        return metadata.get(prefix + key, default)

    if value("expert_count"):
        raise SourceError("architecture", "the model is a mixture of experts, which is not supported")
    if "model.embed_tokens.weight" not in stored:
        raise SourceError("missing_tensors", "the model lacks token_embd.weight")
    rows = stored["model.embed_tokens.weight"].shape[0]
    raw: dict[str, object] = {
        "architectures": [family.hugging_face_class],
        "hidden_size": value("embedding_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": value("attention.head_count"),
        "num_key_value_heads": value("attention.head_count_kv"),
        "head_dim": value("attention.key_length", value("rope.dimension_count")),
        "intermediate_size": value("feed_forward_length"),
        "vocab_size": value("vocab_size", rows),
        "max_position_embeddings": value("context_length"),
        "rms_norm_eps": _shortest(value("attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(value("rope.freq_base")),
        "rope_scaling": _scaling(value("rope.scaling.type", "none"), value("rope.scaling.factor"), stored),
        "sliding_window": value("attention.sliding_window") or None,
        "tie_word_embeddings": "lm_head.weight" not in stored,
        "attention_bias": "model.layers.0.self_attn.q_proj.bias" in stored,
        "mlp_bias": "model.layers.0.mlp.gate_proj.bias" in stored,
    }
    for key in ("rope.dimension_count", "attention.value_length"):
        if value(key, raw["head_dim"]) != raw["head_dim"]:
            raise SourceError("config", f"{prefix}{key} differs from the width of a head, which is not supported")
    return raw


def _scaling(scaling_kind: object, factor: object, stored: Mapping[str, StoredTensor]) -> dict[str, object] | None:
    if scaling_kind == "none":
        # The writer of these files computes the factors of `llama3` and stores them as a tensor.
        return {"rope_type": "llama3"} if FREQUENCY_FACTORS in stored else None
    if FREQUENCY_FACTORS in stored:
        raise SourceError("rope_scaling", "the file holds two scalings of positions")
    return {"rope_type": scaling_kind, "factor": _shortest(factor)}


def _shortest(value: object) -> object:
    """Return the shortest decimal of a float32, which is the number that the author wrote."""
    # 1e-5 comes back from a float32 as 9.999999747378752e-06, which would give the model another config and id.
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _unpermuted(stored: Mapping[str, StoredTensor], config: Mapping[str, ConfigValue]) -> dict[str, StoredTensor]:
    """Undo the order of rows in which llama.cpp stores queries and keys: rotary pairs side by side."""
    # The wrong order often gives the same top token. Measured: ` Paris` at -0.327 instead of -0.258.
    in_order = dict(stored)
    for part, head_key in ((".q_proj.", "num_attention_heads"), (".k_proj.", "num_key_value_heads")):
        for name, tensor in stored.items():
            if part in name:
                in_order[name] = StoredTensor(tensor.shape, partial(_halves, tensor, int(config[head_key])))
    return in_order


def _halves(tensor: StoredTensor, heads: int) -> Floats:
    values = tensor.read()
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def _generation(metadata: Mapping[str, object], token_count: int) -> dict[str, object]:
    end_tokens = {special_token(metadata, name, token_count) for name in ("eos", "eot")} - {None}
    generation: dict[str, object] = {
        "eos_token_id": sorted(token_id for token_id in end_tokens if token_id is not None)
    }
    for name, key in (("bos", "bos_token_id"), ("padding", "pad_token_id")):
        if (token := special_token(metadata, name, token_count)) is not None:
            generation[key] = token
    return generation


def _text(metadata: Mapping[str, object], key: str) -> str:
    value = metadata.get(key, "")
    if not isinstance(value, str):
        raise SourceError("config", f"{key} of the metadata is not a text")
    return value
