"""A training task as a customer's file says it: every key with its limits and default, and the task that comes of it.

Always: a task that was read keeps to all limits that need no chain and no input; what depends on these (blocks, the
cost of a request, the least collateral) is worked out in `canonical.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.tasks import quantities
from gpu_tasks.tasks.declarations import FileKey, FileReading, KeySection, NamedWords, Word, WordList, read_section
from gpu_tasks.tasks.problems import TaskFileError, unknown
from gpu_tasks.tasks.quantities import AMOUNT_PATTERN, RATE_PATTERN, SPAN_PATTERN, QuantityError, Rate, TimeSpan
from gpu_tasks.tasks.yaml_tree import parse
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import RequestError, WorkloadForm, settings

API_VERSION = "ogpu/v1"
KIND = "TrainingTask"
NAME_MAX = 63
LABELS_MAX = 32
OPTIONS_MAX = 32
PATH_MAX = 255
LENGTH_MAX = 2**32 - 1
PRICE_LEAST = 1_000
MILESTONES_MAX = 64
DEADLINE_DAYS_MAX = 10
DEADLINE_MAX = TimeSpan(DEADLINE_DAYS_MAX * 86_400_000, 0)
DEADLINE_BLOCKS_MAX = DEADLINE_DAYS_MAX * 86_400
"""No slot is shorter than a second."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """What a file asks for. Amounts are grains, for one device; None: what the defaults of the auction make of it."""

    name: str
    labels: Mapping[str, str]
    workload: str
    input: str
    length: int
    options: Mapping[str, str]
    seed: bytes | None
    milestones: int
    devices: int
    classes: tuple[DeviceClass, ...]
    is_homogeneous: bool
    price_max: int
    time_value: Rate | None
    loss: int | None
    collateral: int
    deadline: TimeSpan


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task with where it was read, so that what is found later can name its line too."""

    file: str
    task: TrainingTask
    lines: Mapping[str, int]

    def names(self, path: str) -> bool:
        """Whether the file says something of a key by itself."""
        return path in self.lines

    def line(self, path: str) -> int:
        """Where a key stands; of one that is left out, the section that it would stand in."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, 1)


def stepwise_forms() -> dict[str, WorkloadForm]:
    """The workloads that can be auctioned: those that run in steps, and so have milestones and can be taken over."""
    return {form.name: form for form in registry.FORMS if form.is_stepwise}


def _text(pattern: str, most: int, says: str) -> Word:
    def read(text: str) -> str:
        if not 1 <= len(text) <= most or re.fullmatch(pattern, text) is None:
            raise QuantityError(f"is {says}")
        return text

    return Word(read, {"type": "string", "pattern": f"^{pattern}$", "maxLength": most})


def _whole(least: int, most: int) -> Word:
    def read(text: str) -> int:
        value = quantities.whole(text)
        if not least <= value <= most:
            raise QuantityError(f"is {least:,} to {most:,}; give a number between, or one of the two")
        return value

    return Word(read, {"type": "integer", "minimum": least, "maximum": most}, needs_no_quotes=True)


def _choice(kind: str, names: list[str]) -> Word:
    def read(text: str) -> str:
        if text not in names:
            raise QuantityError(f"is none of these: {unknown(kind, text, names)}")
        return text

    return Word(read, {"type": "string", "enum": names})


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise QuantityError("is true or false; write one of these words")
    return text == "true"


def _seed(text: str) -> bytes:
    if re.fullmatch("0x[0-9a-f]{64}", text) is None:
        raise QuantityError("is 0x and 64 hexadecimal digits, in small letters; or leave it out, and it is drawn")
    return bytes.fromhex(text[2:])


def _path(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/"):
        raise QuantityError("is a file beside the task file or below it; copy or link nothing from elsewhere")
    if len(text) > PATH_MAX or CONTROL.search(text):
        raise QuantityError(
            f"is the path of a file, of at most {PATH_MAX} letters; as seen from the task file's folder"
        )
    return text


def _price(text: str) -> int:
    grains = quantities.amount(text)
    if grains < PRICE_LEAST:
        raise QuantityError(f"is at least {PRICE_LEAST} grains, or its shares are nothing; give more")
    return grains


def _deadline(text: str) -> TimeSpan:
    span = quantities.span(text)
    if span.milliseconds > DEADLINE_MAX.milliseconds or span.blocks > DEADLINE_BLOCKS_MAX:
        raise QuantityError(f"is at most {DEADLINE_DAYS_MAX} days, or {DEADLINE_BLOCKS_MAX:,} blocks; give less")
    return span


def _option(text: str) -> str:
    if len(text) > NAME_MAX or CONTROL.search(text):
        raise QuantityError(f"is a text of at most {NAME_MAX} letters")
    return text


def _quantity(read: Any, pattern: str) -> Word:
    return Word(read, {"type": "string", "pattern": pattern})


_LABEL = _text("[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", NAME_MAX, "a word of letters, digits, - _ . and /")
_NAME = _text("[a-z0-9]([-a-z0-9]*[a-z0-9])?", NAME_MAX, "a word of small letters, digits and - within, such as run-7")
_OPTION = Word(_option, {"type": ["string", "integer"], "maxLength": NAME_MAX})
_METADATA = KeySection(
    (
        FileKey("name", _NAME, "how you call the task; it stays with you", is_required=True),
        FileKey("labels", NamedWords(_LABEL, _LABEL, LABELS_MAX), "words to find it by; they stay with you"),
    )
)
_RUN = KeySection(
    (
        FileKey("input", _quantity(_path, "^.+$"), "the file to learn, beside the task file", is_required=True),
        FileKey(
            "workload",
            _choice("workload that runs in steps", sorted(stepwise_forms())),
            "what is computed",
            next(iter(stepwise_forms())),
        ),
        FileKey("length", _whole(1, LENGTH_MAX), "how much of it, in the workload's unit of cost: steps", "1000"),
        FileKey(
            "options",
            NamedWords(_LABEL, _OPTION, OPTIONS_MAX),
            "of the workload, as `ogpu post --set` has them",
        ),
        FileKey("seed", _quantity(_seed, "^0x[0-9a-f]{64}$"), "of whatever chance is in it; drawn if it is left out"),
        FileKey("milestones", _whole(1, MILESTONES_MAX), "checkpoints that are paid for if the rest fails", "10"),
    )
)
_RESOURCES = KeySection(
    (
        FileKey("devices", _whole(1, SLOTS_MAX), "how many work together: all or none", "1"),
        FileKey("classes", WordList(_choice("class", list(CLASS_NAMES)), len(CLASS_NAMES)), "that suit"),
        FileKey(
            "sameClass",
            Word(_truth, {"type": "boolean"}, needs_no_quotes=True),
            "whether all must be of one class",
            "false",
        ),
    )
)
_MARKET = KeySection(
    (
        FileKey("maxPrice", _quantity(_price, AMOUNT_PATTERN), "the most that a device is paid", is_required=True),
        FileKey(
            "valueOfTime",
            _quantity(quantities.rate, RATE_PATTERN),
            "what it is worth to be done sooner; a quarter of maxPrice over the deadline if left out",
        ),
        FileKey(
            "lossOnFailure",
            _quantity(quantities.amount, AMOUNT_PATTERN),
            "what you lose if it fails; a quarter of maxPrice if left out",
        ),
        FileKey(
            "collateral",
            _quantity(quantities.amount, AMOUNT_PATTERN),
            "the least that a bidder locks; what the chain asks for, if that is more",
            "0 grains",
        ),
    )
)
_LIMITS = KeySection(
    (FileKey("deadline", _quantity(_deadline, SPAN_PATTERN), "the most that a bid may promise", "6h"),)
)
FILE = KeySection(
    (
        FileKey("apiVersion", _choice("version", [API_VERSION]), "the version of this format", is_required=True),
        FileKey("kind", _choice("kind of task", [KIND]), "what the file asks for", is_required=True),
        FileKey("metadata", _METADATA, "what the task is called", is_required=True),
        FileKey(
            "spec",
            KeySection(
                (
                    FileKey("run", _RUN, "what is computed, on what", is_required=True),
                    FileKey("resources", _RESOURCES, "who may compute it"),
                    FileKey("market", _MARKET, "what it may cost", is_required=True),
                    FileKey("limits", _LIMITS, "how long it may take"),
                )
            ),
            "what is asked for",
            is_required=True,
        ),
    )
)


def read_task(data: bytes, file: str) -> TaskFile:
    """The task of a file's bytes; TaskFileError says all that is wrong with it. `file` is how messages call it."""
    reading = FileReading()
    found = read_section(FILE, parse(data, file), "", reading)
    if not reading.problems:
        _check_options(found, reading)
    if reading.problems:
        raise TaskFileError(file, reading.problems)
    return TaskFile(file, _task(found), reading.lines)


def _check_options(found: dict[str, Any], reading: FileReading) -> None:
    run = found["spec"]["run"]
    try:
        settings(stepwise_forms()[run["workload"]].options, run["options"])
    except RequestError as error:
        reading.refuse(reading.lines["spec.run.options"], "spec.run.options", f"{error}")


def _task(found: dict[str, Any]) -> TrainingTask:
    spec, metadata = found["spec"], found["metadata"]
    run, resources, market = spec["run"], spec["resources"], spec["market"]
    classes = [CLASS_NAMES[name] for name in resources["classes"] or CLASS_NAMES]
    return TrainingTask(
        name=metadata["name"],
        labels=metadata["labels"],
        workload=run["workload"],
        input=run["input"],
        length=run["length"],
        options=run["options"],
        seed=run["seed"],
        milestones=run["milestones"],
        devices=resources["devices"],
        classes=tuple(sorted(classes)),
        is_homogeneous=resources["sameClass"],
        price_max=market["maxPrice"],
        time_value=market["valueOfTime"],
        loss=market["lossOnFailure"],
        collateral=market["collateral"],
        deadline=spec["limits"]["deadline"],
    )
