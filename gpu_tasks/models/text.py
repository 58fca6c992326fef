"""Text to token ids and back, for clients and gateways: the market itself handles token ids only.

A `tokenizer.json` comes from a stranger. The library `tokenizers` may panic in it, so errors of every kind become
TextError. `tokenizer_checks` refuses tokenizers that may take unlimited time or memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from gpu_tasks.models.tokenizer_checks import check_tokenizer_json

TEXT_MAX = 2**20
"""Characters of a text to encode."""
BYTE_VOCABULARY = 257
"""Of a model without a tokenizer: each byte is the token of its number, and END_TOKEN ends a text."""
END_TOKEN = 256
TOKEN_ID_MAX = 2**32 - 1
WINDOW_TOKENS_MAX = 64
"""Tokens after which a decoder gives up waiting for the rest of a character."""
STOP_STRINGS_MAX = 16
STOP_STRING_MAX = 256
"""Characters of a stop string."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class TextError(ValueError):
    """A tokenizer, a template or a text that is not usable. `code` is stable; the text may change."""

    def __init__(self, code: str, text: str) -> None:
        """`text`: the fault, and the remedy where there is one."""
        super().__init__(text)
        self.code = code


class TextTokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Return the token ids of a text. Raise TextError for a text that is too long or has no UTF-8.

        With `add_special`, the model's first and last tokens are added. A rendered chat template holds them already.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids. Special tokens, and ids without a token, add no text."""
        ...

    def token(self, token_id: int) -> str:
        """Return the token itself, as chat templates name it (`<|im_end|>`), or an empty text for an unknown id."""
        ...


def tokenizer_of(section: bytes, vocabulary: int) -> TextTokenizer:
    """Return the tokenizer in a model file's section `tokenizer`. An empty section means bytes.

    Raise TextError for a damaged tokenizer, and for an empty section in a model of another vocabulary.
    """
    if section:
        return Tokenizer(section)
    if vocabulary != BYTE_VOCABULARY:
        raise TextError(
            "tokenizer", f"the model has no tokenizer and {vocabulary} tokens; text as bytes takes {BYTE_VOCABULARY}"
        )
    return ByteTokenizer()


