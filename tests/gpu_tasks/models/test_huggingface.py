"""Folders in Hugging Face's layout as source models, and each bad folder refused."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from error_codes import raises_code
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.models.text import Tokenizer
from tiny_models import BERT, CHAT_TEMPLATE, LLAMA, random_tensors, tokenizer_json, vocabulary, write_folder, write_json

QWEN2 = LLAMA | {
    "architectures": ["Qwen2ForCausalLM"],
    "use_sliding_window": False,
    "sliding_window": 64,
    "tie_word_embeddings": False,
}
QWEN3 = LLAMA | {"architectures": ["Qwen3ForCausalLM"], "head_dim": 32, "sliding_window": None}
MISTRAL = LLAMA | {"architectures": ["MistralForCausalLM"], "sliding_window": 128}
LLAMA3 = LLAMA | {
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
}


def stored_tensors(raw: dict[str, object]) -> dict[str, np.ndarray]:
    """Return random tensors as the publisher stores them: factors of positions stand in the config."""
    tensors = random_tensors(raw)
    tensors.pop("rope_freq_factors", None)
    return tensors


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("raw", [LLAMA, MISTRAL, QWEN2, QWEN3, LLAMA3, BERT], ids=lambda raw: raw["architectures"][0])
def test_tensors_of_each_architecture(tmp_path: Path, raw: dict[str, object], shards: int) -> None:
    tensors = stored_tensors(raw)
    model = open_source(write_folder(tmp_path / "Tiny_Model", raw, tensors, shards=shards))
    assert set(tensors) == set(model.tensors) - {"rope_freq_factors"}
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(model.tensors[name], tensor, err_msg=name)


def test_config_of_llama(tmp_path: Path) -> None:
    model = open_source(write_folder(tmp_path / "Tiny_Model", LLAMA, stored_tensors(LLAMA)))
    assert model.architecture == "llama"
    assert model.config == {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "vocab_size": 262,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "rope_scaling": False,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "attention_output_bias": False,
        "mlp_bias": False,
        "qk_norm": False,
    }
    assert model.generation == {"eos_token_id": [0, 2], "bos_token_id": 1, "temperature": 0.5}
    assert (model.name, model.licence, model.licence_text) == ("tiny_model", "Apache-2.0", "You may.\n")
    assert (model.chat_template, model.source, model.revision) == (CHAT_TEMPLATE, "file:Tiny_Model", "")
    # The file's own limit of four tokens is for its author's purpose.
    assert len(Tokenizer(model.tokenizer).encode("the the the the the")) == 9


def test_a_model_of_bytes_needs_no_tokenizer(tmp_path: Path) -> None:
    raw = {**LLAMA, "vocab_size": 257, "eos_token_id": 256}
    folder = write_folder(tmp_path / "m", raw, stored_tensors(raw))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).unlink()
    model = open_source(folder)
    assert (model.tokenizer, model.generation["eos_token_id"]) == (b"", [256])
    for changes in ({"eos_token_id": 0}, {"vocab_size": 262}):
        other = {**raw, **changes}
        write_folder(folder, other, stored_tensors(other))
        for name in ("tokenizer.json", "generation_config.json"):
            (folder / name).unlink()
        with raises_code(SourceError, "tokenizer"):
            open_source(folder)


def test_differences_of_the_architectures(tmp_path: Path) -> None:
    qwen2 = open_source(write_folder(tmp_path / "qwen2", QWEN2, stored_tensors(QWEN2))).config
    assert (qwen2["attention_bias"], qwen2["attention_output_bias"], qwen2["qk_norm"]) == (True, False, False)
    qwen3 = open_source(write_folder(tmp_path / "qwen3", QWEN3, stored_tensors(QWEN3))).config
    assert (qwen3["attention_bias"], qwen3["qk_norm"], qwen3["head_dim"]) == (False, True, 32)
    bert = open_source(write_folder(tmp_path / "bert", BERT, stored_tensors(BERT)))
    assert (bert.architecture, bert.config["head_dim"], bert.config["type_vocab_size"]) == ("bert", 8, 2)


def test_factors_of_scaled_positions(tmp_path: Path) -> None:
    """Long waves are divided by the factor, short ones stay, and those between lie between."""
    factors = open_source(write_folder(tmp_path / "m", LLAMA3, stored_tensors(LLAMA3))).tensors["rope_freq_factors"]
    assert factors.shape == (8,)
    waves = 2 * np.pi * 10_000.0 ** (np.arange(8) / 8)
    assert (factors[waves < 16] == 1).all()
    assert (factors[waves > 64] == 8).all()
    between = factors[(waves > 16) & (waves < 64)]
    assert len(between)
    assert ((between > 1) & (between < 8)).all()


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_types_of_values(tmp_path: Path, kind: str) -> None:
    tensors = stored_tensors(LLAMA)
    folder = write_folder(tmp_path / "m", LLAMA, tensors)
    upper = {name: (tensor.view(np.uint32) >> 16).astype(np.uint16) for name, tensor in tensors.items()}
    if kind == "F16":
        save_file({name: tensor.astype(np.float16) for name, tensor in tensors.items()}, folder / "model.safetensors")
    elif kind == "BF16":
        save_file(upper, folder / "model.safetensors")
        rename_in_header(folder / "model.safetensors", b'"U16"', b'"BF16"')
    model = open_source(folder)
    for name, tensor in tensors.items():
        expected = {
            "F32": tensor,
            "F16": tensor.astype(np.float16).astype(np.float32),
            "BF16": (upper[name].astype(np.uint32) << 16).view(np.float32),
        }[kind]
        np.testing.assert_array_equal(model.tensors[name], expected, err_msg=name)


def rename_in_header(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(old, new)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])


def test_tensors_without_a_part_in_the_result_are_left_out(tmp_path: Path) -> None:
    tensors = stored_tensors(LLAMA)
    unused = {"lm_head.weight": tensors["model.embed_tokens.weight"].copy()}
    unused["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(8, dtype=np.float32)
    model = open_source(write_folder(tmp_path / "llama", LLAMA, tensors | unused))
    assert set(model.tensors) == set(tensors)
    bert = stored_tensors(BERT)
    named = {f"bert.{name}": tensor for name, tensor in bert.items()}
    named["bert.embeddings.position_ids"] = np.arange(64)[None]
    named["bert.pooler.dense.weight"] = np.zeros((32, 32), dtype=np.float32)
    model = open_source(write_folder(tmp_path / "bert", BERT, named))
    assert set(model.tensors) == set(bert)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "architecture"),
        ({"architectures": []}, "architecture"),
        ({"architectures": None}, "architecture"),
        ({"architectures": [["LlamaForCausalLM"]]}, "architecture"),
        ({"quantization_config": {"quant_method": "gptq"}}, "type"),
        ({"hidden_size": "64"}, "config"),
        ({"hidden_size": True}, "config"),
        ({"hidden_size": -64}, "config"),
        ({"hidden_size": 10**400}, "config"),
        ({"hidden_size": 128}, "shape"),
        ({"num_attention_heads": 3}, "config"),
        ({"num_key_value_heads": 3}, "config"),
        ({"head_dim": 15}, "config"),
        ({"num_hidden_layers": 3}, "missing_tensors"),
        ({"num_hidden_layers": 1}, "unexpected_tensors"),
        ({"num_hidden_layers": 10**9}, "config"),
        ({"tie_word_embeddings": False}, "missing_tensors"),
        ({"tie_word_embeddings": "no"}, "config"),
        ({"attention_bias": True}, "missing_tensors"),
        ({"hidden_act": "relu"}, "config"),
        ({"partial_rotary_factor": 0.5}, "config"),
        ({"rms_norm_eps": 0}, "config"),
        ({"rms_norm_eps": None}, "config"),
        ({"rope_theta": 10**400}, "config"),
        ({"sliding_window": 64}, "sliding_window"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ({"rope_scaling": {"rope_type": ["linear"]}}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear"}}, "config"),
        ({"rope_scaling": "linear"}, "rope_scaling"),
        ({"vocab_size": 261}, "shape"),
        ({"eos_token_id": 262, "architectures": ["LlamaForCausalLM"]}, ""),
        ({"pad_token_id": 262}, "vocabulary"),
        ({"pad_token_id": -1}, "vocabulary"),
        ({"pad_token_id": "0"}, "vocabulary"),
    ],
)
def test_unfit_config_is_refused(tmp_path: Path, changes: dict[str, object], code: str) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, stored_tensors(LLAMA))
    write_json(folder / "config.json", LLAMA | changes)
    if not code:  # generation_config.json replaces the value
        assert open_source(folder).generation["eos_token_id"] == [0, 2]
        return
    with raises_code(SourceError, code):
        open_source(folder)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("config.json", "[]", "damaged"),
        ("config.json", "{", "damaged"),
        ("config.json", "[" * 100_000, "damaged"),
        ("config.json", '{"a": NaN}', "damaged"),
        ("config.json", '{"a": 1, "a": 2}', "duplicate"),
        ("config.json", " " * 2_000_000, "too_large"),
        ("model.safetensors.index.json", f'{{"weight_map": [{"[]," * 2**21}[]]}}', "too_large"),
        ("tokenizer.json", "{}", "tokenizer"),
        ("tokenizer.json", None, "tokenizer"),
        ("tokenizer_config.json", '{"chat_template": 7}', "chat_template"),
        ("chat_template.jinja", "x" * 100_000, "chat_template"),
        ("generation_config.json", '{"eos_token_id": [2, 999]}', "vocabulary"),
        ("model.safetensors", None, "shards"),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true}', "pooling"),
        ("1_Pooling/config.json", '{"pooling_mode": "cls"}', "pooling"),
    ],
)
def test_unfit_file_is_refused(tmp_path: Path, name: str, content: str | None, code: str) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, stored_tensors(LLAMA))
    (folder / name).parent.mkdir(exist_ok=True)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with raises_code(SourceError, code):
        open_source(folder)


def test_vocabulary_larger_than_the_table_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, stored_tensors(LLAMA))
    tokenizer = json.loads(tokenizer_json())
    tokenizer["model"]["vocab"]["more"] = len(vocabulary())
    write_json(folder / "tokenizer.json", tokenizer)
    with raises_code(SourceError, "vocabulary"):
        open_source(folder)


def test_template_of_several_by_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, stored_tensors(LLAMA))
    named = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]
    write_json(folder / "tokenizer_config.json", {"chat_template": named})
    assert open_source(folder).chat_template == "b"
    (folder / "chat_template.jinja").write_text("c")
    assert open_source(folder).chat_template == "c"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("missing shard", "shards"),
        ("missing index", "shards"),
        ("map", "damaged"),
        ("leads out", "path"),
        ("pickle", "path"),
        ("twice", "duplicate"),
    ],
)
def test_unfit_shards_are_refused(tmp_path: Path, change: str, code: str) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, stored_tensors(LLAMA), shards=3)
    index, first = folder / "model.safetensors.index.json", "model-00001-of-00003.safetensors"
    places = json.loads(index.read_text())["weight_map"]
    if change == "missing shard":
        (folder / first).unlink()
    elif change == "missing index":
        index.unlink()
    elif change == "map":
        write_json(index, {"weight_map": {"a": 1}})
    elif change == "twice":
        (folder / "model-00002-of-00003.safetensors").write_bytes((folder / first).read_bytes())
    else:
        write_json(index, {"weight_map": places | {"a": "../a.safetensors" if change == "leads out" else "a.bin"}})
    with raises_code(SourceError, code):
        open_source(folder)


def header(entries: object, data: int = 4_096) -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * data


def tensor(start: int, end: int, shape: object = None, kind: object = "F32") -> dict[str, object]:
    return {"dtype": kind, "shape": [(end - start) // 4] if shape is None else shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "format"),
        (b"\0" * 7, "format"),
        (struct.pack("<Q", 2**63), "format"),
        (struct.pack("<Q", 2**24 + 1), "format"),
        (struct.pack("<Q", 100), "out_of_file"),
        (header([]), "damaged"),
        (header(b"\xff"), "damaged"),
        (header(b'{"a": {"dtype": "F32"}, "a": {}}'), "duplicate"),
        (header({"a": 7}), "damaged"),
        (header({"a": tensor(0, 8) | {"data_offsets": [8, 0]}}), "damaged"),
        (header({"a": tensor(0, 8) | {"data_offsets": [-8, 0]}}), "damaged"),
        (header({"a": tensor(0, 8, shape=[-2])}), "damaged"),
        (header({"a": tensor(0, 8, shape=[True, 2])}), "damaged"),
        (header({"a": tensor(0, 8, shape=[1] * 20)}), "damaged"),
        (header({"a": tensor(0, 8, shape=[3])}), "shape"),
        (header({"a": tensor(0, 8, shape=[2**40, 2**40])}), "shape"),
        (header({"a": tensor(0, 8, kind="I8", shape=[8])}), "type"),
        (header({"a": tensor(0, 8, kind="F64", shape=[1])}), "type"),
        (header({"a": tensor(0, 8, kind=4)}), "damaged"),
        (header({"a": tensor(4_096, 4_104)}), "out_of_file"),
        (header({"a": tensor(0, 2**62)}), "out_of_file"),
        (header({"a": tensor(0, 16), "b": tensor(8, 24)}), "overlap"),
        (header({"a": tensor(0, 16)}), "missing_tensors"),
    ],
)
def test_damaged_safetensors_are_refused(tmp_path: Path, data: bytes, code: str) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, stored_tensors(LLAMA))
    (folder / "model.safetensors").write_bytes(data)
    with raises_code(SourceError, code):
        open_source(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_value_that_is_no_number_is_refused_when_its_tensor_is_read(tmp_path: Path, value: float) -> None:
    tensors = stored_tensors(LLAMA)
    tensors["model.norm.weight"][5] = value
    model = open_source(write_folder(tmp_path / "m", LLAMA, tensors))
    with raises_code(SourceError, "not_finite"):
        model.tensors["model.norm.weight"]
