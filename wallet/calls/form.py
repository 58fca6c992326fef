"""A form: the text that a person writes for a value of a type, and the text for a value.

Invariant: a form reads its own text, in either style, as the same value. Text that it cannot read is a `CallInputError`
that names the argument, its type and the text. The codec of its type encodes every value that it reads (except lists
that must ascend).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from runtime.frame.call import Call
from wallet.errors import CallInputError

SHOWN_MAX = 60


class Style(StrEnum):
    """For people amounts are in oGPU and text is text. For programs amounts are digits of grains, and bytes are hex."""

    PEOPLE = "people"
    PROGRAMS = "programs"


class ArgumentForm(Protocol):
    """The form of one type."""

    @property
    def type_name(self) -> str:
        """The type in a word or two."""

    @property
    def how_to_write(self) -> str:
        """An instruction to a person for writing a value."""

    @property
    def sketch(self) -> str:
        """The JSON of a value, with types in place of its parts."""

    @property
    def is_structured(self) -> bool:
        """True if a word that begins with a brace or a bracket is JSON."""

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> Any:
        """Return the value of a JSON value, or of a command line's word. Raise CallInputError if it is none."""

    def written(self, form_value: Any, style: Style) -> Any:
        """Return a value as a JSON value."""


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """The argument that is being read, and the functions that find accounts and calls."""

    where: str
    account: Callable[[str], bytes]
    call: Callable[[str, Any, ArgumentPlace], Call]

    def inside(self, part: str) -> ArgumentPlace:
        """Return the place of a part of this argument: `.member` or `[0]`."""
        return replace(self, where=self.where + part)

    def refuse(self, form: ArgumentForm, given: Any, why: str) -> NoReturn:
        """Raise CallInputError with the unreadable text and the reason."""
        shown = repr(given) if isinstance(given, str) else json.dumps(given)
        if len(shown) > SHOWN_MAX:
            shown = f"{shown[:SHOWN_MAX]}..."
        raise CallInputError(
            f"argument {self.where} ({form.type_name}): {shown} cannot be read: {why}", code="argument_unreadable"
        )


def read_word(form: ArgumentForm, word: str, place: ArgumentPlace) -> Any:
    """Return the value of a word of the command line. Raise CallInputError if it is none."""
    if not form.is_structured or word.lstrip()[:1] not in ("{", "["):
        return form.read(word, place)
    try:
        # Numbers with a point stay text: floats are not exact enough for money.
        given = json.loads(word, parse_float=str, parse_constant=str, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        place.refuse(form, word, f"it is not JSON ({error})")
    return form.read(given, place)


def written_word(form: ArgumentForm, value: Any, style: Style) -> str:
    """Return a value as a word of the command line."""
    found = form.written(value, style)
    return found if isinstance(found, str) else json.dumps(found)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON decoders keep the last of two equal names, so a person could sign another value than the first one they see.
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} stands there twice")
    return dict(pairs)
