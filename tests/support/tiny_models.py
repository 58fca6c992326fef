"""Small models with random weights, written as their publishers would: by the libraries of the formats."""

import json
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from gpu_tasks.models.sources.configs import canonical_config, tensor_shapes

Floats = NDArray[np.float32]

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 262,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
BERT: dict[str, object] = {
    "architectures": ["BertModel"],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 262,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_proj": "attn_k",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GGUF_ARCHITECTURES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}


def random_tensors(raw: Mapping[str, object], seed: int = 1) -> dict[str, Floats]:
    """Return tensors for a config, near those of a real model in size."""
    chance = np.random.default_rng(seed)
    shapes = tensor_shapes(*canonical_config(raw))
    return {name: (chance.standard_normal(shape) * 0.2).astype(np.float32) for name, shape in shapes.items()}


def byte_tokens() -> list[str]:
    """Return the printable characters that stand for the bytes from 0 to 255 in byte-level BPE."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


def vocabulary() -> list[str]:
    return [*SPECIAL, *byte_tokens(), "th", "the", "Ġt"]


MERGES = ["t h", "th e", "Ġ t"]


def tokenizer_json() -> bytes:
    """Return a byte-level BPE tokenizer that splits digits."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": None,
        "added_tokens": [{"id": place, "content": token, **added} for place, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: place for place, token in enumerate(vocabulary())},
            "merges": MERGES,
        },
    }
    return json.dumps(tokenizer).encode()


def write_folder(
    folder: Path, raw: Mapping[str, object], tensors: Mapping[str, NDArray[np.generic]], *, shards: int = 1
) -> Path:
    """Write a model in Hugging Face's layout, in several files if wanted."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", raw)
    (folder / "tokenizer.json").write_bytes(tokenizer_json())
    write_json(folder / "tokenizer_config.json", {"chat_template": CHAT_TEMPLATE})
    write_json(
        folder / "generation_config.json", {"eos_token_id": [2, 0], "temperature": 0.5, "transformers_version": "5"}
    )
    (folder / "LICENSE").write_text("You may.\n")
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: mit\n")
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    places: dict[str, str] = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        save_file(part, folder / name)
        places |= dict.fromkeys(part, name)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": places})
    return folder


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def quantised(tensors: Mapping[str, Floats], kind: gguf.GGMLQuantizationType) -> dict[str, NDArray[np.generic]]:
    """Return matrices in a type of GGUF; vectors stay float32, as in published files."""
    return {
        name: np.asarray(gguf.quantize(tensor, kind)) if tensor.ndim == 2 else tensor
        for name, tensor in tensors.items()
    }


def dequantised(stored: Mapping[str, NDArray[np.generic]], kind: gguf.GGMLQuantizationType) -> dict[str, Floats]:
    return {
        name: np.asarray(gguf.dequantize(tensor, kind)) if tensor.ndim == 2 else tensor.astype(np.float32)
        for name, tensor in stored.items()
    }


def write_gguf(
    path: Path,
    raw: Mapping[str, object],
    stored: Mapping[str, NDArray[np.generic]],
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    changes: Mapping[str, object] | None = None,
) -> Path:
    """Write a model as llama.cpp's converter does. `changes` replace values of the metadata; None removes a value."""
    heads, groups = int(str(raw["num_attention_heads"])), int(str(raw["num_key_value_heads"]))
    changes = dict(changes or {})
    prefix = next(name for known, name in GGUF_ARCHITECTURES.items() if raw["architectures"] == [known])
    writer = gguf.GGUFWriter(path, str(changes.pop("architecture", prefix)))
    metadata: dict[str, object] = {
        "general.name": "Tiny",
        "general.license": "apache-2.0",
        f"{prefix}.vocab_size": raw["vocab_size"],
        f"{prefix}.context_length": raw["max_position_embeddings"],
        f"{prefix}.embedding_length": raw["hidden_size"],
        f"{prefix}.block_count": raw["num_hidden_layers"],
        f"{prefix}.feed_forward_length": raw["intermediate_size"],
        f"{prefix}.attention.head_count": heads,
        f"{prefix}.attention.head_count_kv": groups,
        f"{prefix}.attention.layer_norm_rms_epsilon": raw["rms_norm_eps"],
        f"{prefix}.rope.freq_base": raw["rope_theta"],
        f"{prefix}.attention.key_length": raw.get("head_dim"),
        f"{prefix}.attention.value_length": raw.get("head_dim"),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in vocabulary()],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    for key, value in (metadata | changes).items():
        add_value(writer, key, value)
    for name, tensor in stored.items():
        rows = heads if ".q_proj." in name else groups if ".k_proj." in name else 0
        data = paired(tensor, rows) if rows and prefix == "llama" else tensor
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(data), raw_dtype=kind if tensor.ndim == 2 else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_value(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)
        case _:
            assert value is None


def gguf_name(name: str) -> str:
    """Return llama.cpp's name of a tensor."""
    if name == "rope_freq_factors":
        return "rope_freqs.weight"
    part, _, kind = name.rpartition(".")
    if part.startswith("model.layers."):
        _, _, layer, part = part.split(".", 3)
        return f"blk.{layer}.{GGUF_NAMES.get(part, part)}.{kind}"
    return f"{GGUF_NAMES.get(part, part)}.{kind}"


def paired(tensor: NDArray[np.generic], heads: int) -> NDArray[np.generic]:
    """Return the rows of each head in llama.cpp's order: row i of the first half, then row i of the second."""
    head = len(tensor) // heads
    rows = [
        start + half * (head // 2) + pair
        for start in range(0, len(tensor), head)
        for pair in range(head // 2)
        for half in range(2)
    ]
    return tensor[rows]
