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
_AMOUNT = re.compile(rf".*(?:{SYMBOL}|grains?)", re.ASCII | re.IGNORECASE)
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
        """The smallest and the greatest number."""
        return f"0 to {_most(self.size)}"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> int:
        """Return the value of decimal digits, or of a JSON number."""
        whole_number = _number(json_value)
        if whole_number is None:
            argument_place.refuse(self, json_value, "write a whole number in digits")
        return _in_range(self, self.size, whole_number, argument_place)

    def written(self, form_value: int, _style: Style) -> int:
        """Return a number."""
        return form_value


@dataclass(frozen=True)
class AmountForm(PlainForm):
    """An amount of money in grains."""

    size: int

    how_to_write = f"grains in digits, or an amount with its unit: 1.5{SYMBOL}"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> int:
        """Return grains from digits, or from an amount with its unit."""
        whole_number = _number(json_value)
        if whole_number is not None:
            return _in_range(self, self.size, whole_number, argument_place)
        if not isinstance(json_value, str) or _AMOUNT.fullmatch(json_value) is None:
            # A bare 1.5 is refused: it could be grains or oGPU, and a wrong guess would cost money.
            argument_place.refuse(
                self, json_value, f"write grains in digits, or an amount with its unit, like 1.5{SYMBOL}"
            )
        try:
            return _in_range(self, self.size, parse_amount(json_value), argument_place)
        except WalletError as error:
            argument_place.refuse(self, json_value, str(error))

    def written(self, form_value: int, style: Style) -> str:
        """Return digits of grains for programs, because JSON numbers may lose digits; oGPU for people."""
        # `parse_amount` refuses more than exists, so only digits of a larger value could be read again.
        if style is Style.PROGRAMS or form_value > MAX_GRAINS:
            return str(form_value)
        return f"{format_amount(form_value)} {SYMBOL}"


@dataclass(frozen=True)
class FlagForm(PlainForm):
    """True or false."""

    how_to_write = "true or false"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> bool:
        """Return a boolean, or that of its word."""
        truth_value = _TRUTH.get(json_value.lower()) if isinstance(json_value, str) else json_value
        return (
            truth_value
            if isinstance(truth_value, bool)
            else argument_place.refuse(self, json_value, "write true or false")
        )

    def written(self, form_value: bool, _style: Style) -> bool:
        """Return a truth value."""
        return form_value


@dataclass(frozen=True)
class AccountForm(PlainForm):
    """An account."""

    how_to_write = "an address, 0x and 64 hex digits, a name of the keyring, or one like //Alice"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> bytes:
        """Return the account of any text that the wallet accepts."""
        if not isinstance(json_value, str):
            argument_place.refuse(self, json_value, "write an address or a name")
        try:
            return argument_place.account(json_value)
        except WalletError as error:
            raise CallInputError(f"argument {argument_place.where} (account): {error}") from None

    def written(self, form_value: bytes, _style: Style) -> str:
        """Return the address."""
        return ss58.encode(form_value)


@dataclass(frozen=True)
class FixedBytesForm(PlainForm):
    """Bytes of a fixed length."""

    length: int

    @property
    def how_to_write(self) -> str:
        """Hex digits, with their number."""
        return f"0x and {2 * self.length} hex digits"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> bytes:
        """Return the bytes of hex digits."""
        if not isinstance(json_value, str) or not json_value.startswith("0x"):
            argument_place.refuse(self, json_value, f"write {self.how_to_write}")
        form_value = _from_hex(self, json_value, argument_place)
        if len(form_value) != self.length:
            argument_place.refuse(self, json_value, f"it has {self.length} bytes, these are {len(form_value)}")
        return form_value

    def written(self, form_value: bytes, _style: Style) -> str:
        """Return hex digits."""
        return "0x" + form_value.hex()


