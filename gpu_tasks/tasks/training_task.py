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


def _read_seed(seed_text: str) -> bytes:
    if re.fullmatch("0x[0-9a-f]{64}", seed_text) is None:
        raise QuantityError(
            "is not a seed; write 0x and 64 lower-case hex digits, or remove the line to draw one", code="invalid_seed"
        )
    return bytes.fromhex(seed_text[2:])


def _read_option(option_text: str) -> str:
    if len(option_text) > NAME_MAX or CONTROL.search(option_text):
        raise QuantityError(f"is not a text of at most {NAME_MAX} letters", code="wrong_letters")
    return option_text


_OPTION = Word(_read_option, {"type": ["string", "integer"], "maxLength": NAME_MAX})
RunOption = Annotated[str, _OPTION]
_WORKLOADS = {name: name for name in sorted(stepwise_forms())}


class WorkloadRun(Section):
    """The computation and its input."""

    input: FilePath = Field(description="the training data, a file beside the task file")
    workload: Annotated[str, choice_word("workload that runs in steps", _WORKLOADS)] = Field(
        default=next(iter(stepwise_forms())), description="the computation"
    )
    length: Annotated[int, whole_word(1, LENGTH_MAX)] = Field(default=1000, description="the number of steps")
    options: Annotated[dict[Label, RunOption], NamedWords(LABEL, _OPTION, OPTIONS_MAX)] = Field(
        default={}, description="options of the workload, as in `ogpu unit post --set`"
    )
    seed: Annotated[bytes | None, quantity_word(_read_seed, "^0x[0-9a-f]{64}$")] = Field(
        default=None, description="seed of its random numbers; by default random"
    )
    milestones: Annotated[int, whole_word(1, MILESTONES_MAX)] = Field(
        default=10, description="checkpoints, each paid even if the rest fails"
    )


class TrainingResources(Section):
    """The suitable devices."""

    devices: Annotated[int, whole_word(1, SLOTS_MAX)] = Field(
        default=1, description="number of devices; each computes the whole run, and the task starts with all or none"
    )
    classes: Classes = Field(default=(), description="suitable classes of devices")


class RunMarket(TaskMarket):
    """The price limits of a run."""

    time_value: Annotated[Rate | None, quantity_word(quantities.rate, RATE_PATTERN)] = Field(
        default=None,
        alias="valueOfTime",
        description="value of earlier completion; by default a quarter of maxPrice over the deadline",
    )


class TrainingLimits(Section):
    """The time limit."""

    deadline: Annotated[TimeSpan, SPAN] = Field(
        default=written("6h"), description="the longest time that a bid may promise"
    )


class TrainingSpec(Section):
    """A run of a workload."""

    run: WorkloadRun = Field(description="the computation and its input")
    resources: TrainingResources = Field(default_factory=TrainingResources, description="the suitable devices")
    market: RunMarket = Field(description="the price limits")
    limits: TrainingLimits = Field(default_factory=TrainingLimits, description="the time limit")


class TrainingFile(TaskForm):
    """The file of a training task."""

    kind: Annotated[str, choice_word("kind of task", {KIND: KIND})] = Field(description="the kind of task")
    spec: TrainingSpec = Field(description="the task")


class TrainingTask(TaskMetadata, WorkloadRun, TrainingResources, RunMarket, TrainingLimits):
    """All values of a file. Amounts are grains, for one device. None stands for the auction's default."""


TaskFile = ReadFile[TrainingTask]


def read_task(content: bytes, name: str) -> TaskFile:
    """Return the task of a file's bytes. Raise TaskFileError with all its problems.

    `name` is its name in messages.
    """
    return read_training_task(parse(content, name), name)


def read_training_task(tree: FileNode, name: str) -> TaskFile:
    """Return the task of a file's tree. Raise TaskFileError with all its problems."""
    form = read_section(TrainingFile, tree, name)
    training_spec = form.spec
    classes = tuple(sorted(training_spec.resources.classes or CLASS_NAMES.values()))
    sections = (
        form.metadata,
        training_spec.run,
        training_spec.resources,
        training_spec.market,
        training_spec.limits,
    )
    read = ReadFile(name, TrainingTask.joined(*sections, classes=classes), tree)
    try:
        # Called only for its error: an unknown option is reported before the input is read.
        settings(stepwise_forms()[training_spec.run.workload].options, training_spec.run.options)
    except RequestError as option_error:
        raise read.refused("spec.run.options", f"{option_error}", "invalid_request") from None
    return read
