"""Text to token ids and back, whole and in pieces; stop strings; hostile tokenizers."""

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.models import tokenizer_checks
from gpu_tasks.models.text import (
    STOP_STRING_MAX,
    STOP_STRINGS_MAX,
    TEXT_MAX,
    WINDOW_TOKENS_MAX,
    StopStrings,
    StreamDecoder,
    TextError,
    Tokenizer,
)
from gpu_tasks.models.tokenizer_checks import PATTERNS
from tiny_models import tokenizer_json, vocabulary

TOKENIZER = Tokenizer(tokenizer_json())
FIRST_BYTE = 3


def bytes_as_tokens(data: bytes) -> list[int]:
    return [FIRST_BYTE + byte for byte in data]


def streamed(tokens: list[int]) -> list[str]:
    decoder = StreamDecoder(TOKENIZER)
    return [*(decoder.push(token) for token in tokens), decoder.finish()]


@given(st.text())
def test_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.text(max_size=40))
@example("🙂é\N{REPLACEMENT CHARACTER}a")
def test_stream_never_splits_a_character(text: str) -> None:
    pieces = streamed(bytes_as_tokens(text.encode(errors="replace")))
    whole = text.encode(errors="replace").decode()
    assert "".join(pieces) == whole
    places = {sum(map(len, pieces[:count])) for count in range(len(pieces) + 1)}
    assert places <= set(range(len(whole) + 1))
    if "\N{REPLACEMENT CHARACTER}" not in whole:
        assert all("\N{REPLACEMENT CHARACTER}" not in piece for piece in pieces)


@given(st.binary(max_size=WINDOW_TOKENS_MAX - 2))
@example(b"\xf0\x9f\x99")
@example(b"\xe2\x82\x41\xff\xff\x80")
def test_stream_of_any_bytes_is_the_whole_text(data: bytes) -> None:
    tokens = bytes_as_tokens(data)
    assert "".join(streamed(tokens)) == TOKENIZER.decode(tokens)


def test_stream_returns_each_character_with_its_last_byte() -> None:
    assert streamed(bytes_as_tokens("aé🙂b".encode())) == ["a", "", "é", "", "", "", "🙂", "b", ""]


def test_stream_gives_up_waiting_and_stays_short() -> None:
    decoder = StreamDecoder(TOKENIZER)
    pieces = [decoder.push(FIRST_BYTE + 0x80) for _ in range(1_000)]
    assert len("".join(pieces)) > 1_000 - WINDOW_TOKENS_MAX
    assert len(decoder._window) <= 2 * WINDOW_TOKENS_MAX


def test_special_tokens_add_no_text_and_keep_the_stream_going() -> None:
    assert streamed([1, *bytes_as_tokens(b"a"), 2, 999_999, *bytes_as_tokens(b"b")]) == ["", "a", "", "", "b", ""]


def test_leading_space_of_a_word_stays() -> None:
    space_t = vocabulary().index("Ġt")
    assert streamed([space_t, space_t]) == [" t", " t", ""]


def test_tokens_by_id() -> None:
    assert TOKENIZER.token(2) == "<|im_end|>"
    assert TOKENIZER.token(999_999) == TOKENIZER.token(-1) == ""
    assert TOKENIZER.greatest_id == len(vocabulary()) - 1


@pytest.mark.parametrize("token", [-1, 2**32, 2**70])
def test_id_out_of_range(token: int) -> None:
    with raises_code(TextError, "token_id"):
        TOKENIZER.decode([token])


def test_too_long_a_text() -> None:
    with raises_code(TextError, "text_length"):
        TOKENIZER.encode("a" * (TEXT_MAX + 1))


# --------------------------------------------------------------------------------------------------- hostile tokenizers


def changed(**changes: object) -> bytes:
    return json.dumps(json.loads(tokenizer_json()) | changes).encode()


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"version": "1.0", "version": "1.0"}',
        changed(model={"type": "BPE", "vocab": {}, "merges": []}, added_tokens=[]),
        changed(model={"type": "BPE", "vocab": {"a": -1}, "merges": []}),
        changed(model={"type": "BPE", "vocab": {"a": 2**32}, "merges": []}),
        changed(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}),
        changed(model={"type": "Other", "vocab": {"a": 0}}),
        changed(pre_tokenizer=split("(a|aa)+c")),
        changed(pre_tokenizer=split("(")),
        changed(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": ""}),
        changed(decoder={"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": ""}),
    ],
    ids=lambda data: data[:20].decode(errors="replace"),
)
def test_hostile_tokenizer_is_refused(data: bytes) -> None:
    with raises_code(TextError, "tokenizer"):
        Tokenizer(data)


