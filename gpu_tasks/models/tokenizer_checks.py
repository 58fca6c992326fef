"""Checks of a stranger's `tokenizer.json` before the library `tokenizers` reads it.

The library limits neither time nor memory: thirty normalizers that double a letter make a terabyte from one letter, and
an allocation that fails ends the process. The steps of an honest tokenizer pass these checks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

TOKENIZER_BYTES_MAX = 64 * 2**20
CONTAINERS_MAX = 2**21
"""Lists and objects. Each takes about 70 bytes of memory, and 2 in the file. Vocabularies have up to 600,000 merges."""
STEPS_MAX = 32
"""Of each part. Published tokenizers have up to 8."""
AFFIX_MAX = 16
"""Characters of a prefix or suffix, which may be put before or behind each character of a text."""
GROWING = frozenset({"BertNormalizer", "ByteLevel", "Metaspace", "Precompiled"})
"""Steps that lengthen their own results. Each may stand in a part once: 27 times `ByteLevel` makes 256 MiB from `é`."""
TOKEN_CHARACTERS_MAX = 1_024
"""An answer may repeat one token 8,192 times. SmolLM2's longest has 81."""
OUTER_STEPS_MAX = 64
OUTER_IDS_MAX = 16
"""Tokens around a text: pieces of the template, and ids of a piece."""
WORD_CHARACTERS_MAX = 128
"""Of WordPiece, which takes the square of it. Published tokenizers have 100."""
PIECE_CHARACTERS_MAX = 64
"""Of Unigram, which tries each length at each place of a text. SentencePiece's trainer makes 16."""
CHARACTER_BYTES_MAX = 64
"""Of the text that a table of normal forms has for a character. Unicode has up to 33."""

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_START = r"[^\r\n\p{L}\p{N}]?"
_MISTRAL_NEMO = (
    rf"{_START}{_UPPER}*{_LOWER}+|{_START}{_UPPER}+{_LOWER}*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_3 = _WORDS % r"\p{N}{1,3}"
QWEN_2 = _WORDS % r"\p{N}"
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA_CPP_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]")
PATTERNS = frozenset(
    {LLAMA_3, QWEN_2, _MISTRAL_NEMO, GPT_2, *LLAMA_CPP_DEFAULT, r"\p{N}", r"\p{N}{1,3}", r"\s+", " {2,}"}
)
"""The regular expressions that may stand in a tokenizer. Each of them runs in linear time."""

PARTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
"""The parts of a tokenizer, and the key of the steps in a sequence of each."""

Members: TypeAlias = Mapping[str, object]


class TokenizerRefusedError(ValueError):
    """A tokenizer that may take unlimited time or memory, or that is damaged."""


