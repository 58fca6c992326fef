"""The words that task files of every kind share: names, prices, times, and the sections that are alike in all.

Invariant: a word describes its form both in its error and in the schema. A path never leads out of the task file's
folder.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from gpu_tasks.tasks import quantities
from gpu_tasks.tasks.declarations import NamedWords, Section, Word, WordList, written
from gpu_tasks.tasks.problems import Problem, TaskFileError, choices
from gpu_tasks.tasks.quantities import AMOUNT_PATTERN, SPAN_PATTERN, QuantityError, TimeSpan
from gpu_tasks.tasks.yaml_tree import FileNode, line_at

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
    """A task with its tree, so that later problems can name their lines too."""

    file: str
    task: TaskT_co
    tree: FileNode

    def names(self, path: str) -> bool:
        """Return True if the file gives a key of a section."""
        node: Any = self.tree
        for name in path.split("."):
            if name not in node:
                return False
            node = node[name]
        return True

    def problem(self, path: str, text: str, code: str) -> Problem:
        """Return a problem of a key, on the line of the section if the file leaves the key out."""
        return Problem(line_at(self.tree, path.split(".")), path, text, code)

    def refused(self, path: str, text: str, code: str) -> TaskFileError:
        """Return the error of one problem."""
        return TaskFileError(self.file, [self.problem(path, text, code)])


def text_word(pattern: str, longest: int, expectation: str) -> Word:
    """Return the word for texts of a pattern, which `expectation` describes."""

    def read(text: str) -> str:
        if not 1 <= len(text) <= longest or re.fullmatch(pattern, text) is None:
            raise QuantityError(f"is not {expectation}", code="wrong_letters")
        return text

    return Word(read, {"type": "string", "pattern": f"^{pattern}$", "maxLength": longest})


def whole_word(least: int, greatest: int) -> Word:
    """Return the word for a whole number between two."""

    def read(text: str) -> int:
        value = quantities.whole(text)
        if not least <= value <= greatest:
            raise QuantityError(f"is out of range; give {least:,} to {greatest:,}", code="out_of_range")
        return value

    return Word(read, {"type": "integer", "minimum": least, "maximum": greatest}, needs_no_quotes=True)


def choice_word(kind: str, values: Mapping[str, Any]) -> Word:
    """Return the word for one of some names, with its value."""

    def read(text: str) -> Any:
        if text not in values:
            raise QuantityError(f"is not a {kind}; {choices(text, list(values))}", code="unknown_name")
        return values[text]

    return Word(read, {"type": "string", "enum": list(values)})


def quantity_word(read: Callable[[str], Any], pattern: str) -> Word:
    """Return the word for a quantity, with its pattern for the schema."""
    return Word(read, {"type": "string", "pattern": pattern})


def amount_word(read: Callable[[str], Any]) -> Word:
    """Return the word for an amount, which a file may write as a bare number."""
    return Word(read, {"type": ["string", "number"], "pattern": AMOUNT_PATTERN, "minimum": 0})


def path_of(text: str) -> str:
    """Parse a path beside the task file, or below it."""
    if text.startswith("/") or ".." in text.split("/"):
        raise QuantityError(
            "is outside of the task file's folder; copy the file there and give its relative path", code="path_outside"
        )
    if len(text) > PATH_MAX or CONTROL.search(text):
        raise QuantityError(
            f"is not a path of at most {PATH_MAX} letters; give it relative to the task file's folder",
            code="invalid_path",
        )
    return text


def price_of(text: str) -> int:
    """Parse the price of a slot, in grains."""
    grains = quantities.amount(text)
    # The shares of a lower price would round to nothing.
    if grains < PRICE_LEAST:
        raise QuantityError(
            f"is less than {PRICE_LEAST:,} grains, so its shares would round to nothing; raise it",
            code="price_too_low",
        )
    return grains


def deadline_of(text: str) -> TimeSpan:
    """Parse a time limit."""
    span = quantities.span(text)
    # Without a chain the length of a slot is unknown, so each unit has a limit of its own.
    if span.milliseconds > DEADLINE_MAX.milliseconds or span.blocks > DEADLINE_BLOCKS_MAX:
        raise QuantityError(
            f"is longer than {DEADLINE_DAYS_MAX} days, or {DEADLINE_BLOCKS_MAX:,} blocks; shorten it",
            code="time_too_long",
        )
    return span


LABEL = text_word(
    "[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?",
    NAME_MAX,
    "a word of letters, digits, - _ . and /, with a letter or digit at each end",
)
NAME = text_word(
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?", NAME_MAX, "a word of small letters, digits and inner hyphens, such as run-7"
)
Label = Annotated[str, LABEL]
FilePath = Annotated[str, quantity_word(path_of, "^.+$")]
Price = Annotated[int, amount_word(price_of)]
AMOUNT = amount_word(quantities.amount)
SPAN = quantity_word(deadline_of, SPAN_PATTERN)
Classes = Annotated[tuple[Annotated[DeviceClass, choice_word("class", CLASS_NAMES)], ...], WordList(len(CLASS_NAMES))]


class TaskMetadata(Section):
    """The task's name."""

    name: Annotated[str, NAME] = Field(description="the task's name; it stays on your machine")
    labels: Annotated[dict[Label, Label], NamedWords(LABEL, LABEL, LABELS_MAX)] = Field(
        default={}, description="labels to find it by; they stay on your machine"
    )


class TaskMarket(Section):
    """The price limits of any task."""

    price_max: Price = Field(alias="maxPrice", description="the greatest price of a device")
    loss: Annotated[int | None, AMOUNT] = Field(
        default=None,
        alias="lossOnFailure",
        description="your loss if the task fails; by default a quarter of maxPrice",
    )
    collateral: Annotated[int, AMOUNT] = Field(
        default=written("0 grains"),
        description="the least collateral of a bidder; the chain may ask for more",
    )


class TaskForm(Section):
    """The keys at the top of a file."""

    version: Annotated[str, choice_word("version", {API_VERSION: API_VERSION})] = Field(
        alias="apiVersion", description="the version of this format"
    )
    kind: str = Field(description="the kind of task")
    metadata: TaskMetadata = Field(description="the task's name and labels")
    spec: Section = Field(description="the task")
