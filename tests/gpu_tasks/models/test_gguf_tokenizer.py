"""The tokenizers of GGUF files give llama.cpp's token ids.

The ids in `vectors/llama_cpp_tokens.json` come from llama.cpp itself (xllamacpp 2026.10.11549, POST /tokenize with
`add_special` and `parse_special`), which read files of the same metadata.
"""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from error_codes import raises_code
from gpu_tasks.models.sources import gguf_tokenizer
from gpu_tasks.models.sources.gguf_tokenizer import PRE_TOKENIZERS
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.models.text import StreamDecoder, Tokenizer
from tiny_models import LLAMA, byte_tokens, random_tensors, write_gguf

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("vectors").joinpath("llama_cpp_tokens.json").read_text())
TEXTS: list[str] = VECTORS["texts"]
SPECIAL = ["<unk>", "<s>", "</s>"]
PIECES = [piece for piece, _ in VECTORS["pieces"]]
SCORES = [0.0] * 259 + [score for _, score in VECTORS["pieces"]]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def written(folder: Path, changes: dict[str, Any]) -> Path:
    raw = LLAMA | {"vocab_size": len(changes["tokenizer.ggml.tokens"])}
    return write_gguf(folder / "m.gguf", raw, random_tensors(raw), changes=changes)


def byte_level(folder: Path, pre_tokenizer: str) -> Tokenizer:
    merges = VECTORS["merges"]
    tokens = [*SPECIAL, *byte_tokens(), *dict.fromkeys(merge.replace(" ", "") for merge in merges)]
    changes = {
        "tokenizer.ggml.pre": pre_tokenizer,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3] + [1] * (len(tokens) - 3),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.add_bos_token": None,
    }
    return Tokenizer(open_source(written(folder, changes)).tokenizer)


def sentencepiece(folder: Path, pieces: list[str], **changes: object) -> Tokenizer:
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [*SPECIAL, *BYTES, *pieces],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces),
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(rank) for rank in range(len(pieces))],
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.add_bos_token": None,
    }
    metadata |= {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    return Tokenizer(open_source(written(folder, metadata)).tokenizer)


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
def test_byte_level_ids_are_those_of_llama_cpp(tmp_path: Path, pre_tokenizer: str) -> None:
    tokenizer = byte_level(tmp_path, pre_tokenizer)
    for text, expected in zip(TEXTS, VECTORS["byte_level"][pre_tokenizer], strict=True):
        assert list(tokenizer.encode(text)) == expected, text


def test_pre_tokenizers_differ() -> None:
    """Otherwise the texts would show nothing."""
    recorded = [json.dumps(VECTORS["byte_level"][name]) for name in PRE_TOKENIZERS]
    assert len(set(recorded)) == len(recorded) - 1, "those of Qwen differ in their treatment of uncomposed text alone"


def test_qwen_composes_characters_as_its_author_does(tmp_path: Path) -> None:
    uncomposed = unicodedata.normalize("NFD", "Zoë, naïve café")
    composed = unicodedata.normalize("NFC", uncomposed)
    qwen, distilled = byte_level(tmp_path, "qwen2"), byte_level(tmp_path, "deepseek-r1-qwen")
    assert qwen.encode(uncomposed) == qwen.encode(composed) == distilled.encode(composed)
    assert distilled.encode(uncomposed) != distilled.encode(composed)


@pytest.mark.parametrize(("name", "has_space"), [("with space", True), ("without space", False)])
def test_sentencepiece_ids_are_those_of_llama_cpp(tmp_path: Path, name: str, has_space: bool) -> None:
    tokenizer = sentencepiece(tmp_path, PIECES, scores=SCORES, add_space_prefix=has_space)
    for text, expected in zip(TEXTS, VECTORS["sentencepiece"][name], strict=True):
        assert list(tokenizer.encode(text)) == expected, text


def test_sentencepiece_text_comes_back(tmp_path: Path) -> None:
    tokenizer = sentencepiece(tmp_path, PIECES, scores=SCORES)
    for text in TEXTS:
        if "<s>" not in text and "</s>" not in text:
            ids = tokenizer.encode(text, add_special=False)
            decoder = StreamDecoder(tokenizer)
            assert tokenizer.decode(ids) == text
            assert "".join([*map(decoder.push, ids), decoder.finish()]) == text


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": None},
        {"scores": [0.0]},
        {"scores": [0] * 264},
        {"scores": [float("nan")] * 264},
        {"scores": [float("-inf")] * 264},
        {"scores": [0.0] * 264},  # "ab" and "bc" would merge in the order of the text
        {"token_type": [7] * 264},
        {"token_type": None},
        {"tokens": [*SPECIAL, *BYTES[:-1], "x", "a", "b", "c", "ab", "bc"]},
        {"tokens": [*SPECIAL, *BYTES, "a", "b", "b", "ab", "bc"]},
    ],
)
def test_unfit_pieces_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    pieces = ["a", "b", "c", "ab", "bc"]
    assert sentencepiece(tmp_path, pieces).decode((259, 263)) == "abc"
    with raises_code(SourceError, "tokenizer"):
        sentencepiece(tmp_path, pieces, **changes)


def test_many_and_long_pieces_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises_code(SourceError, "too_large"):
        sentencepiece(tmp_path, ["a" * 513])
    monkeypatch.setattr(gguf_tokenizer, "MERGES_MAX", 45)
    sentencepiece(tmp_path, ["a" * length for length in range(1, 11)])
    with raises_code(SourceError, "too_large"):
        sentencepiece(tmp_path, ["a" * length for length in range(1, 12)])
    monkeypatch.setattr(gguf_tokenizer, "MERGES_CHARACTERS_MAX", 1)
    with raises_code(SourceError, "too_large"):
        sentencepiece(tmp_path, ["a", "b", "ab"])
    monkeypatch.setattr(gguf_tokenizer, "VOCABULARY_CHARACTERS_MAX", 3)
    with raises_code(SourceError, "too_large"):
        sentencepiece(tmp_path, ["a", "b", "ab"])