def sequence(key: str, *steps: object) -> dict[str, object]:
    return {"type": "Sequence", key: list(steps)}


def replacement(pattern: object, content: object) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def template(**changes: object) -> dict[str, object]:
    token = {"id": "A", "ids": [1], "tokens": ["a"]}
    pieces = [{"SpecialToken": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    step = {"type": "TemplateProcessing", "single": pieces, "pair": pieces, "special_tokens": {"A": token}}
    return step | changes


def model(**changes: object) -> dict[str, object]:
    return {**json.loads(tokenizer_json())["model"], **changes}


def with_token(token: str) -> dict[str, int]:
    return {**json.loads(tokenizer_json())["model"]["vocab"], token: 9_999}


def table(text: bytes) -> dict[str, object]:
    data = (4).to_bytes(4, "little") + b"trie" + b"short\0" + text + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}


DOUBLED = replacement({"String": "a"}, "aa")
NFC = {"type": "NFC"}
SPACES = replacement({"String": " "}, "▁")
ADDED = {"id": 9_999, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


@pytest.mark.parametrize(
    "data",
    [
        changed(normalizer=sequence("normalizers", *[DOUBLED] * 30)),  # a terabyte from one letter
        changed(decoder=sequence("decoders", *[DOUBLED] * 30)),
        changed(normalizer=DOUBLED),
        changed(normalizer=replacement({"String": ""}, "")),
        changed(normalizer=replacement({"Regex": r"\s+"}, "  ")),
        changed(normalizer=sequence("normalizers", sequence("normalizers", DOUBLED))),
        changed(normalizer=[{"String": "a"}, "aa"]),
        changed(normalizer=sequence("normalizers", [{"String": "a"}, "aa"])),
        changed(normalizer=replacement([{"String": "a"}], "aa")),
        changed(normalizer={"pattern": {"String": "a"}, "content": "aa"}),
        changed(normalizer={"type": "Prepend", "prepend": "x" * 17}),
        changed(normalizer=sequence("normalizers", *[NFC] * 33)),
        changed(normalizer=sequence("normalizers", *[sequence("normalizers", *[NFC] * 9)] * 4)),
        changed(normalizer=table(b"x" * 65)),
        changed(normalizer=sequence("normalizers", table(b"x"), table(b"x"))),
        # 27 of them make 256 MiB from one letter, and the failed allocation ends the process.
        changed(normalizer=sequence("normalizers", {"type": "ByteLevel"}, {"type": "ByteLevel"})),
        changed(pre_tokenizer=sequence("pretokenizers", BYTE_LEVEL, sequence("pretokenizers", BYTE_LEVEL))),
        changed(normalizer={"type": "Precompiled", "precompiled_charsmap": "!"}),
        changed(post_processor=template(single=[{"SpecialToken": {"id": "A", "type_id": 0}}] * 65)),
        changed(post_processor=template(special_tokens={"A": {"id": "A", "ids": [1] * 17, "tokens": ["a"] * 17}})),
        changed(post_processor=template(special_tokens={"A": ["A", [1] * 17, ["a"] * 17]})),
        changed(post_processor=template(special_tokens=[])),
        changed(post_processor=template(single=[{"Sequence": {"id": "A", "type_id": 0}}] * 2)),
        changed(post_processor=template(single=["$A"])),
        changed(decoder={"type": "WordPiece", "prefix": "#" * 17, "cleanup": True}),
        changed(model=model(continuing_subword_prefix="#" * 17)),
        changed(model=model(end_of_word_suffix="#" * 17)),
        changed(model=model(dropout=0.5)),
        changed(model={"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "max_input_chars_per_word": 129}),
        changed(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["a" * 65, 0.0]]}),
        # An answer of 8,192 tokens of a mebibyte takes 8 GiB as text.
        changed(model=model(vocab=with_token("a" * 1025))),
        changed(added_tokens=[*json.loads(tokenizer_json())["added_tokens"], ADDED | {"content": "a" * 1025}]),
        changed(added_tokens={}),
        changed(added_tokens=["a"]),
        changed(model=[]),
        changed(version=[[]] * 2**21),
        json.dumps(json.loads(tokenizer_json())).encode("utf-16"),
    ],
)  # fmt: skip
def test_tokenizer_without_bounds_is_refused(data: bytes) -> None:
    """The library limits nothing: most of these end the process, or take hours, at the first long text."""
    with raises_code(TextError, "tokenizer"):
        Tokenizer(data)


@pytest.mark.parametrize(
    "data",
    [
        changed(normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, SPACES)),
        changed(normalizer=sequence("normalizers", replacement({"String": "``"}, '"'), SPACES)),
        changed(normalizer=sequence("normalizers", replacement({"Regex": " {2,}"}, " "), SPACES)),
        changed(normalizer=sequence("normalizers", *[NFC] * 32)),
        changed(post_processor=sequence("processors", BYTE_LEVEL, template())),
        changed(decoder=sequence("decoders", SPACES, {"type": "ByteFallback"}, {"type": "Fuse"})),
        changed(model=model(dropout=0.0, end_of_word_suffix="")),
        changed(normalizer={"type": "ByteLevel"}, pre_tokenizer=BYTE_LEVEL, post_processor=BYTE_LEVEL),
        changed(model=model(vocab=with_token("a" * 1024))),
    ],
)
def test_tokenizer_as_published_is_read(data: bytes) -> None:
    assert Tokenizer(data).encode("the 12")


def test_too_large_a_tokenizer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_checks, "TOKENIZER_BYTES_MAX", 10)
    with raises_code(TextError, "tokenizer"):
        Tokenizer(tokenizer_json())


