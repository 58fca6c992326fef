"""Forms without parts: numbers, amounts, booleans, accounts, bytes, text, names of an enumeration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from runtime.cryptography import ss58
from wallet.amounts import MAX_GRAINS, SYMBOL, format_amount, parse_amount
from wallet.calls.form import ArgumentForm, ArgumentPlace, Style
from wallet.errors import CallInputError, WalletError

# 80 digits hold a u256. Longer texts are refused before int() spends time on them.
_DIGITS = re.compile(r"[0-9]{1,80}(?:_[0-9]{1,80}){0,40}", re.ASCII)
_AMOUNT = re.compile(rf"(.*?)\s*{SYMBOL}", re.ASCII | re.IGNORECASE)
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class PlainForm:
    """The base of forms without parts: a word is never JSON, and the sketch is the name of the type."""

    type_name: str

    is_structured = False

    @property
    def sketch(self) -> str:
        """The type's name."""
        return self.type_name


@dataclass(frozen=True)
class WholeForm(PlainForm):
    """A whole number below 256^size."""

    size: int

    @property
    def how_to_write(self) -> str:
        """The range."""
        return f"0 to {_most(self.size)}"

    def read(self, given: Any, place: ArgumentPlace) -> int:
        """Return the value of decimal digits, or of a JSON number."""
        number = _number(given)
        if number is None:
            place.refuse(self, given, "write a whole number in digits")
        return _in_range(self, self.size, number, place)

    def written(self, value: int, _style: Style) -> int:
        """Return a number."""
        return value


@dataclass(frozen=True)
class AmountForm(PlainForm):
    """An amount of money in grains."""

    size: int

    how_to_write = f"grains, or 1.5{SYMBOL}"

    def read(self, given: Any, place: ArgumentPlace) -> int:
        """Return grains from digits, or from an amount with its unit."""
        number = _number(given)
        if number is not None:
            return _in_range(self, self.size, number, place)
        amount = _AMOUNT.fullmatch(given) if isinstance(given, str) else None
        if amount is None:
            # A bare 1.5 is refused: it could be grains or oGPU, and a wrong guess would cost money.
            place.refuse(self, given, f"write grains in digits, or an amount with its unit, like 1.5{SYMBOL}")
        try:
            return _in_range(self, self.size, parse_amount(amount.group(1)), place)
        except WalletError as error:
            place.refuse(self, given, str(error))

    def written(self, value: int, style: Style) -> str:
        """Return digits of grains for programs, because JSON numbers may lose digits; oGPU for people."""
        # `parse_amount` refuses more than exists, so only digits of a larger value could be read again.
        if style is Style.PROGRAMS or value > MAX_GRAINS:
            return str(value)
        return f"{format_amount(value)} {SYMBOL}"


@dataclass(frozen=True)
class FlagForm(PlainForm):
    """True or false."""

    how_to_write = "true or false"

    def read(self, given: Any, place: ArgumentPlace) -> bool:
        """Return a boolean, or that of its word."""
        truth = _TRUTH.get(given.lower()) if isinstance(given, str) else given
        return truth if isinstance(truth, bool) else place.refuse(self, given, "write true or false")

    def written(self, value: bool, _style: Style) -> bool:
        """Return a truth value."""
        return value


@dataclass(frozen=True)
class AccountForm(PlainForm):
    """An account."""

    how_to_write = "an address, 0x and 64 hex digits, a name of the keyring, or one like //Alice"

    def read(self, given: Any, place: ArgumentPlace) -> bytes:
        """Return the account of any text that the wallet accepts."""
        if not isinstance(given, str):
            place.refuse(self, given, "write an address or a name")
        try:
            return place.account(given)
        except WalletError as error:
            raise CallInputError(f"argument {place.where} (account): {error}") from None

    def written(self, value: bytes, _style: Style) -> str:
        """Return the address."""
        return ss58.encode(value)


