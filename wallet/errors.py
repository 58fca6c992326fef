"""Errors that a person can correct, and the code that programs and tests read in place of an error's text."""

import re

REASON_LENGTH_MAX = 120
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PYTHON_BYTES = re.compile(r"""\bb(['"])(.*?)\1""")


def harmless(text: str) -> str:
    """Return a text without what a terminal would take for a command; line breaks stay."""
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)


def unquoted(text: str) -> str:
    """Return a text of a node without Python's way of writing bytes: `Corruption: …` for `b'Corruption: …'`."""
    return _PYTHON_BYTES.sub(r"\2", text)


def in_words(error: BaseException) -> str:
    """Return the reason for an unreadable answer, in words for people instead of Python's."""
    match error:
        case LookupError():
            return "a part of it is missing"
        case TypeError() | AttributeError():
            return "a part of it is of another kind"
        case RecursionError():
            return "it is nested too deeply"
        case ArithmeticError():
            return "a number in it is out of range"
        case AssertionError():
            return "its parts contradict each other"
        case _:
            return harmless(str(error))[:REASON_LENGTH_MAX] or "it cannot be read"


class CodedError(Exception):
    """An error with a stable code, `invalid_amount` for example.

    The text may change at any time. The code stays, so scripts and tests compare codes. Without an explicit code it
    follows from the name of the class.
    """

    exit_code = 2
    """The exit code of a program that this error ends."""

    def __init__(self, text: str = "", *, code: str | None = None) -> None:
        """`text`: what happened, why, and what to do next."""
        super().__init__(text)
        self.code = code or code_of_class(type(self))


def code_of_class(error: type[BaseException]) -> str:
    """Return the code of a class of errors: `key_file` for `KeyFileError`."""
    return _WORD_START.sub("_", error.__name__.removesuffix("Error")).lower()


def code_of(error: BaseException) -> str:
    """Return the code of any error: its own, or that of its class."""
    own_code = getattr(error, "code", None)
    return own_code if isinstance(own_code, str) else code_of_class(type(error))


class WalletError(CodedError):
    """An input that the program cannot use."""


class AmountError(WalletError):
    """Not an amount of oGPU."""


class PhraseError(WalletError):
    """Not a recovery phrase."""


class SuriError(WalletError):
    """Not a secret in the form `phrase//hard/soft///password`."""


class KeyFileError(WalletError):
    """A key file cannot be read or written as it is."""


class CannotUnlockError(KeyFileError):
    """The password is wrong or the file is damaged; which of the two cannot be told."""


class KeyringError(WalletError):
    """A name is taken, unknown, or not usable as a name."""


class CallInputError(WalletError):
    """The typed text does not make a call, or an argument of one."""
