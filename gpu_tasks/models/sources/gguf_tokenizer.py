"""The tokenizer in a GGUF file's metadata, as a `tokenizer.json` of the library `tokenizers`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gpu_tasks.models.sources.gguf_file import Numbers
from gpu_tasks.models.sources.source_model import SourceError

SPLITS = {"smollm": {"type": "Digits", "individual_digits": True}}
"""Pre-tokenizers by llama.cpp's name: the step before the byte level. Its regular expression is that of GPT-2."""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def tokenizer_json(metadata: Mapping[str, object]) -> bytes:
    """Return the tokenizer. Raise SourceError for another kind than byte-level BPE with a known pre-tokenizer."""
    tokenizer_kind, pre_tokenizer = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if tokenizer_kind != "gpt2":
        raise SourceError(
            "tokenizer", f"unknown tokenizer {str(tokenizer_kind)[:100]!r}; the known one is gpt2 (byte-level BPE)"
        )
    # A wrong pre-tokenizer raises no error: it cuts words elsewhere, and the model answers worse.
    if pre_tokenizer not in SPLITS:
        known = ", ".join(SPLITS)
        raise SourceError(
            "tokenizer", f"unknown pre-tokenizer {str(pre_tokenizer)[:100]!r}; the known ones are {known}"
        )
    tokens, merges = _texts(metadata, "tokens"), _texts(metadata, "merges")
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise SourceError("tokenizer", "the vocabulary holds a token twice")
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": _added(tokens, _kinds(metadata, len(tokens))),
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLITS[str(pre_tokenizer)], BYTE_LEVEL]},
            "post_processor": _start_and_end(metadata, tokens),
            "decoder": BYTE_LEVEL,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocabulary,
                "merges": merges,
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()


def special_token(metadata: Mapping[str, object], name: str, count: int) -> int | None:
    """Return the id of a token with a purpose, such as `eos`, or None. Raise SourceError for an id out of range."""
    token_id = metadata.get(f"tokenizer.ggml.{name}_token_id")
    if token_id is None:
        return None
    if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id < count:
        raise SourceError("vocabulary", f"the {name} token {str(token_id)[:100]} is not in the vocabulary of {count}")
    return token_id


def _texts(metadata: Mapping[str, object], name: str) -> tuple[str, ...]:
    found = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, tuple):
        raise SourceError("tokenizer", f"the file holds no list of texts tokenizer.ggml.{name}")
    return found


def _kinds(metadata: Mapping[str, object], count: int) -> list[int]:
    found = metadata.get("tokenizer.ggml.token_type")
    if not isinstance(found, Numbers) or found.array.dtype.kind not in "iu" or len(found.array) != count:
        raise SourceError("tokenizer", "the file does not state the type of each token")
    kinds: list[int] = found.array.tolist()
    if unknown := {*kinds} - {NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED}:
        raise SourceError("tokenizer", f"the vocabulary of a byte-level BPE holds a token of the type {min(unknown)}")
    return kinds


def _added(tokens: tuple[str, ...], kinds: list[int]) -> list[dict[str, object]]:
    """Return the tokens that a text is searched for before all else, the special ones marked."""
    return [
        {
            "id": token_id,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind != USER_DEFINED,
        }
        for token_id, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in {UNKNOWN, CONTROL, USER_DEFINED}
    ]


def _start_and_end(metadata: Mapping[str, object], tokens: tuple[str, ...]) -> dict[str, object] | None:
    """Return the step that puts the first and the last token around a text, where the model wants them."""
    outer_tokens: dict[str, tuple[str, int]] = {}
    for name in ("bos", "eos"):
        token_id = special_token(metadata, name, len(tokens))
        if metadata.get(f"tokenizer.ggml.add_{name}_token") is True and token_id is not None:
            outer_tokens[name] = tokens[token_id], token_id
    if not outer_tokens:
        return None
    first, last = (
        [_step("SpecialToken", outer_tokens[name][0])] if name in outer_tokens else [] for name in ("bos", "eos")
    )
    return {
        "type": "TemplateProcessing",
        "single": [*first, _step("Sequence", "A"), *last],
        "pair": [*first, _step("Sequence", "A"), _step("Sequence", "B"), *last],
        "special_tokens": {
            text: {"id": text, "ids": [token_id], "tokens": [text]} for text, token_id in outer_tokens.values()
        },
    }


def _step(kind: str, name: str) -> dict[str, object]:
    return {kind: {"id": name, "type_id": 0}}