@dataclass(frozen=True)
class FixedBytesForm(PlainForm):
    """Bytes of a fixed length."""

    length: int

    @property
    def how_to_write(self) -> str:
        """Hex, of the right length."""
        return f"0x and {2 * self.length} hex digits"

    def read(self, given: Any, place: ArgumentPlace) -> bytes:
        """Return the bytes of hex digits."""
        if not isinstance(given, str) or not given.startswith("0x"):
            place.refuse(self, given, f"write {self.how_to_write}")
        value = _from_hex(self, given, place)
        if len(value) != self.length:
            place.refuse(self, given, f"it has {self.length} bytes, these are {len(value)}")
        return value

    def written(self, value: bytes, _style: Style) -> str:
        """Return hex digits."""
        return "0x" + value.hex()


@dataclass(frozen=True)
class BytesForm(PlainForm):
    """Bytes up to a limit."""

    limit: int

    @property
    def how_to_write(self) -> str:
        """Hex or text."""
        return f"at most {self.limit} bytes: 0x and hex digits, or text"

    def read(self, given: Any, place: ArgumentPlace) -> bytes:
        """Return the bytes of hex digits, or of text in UTF-8."""
        if not isinstance(given, str):
            place.refuse(self, given, "write 0x and hex digits, or text")
        value = _from_hex(self, given, place) if given.startswith("0x") else _utf8(self, given, place)
        if len(value) > self.limit:
            place.refuse(self, given, f"at most {self.limit} bytes are allowed, these are {len(value)}")
        return value

    def written(self, value: bytes, style: Style) -> str:
        """Return plain text for people, if the bytes are that; else hex."""
        text = value.decode("utf-8", errors="ignore") if style is Style.PEOPLE else ""
        # Only printable ASCII: a chain's bytes come from strangers, and a person's terminal shows them.
        is_plain = text.isascii() and text.isprintable() and text.encode() == value
        # Text that looks like `0x...` or `null` would be read as something else.
        return text if text and is_plain and not text.startswith("0x") and text != "null" else "0x" + value.hex()


@dataclass(frozen=True)
class TextForm(PlainForm):
    """Text up to a limit of bytes."""

    limit: int

    @property
    def how_to_write(self) -> str:
        """The limit."""
        return f"text of at most {self.limit} bytes"

    def read(self, given: Any, place: ArgumentPlace) -> str:
        """Return the text."""
        if not isinstance(given, str):
            place.refuse(self, given, "write text")
        length = len(_utf8(self, given, place))
        if length > self.limit:
            place.refuse(self, given, f"at most {self.limit} bytes are allowed, these are {length}")
        return given

    def written(self, value: str, _style: Style) -> str:
        """Return the text."""
        return value


@dataclass(frozen=True)
class ChoiceForm(PlainForm):
    """One name of an enumeration."""

    names: type[IntEnum]

    @property
    def how_to_write(self) -> str:
        """All names."""
        return ", ".join(choice.name for choice in self.names)

    def read(self, given: Any, place: ArgumentPlace) -> IntEnum:
        """Return the choice of a name, in capitals or not."""
        known = {choice.name.lower(): choice for choice in self.names}
        choice = known.get(given.lower()) if isinstance(given, str) else None
        return choice if choice is not None else place.refuse(self, given, f"write one of {self.how_to_write}")

    def written(self, value: IntEnum, _style: Style) -> str:
        """Return the name."""
        return value.name


def _most(size: int) -> int:
    return (1 << 8 * size) - 1


def _number(given: Any) -> int | None:
    if isinstance(given, str) and _DIGITS.fullmatch(given):
        return int(given)
    # True is an int in Python.
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _in_range(form: ArgumentForm, size: int, number: int, place: ArgumentPlace) -> int:
    if not 0 <= number <= _most(size):
        place.refuse(form, number, f"it goes from 0 to {_most(size)}")
    return number


def _from_hex(form: ArgumentForm, given: str, place: ArgumentPlace) -> bytes:
    try:
        return bytes.fromhex(given[2:])
    except ValueError:
        place.refuse(form, given, "after 0x come hex digits, two for each byte")


def _utf8(form: ArgumentForm, given: str, place: ArgumentPlace) -> bytes:
    try:
        return given.encode("utf-8")
    except UnicodeEncodeError:
        # Command-line bytes that are no UTF-8 arrive as lone surrogates.
        place.refuse(form, given, "it is not text; write 0x and hex digits")
