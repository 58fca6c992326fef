"""GGUF files as source models: the same model as the folder that it was made from, and each bad file refused."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from error_codes import raises_code
from gpu_tasks.models.sources.gguf_file import read_gguf
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.opened_file import OpenedFile
from gpu_tasks.models.sources.source_model import SourceError, StoredTensor, check_names
from gpu_tasks.models.text import Tokenizer
from tiny_models import (
    CHAT_TEMPLATE,
    LLAMA,
    dequantised,
    paired,
    quantised,
    random_tensors,
    vocabulary,
    write_folder,
    write_gguf,
)

QWEN2 = LLAMA | {"architectures": ["Qwen2ForCausalLM"]}
QWEN3 = LLAMA | {"architectures": ["Qwen3ForCausalLM"], "head_dim": 24}
LLAMA_3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
TEXTS = ("The capital of France is", "in 1984, the t", "<|im_start|>user\nZoë 🙂<|im_end|>", "", " \n\t ")


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1])
def test_file_and_folder_of_the_same_weights_are_equal(tmp_path: Path, kind: Kind) -> None:
    stored = quantised(random_tensors(LLAMA), kind)
    folder = open_source(write_folder(tmp_path / "folder", LLAMA, dequantised(stored, kind)))
    file = open_source(write_gguf(tmp_path / "Tiny-2L.Q4_1.gguf", LLAMA, stored, kind))
    assert file.architecture == folder.architecture == "llama"
    assert file.config == folder.config
    assert set(file.tensors) == set(folder.tensors)
    for name in folder.tensors:
        assert file.tensors[name].dtype == np.float32
        np.testing.assert_array_equal(file.tensors[name], folder.tensors[name], err_msg=name)


def test_rows_of_queries_and_keys_are_put_back(tmp_path: Path) -> None:
    """llama.cpp stores rotary pairs side by side. The wrong order often gives the same top token."""
    tensors = random_tensors(LLAMA)
    file = open_source(write_gguf(tmp_path / "m.gguf", LLAMA, tensors))
    stored = read_gguf(OpenedFile.of_path(tmp_path / "m.gguf")).tensors["blk.0.attn_q.weight"].read()
    name = "model.layers.0.self_attn.q_proj.weight"
    np.testing.assert_array_equal(stored, paired(tensors[name], 4))
    assert not np.array_equal(stored, tensors[name])
    np.testing.assert_array_equal(file.tensors[name], tensors[name])


def test_tokenizer_is_that_of_the_folder(tmp_path: Path) -> None:
    tensors = random_tensors(LLAMA)
    folder = Tokenizer(open_source(write_folder(tmp_path / "folder", LLAMA, tensors)).tokenizer)
    file = Tokenizer(open_source(write_gguf(tmp_path / "m.gguf", LLAMA, tensors)).tokenizer)
    for text in TEXTS:
        assert file.encode(text) == folder.encode(text)
        assert file.decode(file.encode(text)) == folder.decode(folder.encode(text))
    assert file.encode("12") == tuple(3 + ord(digit) for digit in "12")
    assert file.encode("the<|im_end|>") == (vocabulary().index("the"), 2)


def test_first_token_is_added_where_the_file_wants_it(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA), changes={"tokenizer.ggml.add_bos_token": True})
    tokenizer = Tokenizer(open_source(file).tokenizer)
    assert tokenizer.encode("the") == (1, vocabulary().index("the"))
    assert tokenizer.encode("the", add_special=False) == (vocabulary().index("the"),)


def test_the_rest_of_a_model_is_read(tmp_path: Path) -> None:
    model = open_source(write_gguf(tmp_path / "Tiny-2L-Instruct.Q8_0.gguf", LLAMA, random_tensors(LLAMA)))
    assert model.chat_template == CHAT_TEMPLATE
    assert model.generation == {"eos_token_id": [2], "bos_token_id": 1}
    assert (model.name, model.licence) == ("tiny-2l-instruct", "Apache-2.0")
    assert model.source == "file:Tiny-2L-Instruct.Q8_0.gguf"


def test_free_head_biases_and_scaled_positions(tmp_path: Path) -> None:
    raw = LLAMA | {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}
    raw |= {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    tensors = random_tensors(raw)
    file = open_source(write_gguf(tmp_path / "m.gguf", raw, tensors))
    assert file.config["attention_output_bias"] is True
    assert file.config["rope_scaling"] is True
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(file.tensors[name], tensor, err_msg=name)


@pytest.mark.parametrize(
    ("raw", "has_bias", "has_norm"),
    [(QWEN2, True, False), (QWEN3, False, True), (QWEN3 | {"tie_word_embeddings": False}, False, True)],
)
def test_qwen_is_that_of_the_folder(tmp_path: Path, raw: dict[str, object], has_bias: bool, has_norm: bool) -> None:
    """llama.cpp's converter leaves the rows of these architectures in Hugging Face's order."""
    tensors = random_tensors(raw)
    folder = open_source(write_folder(tmp_path / "folder", raw, tensors))
    file = open_source(write_gguf(tmp_path / "m.gguf", raw, tensors))
    assert (file.architecture, file.config) == (folder.architecture, folder.config)
    assert (file.config["attention_bias"], file.config["attention_output_bias"]) == (has_bias, False)
    assert file.config["qk_norm"] is has_norm
    assert set(file.tensors) == set(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(file.tensors[name], tensor, err_msg=name)


def test_scaled_positions_of_llama_3_are_those_of_the_folder(tmp_path: Path) -> None:
    raw = LLAMA | {"rope_scaling": LLAMA_3_SCALING}
    tensors = random_tensors(raw)
    del tensors["rope_freq_factors"]
    folder = open_source(write_folder(tmp_path / "folder", raw, tensors))
    factors = folder.tensors["rope_freq_factors"]
    assert (factors.min(), factors.max()) == (1, 8)
    file = open_source(write_gguf(tmp_path / "m.gguf", raw, tensors | {"rope_freq_factors": factors}))
    assert file.config == folder.config
    np.testing.assert_array_equal(file.tensors["rope_freq_factors"], factors)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"architecture": "mamba"}, "architecture"),
        ({"llama.expert_count": 8}, "architecture"),
        ({"llama.attention.head_count": 3}, "config"),
        ({"llama.attention.head_count_kv": 3}, "config"),
        ({"llama.block_count": 0}, "config"),
        ({"llama.block_count": 2**31}, "config"),
        ({"llama.block_count": "2"}, "config"),
        ({"llama.context_length": None}, "config"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "config"),
        ({"llama.rope.freq_base": float("inf")}, "config"),
        ({"llama.rope.dimension_count": 8}, "shape"),
        ({"llama.attention.key_length": 16, "llama.rope.dimension_count": 8}, "config"),
        ({"llama.attention.sliding_window": 16}, "sliding_window"),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}, "rope_scaling"),
        ({"llama.vocab_size": 261}, "shape"),
        ({"llama.feed_forward_length": 95}, "shape"),
        ({"llama.block_count": 3}, "missing_tensors"),
        ({"llama.block_count": 1}, "unexpected_tensors"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer"),  # it has no tokens for bytes
        ({"tokenizer.ggml.model": "t5"}, "tokenizer"),
        ({"tokenizer.ggml.pre": "qwen35"}, "tokenizer"),
        ({"tokenizer.ggml.pre": None}, "tokenizer"),
        ({"tokenizer.ggml.tokens": None}, "tokenizer"),
        ({"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]}, "tokenizer"),
        ({"tokenizer.ggml.token_type": [1]}, "tokenizer"),
        ({"tokenizer.ggml.token_type": [6] * 262}, "tokenizer"),
        ({"tokenizer.ggml.merges": ["z q"]}, "tokenizer"),
        ({"tokenizer.ggml.merges": ["t h e"]}, "tokenizer"),
        ({"tokenizer.ggml.tokens": [*vocabulary(), "more"], "tokenizer.ggml.token_type": [1] * 263}, "vocabulary"),
        ({"tokenizer.ggml.eos_token_id": 262}, "vocabulary"),
        ({"tokenizer.chat_template": "x" * 100_000}, "chat_template"),
        ({"tokenizer.chat_template": 7}, "config"),
        ({"general.alignment": 12}, "damaged"),
        ({"llama.expert_count": [1, 2]}, "architecture"),
        ({"llama.attention.head_count": [4, 4]}, "config"),
        ({"llama.attention.sliding_window": [1, 2]}, "config"),
        ({"llama.attention.value_length": [16, 16]}, "config"),
        ({"llama.rope.scaling.type": ["linear", "none"]}, "rope_scaling"),
        ({"tokenizer.ggml.model": ["gpt2", "gpt2"]}, "tokenizer"),
        ({"tokenizer.ggml.pre": ["smollm", "smollm"]}, "tokenizer"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "tokenizer"),
        ({"tokenizer.ggml.merges": "a b"}, "tokenizer"),
        ({"tokenizer.ggml.eos_token_id": [1, 2]}, "vocabulary"),
        ({"general.license": [1, 2]}, "config"),
    ],
)
def test_unfit_metadata_is_refused(tmp_path: Path, changes: dict[str, object], code: str) -> None:
    alignment = changes.pop("general.alignment", None)
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA), changes=changes)
    if alignment is not None:
        path.write_bytes(raw_gguf(metadata=[("general.alignment", 4, struct.pack("<I", alignment))]))
    with raises_code(SourceError, code):
        open_source(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_value_that_is_no_number_is_refused_when_its_tensor_is_read(tmp_path: Path, value: float) -> None:
    tensors = random_tensors(LLAMA)
    tensors["model.norm.weight"][5] = value
    model = open_source(write_gguf(tmp_path / "m.gguf", LLAMA, tensors))
    assert model.tensors["model.embed_tokens.weight"].shape == (262, 64)
    with raises_code(SourceError, "not_finite"):
        model.tensors["model.norm.weight"]


def test_scale_of_infinity_is_refused(tmp_path: Path) -> None:
    stored = quantised(random_tensors(LLAMA), Kind.Q8_0)
    stored["model.layers.1.mlp.up_proj.weight"][3, :2] = (0x00, 0x7C)  # the float16 infinity
    model = open_source(write_gguf(tmp_path / "m.gguf", LLAMA, stored, Kind.Q8_0))
    with raises_code(SourceError, "not_finite"):
        model.tensors["model.layers.1.mlp.up_proj.weight"]


@pytest.mark.parametrize("change", ["missing", "unexpected", "shape"])
def test_other_tensors_are_refused(tmp_path: Path, change: str) -> None:
    tensors = random_tensors(LLAMA)
    name = "model.layers.1.mlp.up_proj.weight"
    if change == "missing":
        del tensors[name]
    elif change == "unexpected":
        tensors["model.layers.1.attn_sinks.weight"] = np.zeros(4, dtype=np.float32)
    else:
        tensors[name] = tensors[name].T
    with raises_code(SourceError, {"shape": "shape"}.get(change, f"{change}_tensors")):
        open_source(write_gguf(tmp_path / "m.gguf", LLAMA, tensors))


def test_tensor_that_fits_no_memory_is_refused() -> None:
    """A sparse file may state any size."""
    shape = 2**16, 2**15 + 1
    with raises_code(SourceError, "too_large"):
        check_names({"a": StoredTensor(shape, pytest.fail)}, {"a": shape})


def test_part_of_a_model_is_refused(tmp_path: Path) -> None:
    with raises_code(SourceError, "shards"):
        open_source(write_gguf(tmp_path / "m-00001-of-00002.gguf", LLAMA, random_tensors(LLAMA)))


# ------------------------------------------------------------------------------------------------------- the container


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(name: str = "a", shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def raw_gguf(
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    metadata: list[tuple[str, int, bytes]] | None = None,
    tensors: list[bytes] | None = None,
    data: int = 4096,
    counts: tuple[int, int] | None = None,
) -> bytes:
    metadata, tensors = metadata or [], [entry()] if tensors is None else tensors
    head = magic + struct.pack("<I2Q", version, *(counts or (len(tensors), len(metadata))))
    head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in metadata) + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32) + b"\0" * data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "out_of_file"),
        (b"GGU", "out_of_file"),
        (raw_gguf(magic=b"GGML"), "format"),
        (raw_gguf(version=1), "format"),
        (raw_gguf(version=0x0300_0000), "format"),  # big-endian
        (raw_gguf(counts=(2**60, 0)), "too_large"),
        (raw_gguf(counts=(0, 2**60)), "too_large"),
        (raw_gguf(counts=(4_000, 0)), "shape"),
        (raw_gguf(metadata=[("k", 8, struct.pack("<Q", 2**62))]), "too_large"),
        (raw_gguf(metadata=[("k" * 300, 0, b"\0")]), "too_large"),
        (raw_gguf(metadata=[("k", 9, struct.pack("<IQ", 0, 2**62))]), "too_large"),
        (raw_gguf(metadata=[("k", 9, struct.pack("<IQ", 0, 2**20))]), "out_of_file"),
        (raw_gguf(metadata=[("k", 9, struct.pack("<IQ", 9, 1))]), "damaged"),
        (raw_gguf(metadata=[("k", 13, b"")]), "damaged"),
        (raw_gguf(metadata=[("k", 0, b"\0"), ("k", 0, b"\0")]), "duplicate"),
        (raw_gguf(metadata=[("k", 8, text(b"\xff"))]), "damaged"),
        (raw_gguf(tensors=[entry(), entry(offset=128)]), "duplicate"),
        (raw_gguf(tensors=[entry("a"), entry("b", offset=96)]), "overlap"),
        (raw_gguf(tensors=[entry(offset=16)]), "damaged"),
        (raw_gguf(tensors=[entry(offset=4096)]), "out_of_file"),
        (raw_gguf(tensors=[entry(offset=2**63)]), "out_of_file"),
        (raw_gguf(tensors=[entry(shape=(2**62, 2**62))]), "out_of_file"),
        (raw_gguf(tensors=[entry(shape=())]), "shape"),
        (raw_gguf(tensors=[entry(shape=(1,) * 5)]), "shape"),
        (raw_gguf(tensors=[entry(shape=(32, 0))]), "shape"),
        (raw_gguf(tensors=[entry(shape=(31,), kind=8)]), "shape"),
        (raw_gguf(tensors=[entry(kind=99)]), "type"),
        (raw_gguf(tensors=[entry(kind=24)]), "type"),  # I8
        (raw_gguf(tensors=[entry(kind=19, shape=(256,))]), "type"),  # IQ1_S
    ],
)
def test_damaged_container_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with raises_code(SourceError, code):
        read_gguf(OpenedFile.of_path(path))


def test_container_that_is_cut_short_after_opening(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_gguf())
    found = read_gguf(OpenedFile.of_path(path))
    path.write_bytes(b"")
    with raises_code(SourceError, "out_of_file"):
        found.tensors["a"].read()


@pytest.mark.parametrize("kind", [Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K, Kind.IQ4_NL, Kind.IQ4_XS])
def test_each_type_without_a_writer_is_read_by_the_library(tmp_path: Path, kind: Kind) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    stored = np.random.default_rng(3).integers(0, 60, (4, 256 // block * size), dtype=np.uint8)
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_gguf(tensors=[entry(shape=(256, 4), kind=kind.value)], data=0) + stored.tobytes())
    found = read_gguf(OpenedFile.of_path(path)).tensors["a"]
    assert found.shape == (4, 256)
    np.testing.assert_array_equal(found.read(), gguf.dequantize(stored, kind))
