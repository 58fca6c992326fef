"""What a person can set right: every message of these is a sentence for the one who typed or stored the thing."""

import re

REASON_LENGTH_MAX = 120
_PYTHON_BYTES = re.compile(r"""\bb(['"])(.*?)\1""")


def harmless(text: str) -> str:
    """A text without what a terminal would take for a command; line breaks stay."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def unquoted(text: str) -> str:
    """A text of a node without Python's way of writing bytes: `Corruption: …` for `b'Corruption: …'`."""
    return _PYTHON_BYTES.sub(r"\2", text)


def in_words(error: BaseException) -> str:
    """Why an answer could not be read, as people say it and not as Python does."""
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


class WalletError(Exception):
    """Something that the user gave cannot be used; command lines print the message and end with code 2."""


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
    """A call, or an argument of one, cannot be made of what was typed."""