def check_tokenizer_json(tokenizer: bytes) -> None:
    """Raise TokenizerRefusedError, or ValueError for bytes that are no JSON."""
    if len(tokenizer) > TOKENIZER_BYTES_MAX:
        raise TokenizerRefusedError(f"the tokenizer has {len(tokenizer)} bytes; at most {TOKENIZER_BYTES_MAX} fit")
    if tokenizer.count(b"[") + tokenizer.count(b"{") > CONTAINERS_MAX:
        raise TokenizerRefusedError(f"the tokenizer holds more than {CONTAINERS_MAX} lists and objects")
    try:
        _check_parts(json.loads(tokenizer, object_pairs_hook=_checked))
    except (RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TokenizerRefusedError(f"the tokenizer is damaged: {str(error)[:100]}") from None


def _check_parts(found: object) -> None:
    if not isinstance(found, dict):
        raise TokenizerRefusedError("the tokenizer is damaged: it is no object")
    _check_model(_object(found.get("model"), "model"))
    _check_added_tokens(found.get("added_tokens"))
    for part, sequence_key in PARTS.items():
        growing = set()
        for count, step in enumerate(_steps(found.get(part), part, sequence_key)):
            if count >= STEPS_MAX:
                raise TokenizerRefusedError(f"the {part} of the tokenizer has more than {STEPS_MAX} steps")
            if step["type"] in growing:
                raise TokenizerRefusedError(f"the {part} of the tokenizer has the step {step['type']} twice")
            growing |= {step["type"]} & GROWING
            _check_step(step)


def _checked(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    # Parsers differ in which of two equal keys counts: a hostile expression could hide behind a known one.
    if len(members) != len(pairs):
        raise TokenizerRefusedError("the tokenizer holds a key twice")
    # An expression such as `(a|aa)+c` takes exponential time and then panics in the library.
    if set(members) == {"Regex"} and members["Regex"] not in PATTERNS:
        raise TokenizerRefusedError(f"the tokenizer has the unknown expression {str(members['Regex'])[:200]!r}")
    return members


def _object(value: object, name: str) -> Members:
    # The library reads a list of values in place of an object too, which no check here would find.
    if not isinstance(value, dict):
        raise TokenizerRefusedError(f"the {name} of the tokenizer is no object")
    return value


def _steps(part: object, name: str, sequence_key: str) -> Iterator[Members]:
    """Yield the steps of a part, those of sequences within sequences too."""
    if part is None:
        return
    step = _object(part, name)
    if not isinstance(step.get("type"), str):
        raise TokenizerRefusedError(f"a step of the {name} of the tokenizer states no type")
    if step["type"] != "Sequence":
        yield step
        return
    inner_steps = step.get(sequence_key)
    if not isinstance(inner_steps, list) or len(inner_steps) > STEPS_MAX or None in inner_steps:
        raise TokenizerRefusedError(f"the {name} of the tokenizer is no sequence of up to {STEPS_MAX} steps")
    for inner_step in inner_steps:
        yield from _steps(inner_step, name, sequence_key)


def _check_step(step: Members) -> None:
    for key in ("prepend", "prefix", "suffix"):
        _check_affix(step, key)
    match step["type"]:
        case "Replace":
            _check_replacement(step)
        case "Precompiled":
            _check_table(step.get("precompiled_charsmap"))
        case "TemplateProcessing":
            _check_outer_tokens(step)
        case _:
            pass


def _check_affix(members: Members, key: str) -> None:
    affix = members.get(key)
    if affix is not None and (not isinstance(affix, str) or len(affix) > AFFIX_MAX):
        raise TokenizerRefusedError(f"{key} of the tokenizer is no text of up to {AFFIX_MAX} characters")


def _check_replacement(step: Members) -> None:
    """Raise TokenizerRefusedError for a replacement by which a text grows."""
    pattern, content = _object(step.get("pattern"), "pattern"), step.get("content")
    searched = pattern.get("String", " ")  # a regular expression finds one character or more
    if not isinstance(searched, str) or not isinstance(content, str) or not 0 < len(searched) >= len(content):
        raise TokenizerRefusedError("the tokenizer replaces a text by a longer one")


def _check_table(table: object) -> None:
    """Raise TokenizerRefusedError for a long text in a table of SentencePiece.

    The table holds the length of a trie, the trie, and texts that end in a zero byte.
    """
    try:
        data = base64.b64decode(table if isinstance(table, str) else "")
    except ValueError:
        raise TokenizerRefusedError("the table of the tokenizer is damaged") from None
    texts = data[4 + int.from_bytes(data[:4], "little") :].split(b"\0")
    if max(map(len, texts)) > CHARACTER_BYTES_MAX:
        raise TokenizerRefusedError(f"a table of the tokenizer has a text of more than {CHARACTER_BYTES_MAX} bytes")


def _check_outer_tokens(step: Members) -> None:
    for key in ("single", "pair"):
        pieces = step.get(key, [])
        if not isinstance(pieces, list) or len(pieces) > OUTER_STEPS_MAX:
            raise TokenizerRefusedError(f"{key} of the tokenizer is no list of up to {OUTER_STEPS_MAX} pieces")
        texts = sum("Sequence" in _object(piece, key) for piece in pieces)
        if texts > 1 + (key == "pair"):
            raise TokenizerRefusedError(f"{key} of the tokenizer repeats the text")
    for token in _object(step.get("special_tokens", {}), "special_tokens").values():
        ids = _object(token, "special_tokens").get("ids")
        if not isinstance(ids, list) or len(ids) > OUTER_IDS_MAX:
            raise TokenizerRefusedError(f"a special token of the tokenizer has no list of up to {OUTER_IDS_MAX} ids")


def _check_added_tokens(added_tokens: object) -> None:
    if not isinstance(added_tokens, list | None):
        raise TokenizerRefusedError("added_tokens of the tokenizer is no list")
    for token in added_tokens or ():
        _check_token(str(_object(token, "list of added tokens").get("content")))


def _check_token(token: str) -> None:
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise TokenizerRefusedError(f"a token of the tokenizer has more than {TOKEN_CHARACTERS_MAX} characters")


def _check_model(model: Members) -> None:
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        _check_affix(model, key)
    # With dropout, the same text would give other tokens each time.
    if model.get("dropout"):
        raise TokenizerRefusedError("the tokenizer leaves merges out at random")
    longest = model.get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > WORD_CHARACTERS_MAX:
        raise TokenizerRefusedError(f"max_input_chars_per_word of the tokenizer is not up to {WORD_CHARACTERS_MAX}")
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        _check_token(max(vocabulary, key=len, default=""))
    if isinstance(vocabulary, list):
        for piece in vocabulary:
            if isinstance(piece, list) and piece and len(str(piece[0])) > PIECE_CHARACTERS_MAX:
                raise TokenizerRefusedError(f"a piece of the tokenizer has more than {PIECE_CHARACTERS_MAX} characters")