class ByteTokenizer:
    """UTF-8 as tokens, without a library. Implements `TextTokenizer` (see there)."""

    def encode(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Return the bytes of a text."""
        _check_length(text)
        try:
            return tuple(text.encode())
        except UnicodeEncodeError:
            raise TextError("text", "the text holds half of a surrogate pair, which has no UTF-8") from None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the bytes as text, with the replacement character for those that are no UTF-8."""
        return bytes(token for token in ids if 0 <= token < END_TOKEN).decode(errors="replace")

    def token(self, token_id: int) -> str:
        """Return the character of a byte."""
        return self.decode([token_id])


class Tokenizer:
    """A `tokenizer.json`. Implements `TextTokenizer` (see there)."""

    def __init__(self, tokenizer: bytes) -> None:
        """Load the tokenizer. Raise TextError if the library refuses it, or if it may take unlimited time or memory."""
        from tokenizers import Tokenizer as LibraryTokenizer  # noqa: PLC0415 # optional: a model of bytes needs none

        try:
            check_tokenizer_json(tokenizer)
        except ValueError as error:
            raise TextError("tokenizer", str(error)) from None
        with _library_errors("the tokenizer is damaged"):
            self._library = LibraryTokenizer.from_buffer(tokenizer)
            # The file's limit of tokens is for its author's purpose. It would cut a customer's prompt without an error.
            self._library.no_truncation()
            self._library.no_padding()
            ids = self._library.get_vocab(with_added_tokens=True).values()
        if not ids:
            raise TextError("tokenizer", "the tokenizer has no tokens")
        self.greatest_id = max(ids)

    def encode(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Return the library's token ids."""
        _check_length(text)
        with _library_errors("the text cannot be encoded"):
            return tuple(self._library.encode(text, add_special_tokens=add_special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the library's text. Raise TextError for a number that is no id."""
        if not all(0 <= token <= TOKEN_ID_MAX for token in ids):
            raise TextError("token_id", f"a token id is not in the range from 0 to {TOKEN_ID_MAX}")
        with _library_errors("the tokens cannot be decoded"):
            return self._library.decode(list(ids))

    def token(self, token_id: int) -> str:
        """Return the library's token."""
        return self._library.id_to_token(token_id) or "" if 0 <= token_id <= TOKEN_ID_MAX else ""


class StreamDecoder:
    """The text of a stream of tokens, in pieces that never split a character.

    The pieces and `finish` together are the text that `Tokenizer.decode` returns for all tokens, where the tokens of
    single bytes form whole characters.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        """The last tokens that ended on a whole character, then those since."""
        self._before = 0
        """Tokens of the window whose text was returned. They stay, because a first token may lose its space."""
        self._returned = 0
        """Characters of the window's text that were returned."""

    def push(self, token_id: int) -> str:
        """Return the text that becomes certain with this token."""
        self._window.append(token_id)
        text = self._tokenizer.decode(self._window)
        # The end may be an incomplete character. Bytes that never complete it must not grow the window for ever.
        if text.endswith(REPLACEMENT) and len(self._window) - self._before < WINDOW_TOKENS_MAX:
            # Tokens of single bytes show one replacement each until the character is complete.
            certain = len(text.rstrip(REPLACEMENT))
            piece, self._returned = text[self._returned : certain], max(self._returned, certain)
            return piece
        piece = text[self._returned :]
        del self._window[: self._before]
        self._before = len(self._window)
        self._returned = len(self._tokenizer.decode(self._window))
        return piece

    def finish(self) -> str:
        """Return the rest: an incomplete character, as the replacement character."""
        piece = self._tokenizer.decode(self._window)[self._returned :]
        self._window, self._before, self._returned = [], 0, 0
        return piece


class StopStrings:
    """Ends a stream of text before the stop string that is first complete, wherever the pieces are cut."""

    def __init__(self, strings: Sequence[str]) -> None:
        """Raise TextError for too many, too long or empty strings."""
        if len(strings) > STOP_STRINGS_MAX:
            raise TextError("stop_strings", f"{len(strings)} stop strings are given; at most {STOP_STRINGS_MAX} are")
        if not all(1 <= len(string) <= STOP_STRING_MAX for string in strings):
            raise TextError("stop_strings", f"a stop string has from 1 to {STOP_STRING_MAX} characters")
        self._strings = tuple(strings)
        self._held = ""
        self.found: str | None = None
        """The stop string that ended the stream."""

    def push(self, text: str) -> str:
        """Return the text that no stop string can begin in. After a stop string, all text is dropped."""
        if self.found is not None:
            return ""
        text = self._held + text
        # The earliest end decides, and of several there the longest: so the result is the same for every cut.
        places = [(place + len(string), place, string) for string in self._strings if (place := text.find(string)) >= 0]
        if places:
            _, place, self.found = min(places)
            self._held = ""
            return text[:place]
        held = max((_overlap(text, string) for string in self._strings), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> str:
        """Return the text that was held back, at the end of a stream without a stop string."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, string: str) -> int:
    """Return the length of the longest end of the text that a string begins with."""
    longest = min(len(text), len(string) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(string[:length])), 0)


def _check_length(text: str) -> None:
    if len(text) > TEXT_MAX:
        raise TextError("text_length", f"the text has {len(text)} characters; at most {TEXT_MAX} are encoded")


@contextmanager
def _library_errors(text: str) -> Iterator[None]:
    """Raise TextError for each error of the library, whose panics are no Exception."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError, TextError):
        raise
    except BaseException as error:  # noqa: BLE001
        raise TextError("tokenizer", f"{text}: {str(error)[:200]}") from None
