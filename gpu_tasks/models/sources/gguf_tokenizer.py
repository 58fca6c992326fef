"""The tokenizer in a GGUF file's metadata, as a `tokenizer.json` of the library `tokenizers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from gpu_tasks.models.sources.gguf_file import Numbers
from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.models.tokenizer_checks import LLAMA_3, LLAMA_CPP_DEFAULT, QWEN_2

Step: TypeAlias = dict[str, object]
"""A step of a `tokenizer.json`."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""SentencePiece's character for a space."""
PIECE_CHARACTERS_MAX = 512
"""SentencePiece's own trainer makes pieces of up to 16 characters."""
VOCABULARY_CHARACTERS_MAX = 2**23
"""Each place in a piece is tried for a merge. Vocabularies of 256,000 pieces have about 2**21 characters."""
MERGES_MAX = 2**20
MERGES_CHARACTERS_MAX = 2**24
"""Of pieces with scores. Vocabularies of 256,000 pieces have about 600,000 merges of 8 characters."""
BYTE_LEVEL: Step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ALONE = BYTE_LEVEL | {"use_regex": False}
DIGITS: Step = {"type": "Digits", "individual_digits": True}
NFC: Step = {"type": "NFC"}


def _splits(*patterns: str) -> tuple[Step, ...]:
    return tuple(
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in patterns
    )


class PreTokenizer(NamedTuple):
    """The properties that a GGUF file states by one name."""

    steps: tuple[Step, ...]
    """They cut a text into words. The last one maps bytes to characters."""
    normalizer: Step | None = None
    ignores_merges: bool = False
    """Whether a word that is a token takes that token without merging."""
    adds_first_token: bool = False
    """Whether the first token is added where the file does not state it."""


PRE_TOKENIZERS = {
    "smollm": PreTokenizer((DIGITS, BYTE_LEVEL)),
    "gpt-2": PreTokenizer((BYTE_LEVEL,)),
    "default": PreTokenizer((*_splits(*LLAMA_CPP_DEFAULT), BYTES_ALONE)),
    "llama-bpe": PreTokenizer((*_splits(LLAMA_3), BYTES_ALONE), ignores_merges=True, adds_first_token=True),
    # llama.cpp composes no characters. Qwen's own tokenizer does, and its models are trained on composed text.
    "qwen2": PreTokenizer((*_splits(QWEN_2), BYTES_ALONE), normalizer=NFC),
    "deepseek-r1-qwen": PreTokenizer((*_splits(QWEN_2), BYTES_ALONE)),
}
"""By llama.cpp's name. The expressions and flags are those of llama.cpp's llama-vocab.cpp."""


def tokenizer_json(metadata: Mapping[str, object], rows: int) -> bytes:
    """Return the tokenizer of a model with a number of rows in its embedding table.

    Raise SourceError for an unknown kind, an unknown pre-tokenizer, and a damaged or too large vocabulary.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if not isinstance(kind, str) or kind not in _BY_KIND:
        known = ", ".join(_BY_KIND)
        raise SourceError("tokenizer", f"unknown tokenizer {str(kind)[:100]!r}; the known ones are {known}")
    tokens = _texts(metadata, "tokens")
    # A prompt with a token beyond the table would fail on every provider.
    if len(tokens) > rows:
        raise SourceError("vocabulary", f"the tokenizer has {len(tokens)} tokens, but the embedding table {rows} rows")
    if len(set(tokens)) != len(tokens):
        raise SourceError("tokenizer", "the vocabulary holds a token twice")
    parts = _BY_KIND[kind](metadata, tokens)
    tokenizer = {"version": "1.0", "truncation": None, "padding": None} | parts
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()


def _byte_level_bpe(metadata: Mapping[str, object], tokens: tuple[str, ...]) -> Step:
    """Return the parts of a tokenizer whose tokens are bytes, and that states its merges."""
    name = metadata.get("tokenizer.ggml.pre")
    # A wrong pre-tokenizer raises no error: it cuts words elsewhere, and the model answers worse.
    if not isinstance(name, str) or name not in PRE_TOKENIZERS:
        known = ", ".join(PRE_TOKENIZERS)
        raise SourceError("tokenizer", f"unknown pre-tokenizer {str(name)[:100]!r}; the known ones are {known}")
    pre_tokenizer = PRE_TOKENIZERS[name]
    return {
        "added_tokens": _added(tokens, _kinds(metadata, len(tokens))),
        "normalizer": pre_tokenizer.normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizer.steps},
        "post_processor": _start_and_end(metadata, tokens, is_first_added=pre_tokenizer.adds_first_token),
        "decoder": BYTE_LEVEL,
        "model": _bpe(tokens, _texts(metadata, "merges")) | {"ignore_merges": pre_tokenizer.ignores_merges},
    }


def _sentencepiece(metadata: Mapping[str, object], tokens: tuple[str, ...]) -> Step:
    """Return the parts of a tokenizer whose tokens are texts with scores, and whose unknown characters become bytes."""
    kinds = _kinds(metadata, len(tokens), BYTE)
    stated = metadata.get("tokenizer.ggml.add_space_prefix", True)
    first_space: list[Step] = [{"type": "Prepend", "prepend": SPACE}] if stated is True else []
    lost_space: list[Step] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if stated is True else []
    missing = {f"<0x{byte:02X}>" for byte in range(256)} - set(tokens)
    if missing:
        raise SourceError("tokenizer", f"the vocabulary lacks the token {min(missing)} of a byte")
    return {
        "added_tokens": _added(tokens, kinds),
        "normalizer": {"type": "Sequence", "normalizers": [*first_space, _replace(" ", SPACE)]},
        "pre_tokenizer": None,
        "post_processor": _start_and_end(metadata, tokens, is_first_added=True),
        "decoder": {
            "type": "Sequence",
            "decoders": [_replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *lost_space],
        },
        "model": _bpe(tokens, _merges_by_score(metadata, tokens, kinds)) | {"byte_fallback": True},
    }


_BY_KIND: Mapping[str, Callable[[Mapping[str, object], tuple[str, ...]], Step]] = {
    "gpt2": _byte_level_bpe,
    "llama": _sentencepiece,
}
"""By llama.cpp's name of the kind."""


