"""The keys of a training task in a customer's file, with limits and defaults, and the resulting task.

Invariant: a task that was read keeps to all limits that need no chain and no input. `canonical.py` computes the values
that depend on these (blocks, the cost of a request, the least collateral).
"""

import re
from typing import Annotated

from pydantic import Field

from gpu_tasks.market.devices.records import CLASS_NAMES
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.tasks import quantities
from gpu_tasks.tasks.declarations import NamedWords, Section, Word, read_section, written
from gpu_tasks.tasks.file_words import (
    CONTROL,
    LABEL,
    NAME_MAX,
    SPAN,
    Classes,
    FilePath,
    Label,
    ReadFile,
    TaskForm,
    TaskMarket,
    TaskMetadata,
    choice_word,
    quantity_word,
    whole_word,
)
from gpu_tasks.tasks.quantities import RATE_PATTERN, QuantityError, Rate, TimeSpan
from gpu_tasks.tasks.yaml_tree import FileNode, parse
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import RequestError, WorkloadForm, settings

KIND = "TrainingTask"
OPTIONS_MAX = 32
LENGTH_MAX = 2**32 - 1
MILESTONES_MAX = 64


def stepwise_forms() -> dict[str, WorkloadForm]:
    """Return the workloads that can be auctioned: only those in steps have milestones and can be taken over."""
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
RunOption = Annotated[str, _OPTION]
_WORKLOADS = {name: name for name in sorted(stepwise_forms())}


class WorkloadRun(Section):
    """The computation and its input."""

    input: FilePath = Field(description="the file to learn, beside the task file")
    workload: Annotated[str, choice_word("workload that runs in steps", _WORKLOADS)] = Field(
        default=next(iter(stepwise_forms())), description="what is computed"
    )
    length: Annotated[int, whole_word(1, LENGTH_MAX)] = Field(
        default=1000, description="how much of it, in the workload's unit of cost: steps"
    )
    options: Annotated[dict[Label, RunOption], NamedWords(LABEL, _OPTION, OPTIONS_MAX)] = Field(
        default={}, description="of the workload, as `ogpu unit post --set` has them"
    )
    seed: Annotated[bytes | None, quantity_word(_seed, "^0x[0-9a-f]{64}$")] = Field(
        default=None, description="of whatever chance is in it; drawn if it is left out"
    )
    milestones: Annotated[int, whole_word(1, MILESTONES_MAX)] = Field(
        default=10, description="checkpoints that are paid for if the rest fails"
    )


class TrainingResources(Section):
    """The suitable devices."""

    devices: Annotated[int, whole_word(1, SLOTS_MAX)] = Field(
        default=1, description="how many compute it, each the whole run alone; all or none"
    )
    classes: Classes = Field(default=(), description="that suit")
    is_homogeneous: Annotated[bool, Word(_truth, {"type": "boolean"}, needs_no_quotes=True)] = Field(
        default=False, alias="sameClass", description="whether all must be of one class"
    )


class RunMarket(TaskMarket):
    """The price limits of a run."""

    time_value: Annotated[Rate | None, quantity_word(quantities.rate, RATE_PATTERN)] = Field(
        default=None,
        alias="valueOfTime",
        description="what it is worth to be done sooner; a quarter of maxPrice over the deadline if left out",
    )


class TrainingLimits(Section):
    """The time limit."""

    deadline: Annotated[TimeSpan, SPAN] = Field(default=written("6h"), description="the most that a bid may promise")


class TrainingSpec(Section):
    """A run of a workload."""

    run: WorkloadRun = Field(description="what is computed, on what")
    resources: TrainingResources = Field(default_factory=TrainingResources, description="who may compute it")
    market: RunMarket = Field(description="what it may cost")
    limits: TrainingLimits = Field(default_factory=TrainingLimits, description="how long it may take")


class TrainingFile(TaskForm):
    """The file of a training task."""

    kind: Annotated[str, choice_word("kind of task", {KIND: KIND})] = Field(description="what the file asks for")
    spec: TrainingSpec = Field(description="what is asked for")


class TrainingTask(TaskMetadata, WorkloadRun, TrainingResources, RunMarket, TrainingLimits):
    """All values of a file. Amounts are grains, for one device. None stands for the auction's default."""


TaskFile = ReadFile[TrainingTask]


def read_task(data: bytes, file: str) -> TaskFile:
    """Return the task of a file's bytes. Raise TaskFileError with all its problems.

    `file` is its name in messages.
    """
    return read_training_task(parse(data, file), file)


def read_training_task(tree: FileNode, file: str) -> TaskFile:
    """Return the task of a file's tree. Raise TaskFileError with all its problems."""
    found = read_section(TrainingFile, tree, file)
    spec = found.spec
    classes = tuple(sorted(spec.resources.classes or CLASS_NAMES.values()))
    sections = (found.metadata, spec.run, spec.resources, spec.market, spec.limits)
    read = ReadFile(file, TrainingTask.joined(*sections, classes=classes), tree)
    try:
        # Called only for its error: an unknown option is reported before the input is read.
        settings(stepwise_forms()[spec.run.workload].options, spec.run.options)
    except RequestError as error:
        raise read.refused("spec.run.options", f"{error}") from None
    return read