@dataclass(frozen=True)
class BytesForm(PlainForm):
    """Bytes up to a limit."""

    limit: int

    @property
    def how_to_write(self) -> str:
        """Hex digits or text, with the greatest length."""
        return f"at most {self.limit} bytes: 0x and hex digits, or text"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> bytes:
        """Return the bytes of hex digits, or of text in UTF-8."""
        if not isinstance(json_value, str):
            argument_place.refuse(self, json_value, "write 0x and hex digits, or text")
        form_value = (
            _from_hex(self, json_value, argument_place)
            if json_value.startswith("0x")
            else _utf8(self, json_value, argument_place)
        )
        if len(form_value) > self.limit:
            argument_place.refuse(
                self, json_value, f"at most {self.limit} bytes are allowed, these are {len(form_value)}"
            )
        return form_value

    def written(self, form_value: bytes, style: Style) -> str:
        """Return plain text for people, if the bytes are that; else hex."""
        plain_text = form_value.decode("utf-8", errors="ignore") if style is Style.PEOPLE else ""
        # Only printable ASCII: a chain's bytes come from strangers, and a person's terminal shows them.
        is_plain = plain_text.isascii() and plain_text.isprintable() and plain_text.encode() == form_value
        # Text that looks like `0x...` or `null` would be read as something else.
        return (
            plain_text
            if plain_text and is_plain and not plain_text.startswith("0x") and plain_text != "null"
            else "0x" + form_value.hex()
        )


@dataclass(frozen=True)
class TextForm(PlainForm):
    """Text up to a limit of bytes."""

    limit: int

    @property
    def how_to_write(self) -> str:
        """Text, with its greatest length."""
        return f"text of at most {self.limit} bytes"

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> str:
        """Return the text."""
        if not isinstance(json_value, str):
            argument_place.refuse(self, json_value, "write text")
        byte_count = len(_utf8(self, json_value, argument_place))
        if byte_count > self.limit:
            argument_place.refuse(self, json_value, f"at most {self.limit} bytes are allowed, these are {byte_count}")
        return json_value

    def written(self, form_value: str, _style: Style) -> str:
        """Return the text."""
        return form_value


@dataclass(frozen=True)
class ChoiceForm(PlainForm):
    """One name of an enumeration."""

    names: type[IntEnum]

    @property
    def how_to_write(self) -> str:
        """All names of the enumeration."""
        return ", ".join(choice.name for choice in self.names)

    def read(self, json_value: Any, argument_place: ArgumentPlace) -> IntEnum:
        """Return the choice of a name, in capitals or not."""
        choices_by_name = {choice.name.lower(): choice for choice in self.names}
        choice = choices_by_name.get(json_value.lower()) if isinstance(json_value, str) else None
        return (
            choice
            if choice is not None
            else argument_place.refuse(self, json_value, f"write one of {self.how_to_write}")
        )

    def written(self, form_value: IntEnum, _style: Style) -> str:
        """Return the name."""
        return form_value.name


def _most(size_bytes: int) -> int:
    return (1 << 8 * size_bytes) - 1


def _number(json_value: Any) -> int | None:
    if isinstance(json_value, str) and _DIGITS.fullmatch(json_value):
        return int(json_value)
    # True is an int in Python.
    return json_value if isinstance(json_value, int) and not isinstance(json_value, bool) else None


def _in_range(argument_form: ArgumentForm, size_bytes: int, whole_number: int, argument_place: ArgumentPlace) -> int:
    if not 0 <= whole_number <= _most(size_bytes):
        argument_place.refuse(argument_form, whole_number, f"it goes from 0 to {_most(size_bytes)}")
    return whole_number


def _from_hex(argument_form: ArgumentForm, json_value: str, argument_place: ArgumentPlace) -> bytes:
    try:
        return bytes.fromhex(json_value[2:])
    except ValueError:
        argument_place.refuse(argument_form, json_value, "after 0x come hex digits, two for each byte")


def _utf8(argument_form: ArgumentForm, json_value: str, argument_place: ArgumentPlace) -> bytes:
    try:
        return json_value.encode("utf-8")
    except UnicodeEncodeError:
        # Command-line bytes that are no UTF-8 arrive as lone surrogates.
        argument_place.refuse(argument_form, json_value, "it is not text; write 0x and hex digits")