def _bpe(tokens: tuple[str, ...], merges: Sequence[str] | Sequence[tuple[str, str]]) -> Step:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: token_id for token_id, token in enumerate(tokens)},
        "merges": merges,
    }


def _replace(pattern: str, content: str) -> Step:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def _merges_by_score(
    metadata: Mapping[str, object], tokens: tuple[str, ...], kinds: list[int]
) -> list[tuple[str, str]]:
    """Return the merges of two pieces that give a third, the best score first. Raise SourceError for equal scores.

    llama.cpp merges the two neighbours whose union has the greatest score. The library has no scores, but ranks.
    """
    scores: list[float] = _numbers(metadata, "scores", len(tokens), "f").tolist()
    normal = {token for token, kind in zip(tokens, kinds, strict=True) if kind == NORMAL}
    longest = max(map(len, normal), default=0)
    if longest > PIECE_CHARACTERS_MAX or sum(map(len, normal)) > VOCABULARY_CHARACTERS_MAX:
        raise SourceError(
            "too_large",
            f"the vocabulary has pieces of up to {longest} characters, {sum(map(len, normal))} in all; at most "
            f"{PIECE_CHARACTERS_MAX} and {VOCABULARY_CHARACTERS_MAX} are read",
        )
    ranked: list[tuple[float, int, str]] = []
    owners: dict[float, str] = {}
    characters = 0
    for token, score in zip(tokens, scores, strict=True):
        cuts = range(1, len(token)) if token in normal else ()
        found = [(-score, -cut, token) for cut in cuts if token[:cut] in normal and token[cut:] in normal]
        # Two pieces of one score would merge in the order of the text, which no ranks express. NaN equals no number.
        if found and (not isfinite(score) or owners.setdefault(score, token) != token):
            raise SourceError("tokenizer", f"the piece {token[:100]!r} has the score {score}, which ranks it nowhere")
        ranked += found
        characters += len(found) * len(token)
        if len(ranked) > MERGES_MAX or characters > MERGES_CHARACTERS_MAX:
            raise SourceError(
                "too_large",
                f"the vocabulary has more than {MERGES_MAX} merges, or their texts more than {MERGES_CHARACTERS_MAX} "
                "characters",
            )
    return [(token[:-cut], token[-cut:]) for _, cut, token in sorted(ranked)]


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


def _numbers(metadata: Mapping[str, object], name: str, count: int, dtype_kinds: str) -> NDArray[Any]:
    found = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, Numbers) or found.array.dtype.kind not in dtype_kinds or len(found.array) != count:
        raise SourceError("tokenizer", f"the file holds no {count} numbers tokenizer.ggml.{name}, one for each token")
    return found.array


def _kinds(metadata: Mapping[str, object], count: int, *more_kinds: int) -> list[int]:
    kinds: list[int] = _numbers(metadata, "token_type", count, "iu").tolist()
    if unknown := {*kinds} - {NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, *more_kinds}:
        raise SourceError("tokenizer", f"this kind of tokenizer has no tokens of the type {min(unknown)}")
    return kinds


def _added(tokens: tuple[str, ...], kinds: list[int]) -> list[Step]:
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


def _start_and_end(metadata: Mapping[str, object], tokens: tuple[str, ...], *, is_first_added: bool) -> Step | None:
    """Return the step that puts the first and the last token around a text, where the model wants them.

    `is_first_added`: whether the first token is added if the file does not state it.
    """
    outer_tokens: dict[str, tuple[str, int]] = {}
    for name, is_added in (("bos", is_first_added), ("eos", False)):
        token_id = special_token(metadata, name, len(tokens))
        if metadata.get(f"tokenizer.ggml.add_{name}_token", is_added) is True and token_id is not None:
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


def _step(kind: str, name: str) -> Step:
    return {kind: {"id": name, "type_id": 0}}