def test_panic_of_the_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exception derives from BaseException, so a program would end with it."""
    monkeypatch.setattr(tokenizer_checks, "PATTERNS", {"(a|aa)+c"})
    tokenizer = Tokenizer(changed(pre_tokenizer=split("(a|aa)+c")))
    with raises_code(TextError, "tokenizer"):
        tokenizer.encode("a" * 60)


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
@pytest.mark.parametrize("character", ["a", " ", "1", "\n", "\u0300", "'", "!", "A"])
def test_known_expression_takes_linear_time(pattern: str, character: str) -> None:
    tokenizer = Tokenizer(changed(pre_tokenizer=split(pattern)))
    tokenizer.encode(character * 20_000 + "\x00")


# --------------------------------------------------------------------------------------------------------- stop strings


@given(
    text=st.text("ab\n", max_size=60),
    stops=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=4),
    cuts=st.lists(st.integers(0, 60)),
)
def test_stop_strings_end_the_text_wherever_it_is_cut(text: str, stops: list[str], cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(text)]
    stop_strings = StopStrings(stops)
    written = "".join(stop_strings.push(text[start:end]) for start, end in pairwise(places))
    written += stop_strings.finish()
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(stop) for stop in stops)]
    if not ends:
        assert (written, stop_strings.found) == (text, None)
        return
    found = max((stop for stop in stops if text[: ends[0]].endswith(stop)), key=len)
    assert stop_strings.found == found
    assert written == text[: ends[0] - len(found)]


def test_stop_string_over_two_pieces() -> None:
    stop_strings = StopStrings(["\nUser:", "END"])
    assert stop_strings.push("Paris.\nUs") == "Paris."
    assert stop_strings.push("es") == "\nUses"
    assert stop_strings.push(" E") == " "
    assert stop_strings.push("NDless") == "E"[:0]
    assert stop_strings.found == "END"
    assert stop_strings.push("more") == stop_strings.finish() == ""


def test_text_without_a_stop_string_is_returned_whole() -> None:
    stop_strings = StopStrings(["END"])
    assert stop_strings.push("an EN") == "an "
    assert stop_strings.finish() == "EN"


@pytest.mark.parametrize("strings", [[""], ["a" * (STOP_STRING_MAX + 1)], ["a"] * (STOP_STRINGS_MAX + 1)])
def test_unfit_stop_strings_are_refused(strings: list[str]) -> None:
    with raises_code(TextError, "stop_strings"):
        StopStrings(strings)
