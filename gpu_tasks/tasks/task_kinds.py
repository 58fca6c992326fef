"""The kinds of task files: the parser of each kind, and their common form.

Invariant: the error for an unknown kind lists the known ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.tasks.canonical import PreparedTask, prepare, terms_of
from gpu_tasks.tasks.container_order import PreparedContainer, prepare_container
from gpu_tasks.tasks.container_task import FILES, ContainerFile, SavedImage, read_container_task
from gpu_tasks.tasks.declarations import JsonSchema, schema_of
from gpu_tasks.tasks.file_words import API_VERSION, TaskForm
from gpu_tasks.tasks.order import StoredInput, order_of
from gpu_tasks.tasks.problems import Problem, TaskFileError, choices, shown
from gpu_tasks.tasks.training_task import KIND, TaskFile, TrainingFile, read_training_task
from gpu_tasks.tasks.yaml_tree import Scalar, Table, parse

FORMS: Mapping[str, type[TaskForm]] = {KIND: TrainingFile, **FILES}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


_KEY = re.compile(rb"^([A-Za-z]{1,20}):[ \t]*[\"']?([^\s\"'#]*)", re.MULTILINE)
_OWN = b"ogpu/"


class OtherFile(Enum):
    """A kind of another program's file, and the remedy."""

    KUBERNETES = "a Kubernetes file; write its container as a job (docs/tasks.md)"
    COMPOSE = "a Compose file; convert it with `ogpu task convert`"
    SDL = "an Akash deployment; convert it with `ogpu task convert`"
    SCRIPT = "a script; convert it with `ogpu task convert`"


def other_file(content: bytes) -> OtherFile | None:
    """Return the kind of another program's file, or None for task files and unknown files."""
    # By a pattern and not by the parser, because the files of other programs need not pass its limits.
    values = {match[1]: match[2] for match in _KEY.finditer(content)}
    if b"apiVersion" in values:
        is_other = b"kind" in values and not values[b"apiVersion"].startswith(_OWN)
        return OtherFile.KUBERNETES if is_other else None
    if b"services" in values:
        return OtherFile.SDL if {b"profiles", b"deployment"} & values.keys() else OtherFile.COMPOSE
    return OtherFile.SCRIPT if content.startswith(b"#!/") else None


@dataclass(frozen=True, slots=True)
class AskedTraining:
    """A training task with its request. Methods raise TaskFileError where a chain with these slots would refuse it."""

    file: TaskFile
    prepared: PreparedTask
    checked_by: CheckedBy = CheckedBy.EXECUTED

    @property
    def name(self) -> str:
        """The customer's name for it."""
        return self.file.task.name

    @property
    def classes(self) -> Sequence[DeviceClass]:
        """The suitable classes of devices."""
        return self.file.task.classes

    @property
    def request(self) -> bytes:
        """The bytes that are sealed for its provider."""
        return self.prepared.request

    def intervals(self, _slot_ms: int) -> int:
        """Return 0, because a result is paid and not time."""
        return 0

    def terms(self, task_rules: TaskRules, slot_length_ms: int) -> TaskTerms:
        """Return the task's terms for bids."""
        return terms_of(self.file, self.prepared.segments, task_rules, slot_length_ms)

    def order(self, stored: StoredInput, task_rules: TaskRules, slot_length_ms: int) -> TaskOrder:
        """Return the order to submit."""
        return order_of(self.file, self.prepared, stored, task_rules, slot_length_ms)


AskedTask = AskedTraining | PreparedContainer
"""A parsed and prepared task."""


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """The file of a training task, before its input is read."""

    file: TaskFile
    secrets: Sequence[str] = ()
    image: SavedImage | None = None

    @property
    def inputs(self) -> Sequence[str]:
        """The input files, as paths beside the task file."""
        return (self.file.task.input,)

    def refused(self, text: str) -> TaskFileError:
        """Return the error of an input."""
        return self.file.refused("spec.run.input", text, "unusable_input")

    def prepared(self, input_files: Mapping[str, bytes], seed: bytes, _slot_ms: int) -> AskedTask:
        """Return the task with its inputs by their paths; `seed` is 32 random bytes.

        Raise TaskFileError for a bad input.
        """
        return AskedTraining(self.file, prepare(self.file, input_files[self.file.task.input], seed))


@dataclass(frozen=True, slots=True)
class ContainerSource:
    """The file of a job or a lease, before its inputs are read."""

    file: ContainerFile

    @property
    def inputs(self) -> Sequence[str]:
        """The input files, as paths beside the task file."""
        return self.file.task.inputs

    @property
    def secrets(self) -> Sequence[str]:
        """The names of secrets that its provider receives at the start."""
        return self.file.task.secrets

    @property
    def image(self) -> SavedImage | None:
        """The archive of its image beside the file."""
        saved_image = self.file.task.image
        return saved_image if isinstance(saved_image, SavedImage) else None

    def refused(self, text: str) -> TaskFileError:
        """Return the error of an input."""
        return self.file.refused("spec.run.inputs", text, "unusable_input")

    def prepared(self, input_files: Mapping[str, bytes], _seed: bytes, slot_ms: int) -> AskedTask:
        """Return the task with its inputs by file name, from contents by path. Raise TaskFileError for a bad input."""
        return prepare_container(
            self.file,
            {path.rpartition("/")[2]: input_files[path] for path in input_files},
            slot_ms,
        )


TaskSource = TrainingSource | ContainerSource


def read_any_task(content: bytes, name: str) -> TaskSource:
    """Return the task of a file's bytes, of any kind. Raise TaskFileError with all its problems."""
    # Before the parser: its errors would hide that the file belongs to another program.
    if (other_file_kind := other_file(content)) is not None:
        raise TaskFileError(name, [Problem(1, "", f"this is {other_file_kind.value}", other_file_kind.name.lower())])
    tree = parse(content, name)
    kind = tree.get(Scalar("kind", 1)) if isinstance(tree, Table) else None
    # The parser of training tasks also reports a missing kind.
    if not isinstance(kind, Scalar) or kind == KIND:
        return TrainingSource(read_training_task(tree, name))
    if kind not in FILES:
        text = f"{shown(kind)} is not a kind of task; {choices(kind, list(FORMS))}"
        raise TaskFileError(name, [Problem(kind.line, "kind", text, "unknown_name")])
    return ContainerSource(read_container_task(tree, kind, name))


def task_schema(kind: str = KIND) -> JsonSchema:
    """Return the JSON Schema of a kind. It accepts every valid file, and refuses most invalid ones."""
    return {"$schema": DIALECT, "$id": f"{API_VERSION}/{kind}", "title": kind, **schema_of(FORMS[kind])}
