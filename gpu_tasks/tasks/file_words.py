"""The words that task files of every kind share: names, prices, times, and the sections that are alike in all.

Always: a word says what it takes in its refusal and in the schema; a path never leads out of the task file's folder.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpu_tasks.tasks import quantities
from gpu_tasks.tasks.declarations import FileKey, KeySection, NamedWords, Word
from gpu_tasks.tasks.problems import unknown
from gpu_tasks.tasks.quantities import AMOUNT_PATTERN, QuantityError, TimeSpan

API_VERSION = "ogpu/v1"
NAME_MAX = 63
LABELS_MAX = 32
PATH_MAX = 255
PRICE_LEAST = 1_000
DEADLINE_DAYS_MAX = 10
DEADLINE_MAX = TimeSpan(DEADLINE_DAYS_MAX * 86_400_000, 0)
DEADLINE_BLOCKS_MAX = DEADLINE_DAYS_MAX * 86_400
"""No slot is shorter than a second."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
TaskT_co = TypeVar("TaskT_co", covariant=True)


@dataclass(frozen=True)
class ReadFile(Generic[TaskT_co]):
    """A task with where it was read, so that what is found later can name its line too."""

    file: str
    task: TaskT_co
    lines: Mapping[str, int]

    def names(self, path: str) -> bool:
        """Whether the file says something of a key by itself."""
        return path in self.lines

    def line(self, path: str) -> int:
        """Where a key stands; of one that is left out, the section that it would stand in."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, 1)


def text_word(pattern: str, most: int, says: str) -> Word:
    """A text of a form, which `says` describes."""

    def read(text: str) -> str:
        if not 1 <= len(text) <= most or re.fullmatch(pattern, text) is None:
            raise QuantityError(f"is {says}")
        return text

    return Word(read, {"type": "string", "pattern": f"^{pattern}$", "maxLength": most})


def whole_word(least: int, most: int) -> Word:
    """A whole number between two."""

    def read(text: str) -> int:
        value = quantities.whole(text)
        if not least <= value <= most:
            raise QuantityError(f"is {least:,} to {most:,}; give a number between, or one of the two")
        return value

    return Word(read, {"type": "integer", "minimum": least, "maximum": most}, needs_no_quotes=True)


def choice_word(kind: str, names: list[str]) -> Word:
    """One of some names."""

    def read(text: str) -> str:
        if text not in names:
            raise QuantityError(f"is none of these: {unknown(kind, text, names)}")
        return text

    return Word(read, {"type": "string", "enum": names})


def quantity_word(read: Any, pattern: str) -> Word:
    """A quantity, with the pattern that a schema gives of it."""
    return Word(read, {"type": "string", "pattern": pattern})


def path_of(text: str) -> str:
    """A path beside the task file, or below it."""
    if text.startswith("/") or ".." in text.split("/"):
        raise QuantityError("is a file beside the task file or below it; copy or link nothing from elsewhere")
    if len(text) > PATH_MAX or CONTROL.search(text):
        raise QuantityError(
            f"is the path of a file, of at most {PATH_MAX} letters; as seen from the task file's folder"
        )
    return text


def price_of(text: str) -> int:
    """Grains that a slot may cost."""
    grains = quantities.amount(text)
    if grains < PRICE_LEAST:
        raise QuantityError(f"is at least {PRICE_LEAST} grains, or its shares are nothing; give more")
    return grains


def deadline_of(text: str) -> TimeSpan:
    """How long something may take."""
    span = quantities.span(text)
    if span.milliseconds > DEADLINE_MAX.milliseconds or span.blocks > DEADLINE_BLOCKS_MAX:
        raise QuantityError(f"is at most {DEADLINE_DAYS_MAX} days, or {DEADLINE_BLOCKS_MAX:,} blocks; give less")
    return span


LABEL = text_word("[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", NAME_MAX, "a word of letters, digits, - _ . and /")
NAME = text_word(
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?", NAME_MAX, "a word of small letters, digits and - within, such as run-7"
)
METADATA = KeySection(
    (
        FileKey("name", NAME, "how you call the task; it stays with you", is_required=True),
        FileKey("labels", NamedWords(LABEL, LABEL, LABELS_MAX), "words to find it by; they stay with you"),
    )
)
MAX_PRICE = FileKey(
    "maxPrice", quantity_word(price_of, AMOUNT_PATTERN), "the most that a device is paid", is_required=True
)
LOSS = FileKey(
    "lossOnFailure",
    quantity_word(quantities.amount, AMOUNT_PATTERN),
    "what you lose if it fails; a quarter of maxPrice if left out",
)
COLLATERAL = FileKey(
    "collateral",
    quantity_word(quantities.amount, AMOUNT_PATTERN),
    "the least that a bidder locks; what the chain asks for, if that is more",
    "0 grains",
)
VERSION = FileKey("apiVersion", choice_word("version", [API_VERSION]), "the version of this format", is_required=True)
