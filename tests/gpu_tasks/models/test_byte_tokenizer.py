"""Text as bytes, and the tokenizer of a model file with and without one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.models.text import (
    BYTE_VOCABULARY,
    END_TOKEN,
    TEXT_MAX,
    ByteTokenizer,
    StreamDecoder,
    TextError,
    Tokenizer,
    tokenizer_of,
)
from tiny_models import tokenizer_json

BYTES = ByteTokenizer()


@given(st.text())
def test_text_comes_back(text: str) -> None:
    tokens = BYTES.encode(text)
    assert bytes(tokens) == text.encode()
    assert BYTES.decode([*tokens, END_TOKEN]) == text
    decoder = StreamDecoder(BYTES)
    assert "".join([*(decoder.push(token) for token in tokens), decoder.finish()]) == text


@given(st.lists(st.integers(-3, 300)))
def test_any_tokens_have_a_text(tokens: list[int]) -> None:
    assert BYTES.decode(tokens) == bytes(token for token in tokens if 0 <= token < 256).decode(errors="replace")
    assert (BYTES.token(65), BYTES.token(END_TOKEN), BYTES.token(-1)) == ("A", "", "")


@pytest.mark.parametrize(("text", "code"), [("a" * (TEXT_MAX + 1), "text_length"), ("\ud800", "text")])
def test_a_text_without_tokens(text: str, code: str) -> None:
    with raises_code(TextError, code):
        BYTES.encode(text)


def test_the_tokenizer_of_a_model_file() -> None:
    assert isinstance(tokenizer_of(b"", BYTE_VOCABULARY), ByteTokenizer)
    assert isinstance(tokenizer_of(tokenizer_json(), BYTE_VOCABULARY), Tokenizer)
    for section, vocabulary in ((b"", 256), (b"{}", BYTE_VOCABULARY)):
        with raises_code(TextError, "tokenizer"):
            tokenizer_of(section, vocabulary)
