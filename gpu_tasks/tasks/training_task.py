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
from gpu_tasks.tasks.file_words import (
    COLLATERAL,
    CONTROL,
    LABEL,
    LOSS,
    MAX_PRICE,
    METADATA,
    NAME_MAX,
    VERSION,
    ReadFile,
    choice_word,
    deadline_of,
    path_of,
    quantity_word,
    whole_word,
)
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.quantities import RATE_PATTERN, SPAN_PATTERN, QuantityError, Rate, TimeSpan
from gpu_tasks.tasks.yaml_tree import FileNode, parse
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import RequestError, WorkloadForm, settings

KIND = "TrainingTask"
OPTIONS_MAX = 32
LENGTH_MAX = 2**32 - 1
MILESTONES_MAX = 64


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


TaskFile = ReadFile[TrainingTask]


def stepwise_forms() -> dict[str, WorkloadForm]:
    """The workloads that can be auctioned: those that run in steps, and so have milestones and can be taken over."""
    return {form.name: form for form in registry.FORMS if form.is_stepwise}


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise QuantityError("is true or false; write one of these words")
    return text == "true"


def _seed(text: str) -> bytes:
    if re.fullmatch("0x[0-9a-f]{64}", text) is None:
        raise QuantityError("is 0x and 64 hexadecimal digits, in small letters; or leave it out, and it is drawn")
    return bytes.fromhex(text[2:])


def _option(text: str) -> str:
    if len(text) > NAME_MAX or CONTROL.search(text):
        raise QuantityError(f"is a text of at most {NAME_MAX} letters")
    return text


_OPTION = Word(_option, {"type": ["string", "integer"], "maxLength": NAME_MAX})
_RUN = KeySection(
    (
        FileKey("input", quantity_word(path_of, "^.+$"), "the file to learn, beside the task file", is_required=True),
        FileKey(
            "workload",
            choice_word("workload that runs in steps", sorted(stepwise_forms())),
            "what is computed",
            next(iter(stepwise_forms())),
        ),
        FileKey("length", whole_word(1, LENGTH_MAX), "how much of it, in the workload's unit of cost: steps", "1000"),
        FileKey(
            "options",
            NamedWords(LABEL, _OPTION, OPTIONS_MAX),
            "of the workload, as `ogpu post --set` has them",
        ),
        FileKey(
            "seed", quantity_word(_seed, "^0x[0-9a-f]{64}$"), "of whatever chance is in it; drawn if it is left out"
        ),
        FileKey("milestones", whole_word(1, MILESTONES_MAX), "checkpoints that are paid for if the rest fails", "10"),
    )
)
_RESOURCES = KeySection(
    (
        FileKey("devices", whole_word(1, SLOTS_MAX), "how many compute it, each the whole run alone; all or none", "1"),
        FileKey("classes", WordList(choice_word("class", list(CLASS_NAMES)), len(CLASS_NAMES)), "that suit"),
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
        MAX_PRICE,
        FileKey(
            "valueOfTime",
            quantity_word(quantities.rate, RATE_PATTERN),
            "what it is worth to be done sooner; a quarter of maxPrice over the deadline if left out",
        ),
        LOSS,
        COLLATERAL,
    )
)
_LIMITS = KeySection(
    (FileKey("deadline", quantity_word(deadline_of, SPAN_PATTERN), "the most that a bid may promise", "6h"),)
)
FILE = KeySection(
    (
        VERSION,
        FileKey("kind", choice_word("kind of task", [KIND]), "what the file asks for", is_required=True),
        FileKey("metadata", METADATA, "what the task is called", is_required=True),
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
    return read_training_task(parse(data, file), file)


def read_training_task(tree: FileNode, file: str) -> TaskFile:
    """The task of a file's tree; TaskFileError says all that is wrong with it."""
    reading = FileReading()
    found = read_section(FILE, tree, "", reading)
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
