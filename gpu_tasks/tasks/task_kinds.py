"""The kinds of task files: which reader a file wants, and what all of them come to.

Always: a kind that there is not is answered with those that there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.tasks.canonical import PreparedTask, prepare, terms_of
from gpu_tasks.tasks.container_order import prepare_container
from gpu_tasks.tasks.container_task import FILES, ContainerFile, SavedImage, read_container_task
from gpu_tasks.tasks.file_kinds import other_file
from gpu_tasks.tasks.file_words import ReadFile
from gpu_tasks.tasks.order import StoredInput, order_of
from gpu_tasks.tasks.problems import Problem, TaskFileError, unknown
from gpu_tasks.tasks.training_task import KIND, TaskFile, read_training_task
from gpu_tasks.tasks.yaml_tree import FileNode, Scalar, Table, parse

KINDS = (KIND, *FILES)


class AskedTask(Protocol):
    """A task of any kind that was read and prepared: what it comes to on a chain."""

    @property
    def name(self) -> str:
        """How its customer calls it."""
        ...

    @property
    def classes(self) -> Sequence[DeviceClass]:
        """Which devices suit."""
        ...

    @property
    def request(self) -> bytes:
        """What is sealed for who computes it."""
        ...

    @property
    def checked_by(self) -> CheckedBy:
        """How what it computes is checked, and so what is paid."""
        ...

    def intervals(self, slot_ms: int) -> int:
        """In how many intervals time is paid; 0 where a result is. TaskFileError as `terms`."""
        ...

    def terms(self, rules: TaskRules, slot_ms: int) -> TaskTerms:
        """What it asks of bids; TaskFileError where a chain with these slots would refuse it."""
        ...

    def order(self, stored: StoredInput, rules: TaskRules, slot_ms: int) -> TaskOrder:
        """What is submitted; TaskFileError as `terms`."""
        ...


@dataclass(frozen=True, slots=True)
class AskedTraining:
    """A training task. Implements `AskedTask`."""

    file: TaskFile
    prepared: PreparedTask

    @property
    def name(self) -> str:
        """See `AskedTask`."""
        return self.file.task.name

    @property
    def classes(self) -> Sequence[DeviceClass]:
        """See `AskedTask`."""
        return self.file.task.classes

    @property
    def request(self) -> bytes:
        """See `AskedTask`."""
        return self.prepared.request

    @property
    def checked_by(self) -> CheckedBy:
        """See `AskedTask`."""
        return CheckedBy.EXECUTED

    def intervals(self, slot_ms: int) -> int:
        """See `AskedTask`."""
        return 0

    def terms(self, rules: TaskRules, slot_ms: int) -> TaskTerms:
        """See `AskedTask`."""
        return terms_of(self.file, rules, slot_ms)

    def order(self, stored: StoredInput, rules: TaskRules, slot_ms: int) -> TaskOrder:
        """See `AskedTask`."""
        return order_of(self.file, self.prepared, stored, rules, slot_ms)


class TaskSource(Protocol):
    """What a file of any kind asks for, before its inputs are read."""

    @property
    def inputs(self) -> Sequence[str]:
        """The files that it names, as paths beside it."""
        ...

    @property
    def inputs_key(self) -> str:
        """Where in the file they stand."""
        ...

    @property
    def secrets(self) -> Sequence[str]:
        """The names of what is handed to who runs it, once it runs."""
        ...

    @property
    def image(self) -> SavedImage | None:
        """The archive of its image that lies beside the file."""
        ...

    def refused(self, text: str) -> TaskFileError:
        """That something is wrong with its inputs."""
        ...

    def identity(self) -> bytes:
        """What makes two submissions the same, its inputs apart."""
        ...

    def prepared(self, inputs: Mapping[str, bytes], seed: bytes, slot_ms: int) -> AskedTask:
        """With its inputs by their paths; `seed` is 32 bytes of chance. TaskFileError."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """A training task. Implements `TaskSource`."""

    file: TaskFile
    inputs_key: str = "spec.run.input"
    secrets: Sequence[str] = ()
    image: SavedImage | None = None

    @property
    def inputs(self) -> Sequence[str]:
        """See `TaskSource`."""
        return (self.file.task.input,)

    def refused(self, text: str) -> TaskFileError:
        """See `TaskSource`."""
        return _refused(self.file, self.inputs_key, text)

    def identity(self) -> bytes:
        """See `TaskSource`."""
        return repr(self.file.task).encode()

    def prepared(self, inputs: Mapping[str, bytes], seed: bytes, slot_ms: int) -> AskedTask:
        """See `TaskSource`."""
        return AskedTraining(self.file, prepare(self.file, inputs[self.file.task.input], seed))


@dataclass(frozen=True, slots=True)
class ContainerSource:
    """A job or a lease. Implements `TaskSource`."""

    file: ContainerFile
    inputs_key: str = "spec.run.inputs"

    @property
    def inputs(self) -> Sequence[str]:
        """See `TaskSource`."""
        return self.file.task.inputs

    @property
    def secrets(self) -> Sequence[str]:
        """See `TaskSource`."""
        return self.file.task.secrets

    @property
    def image(self) -> SavedImage | None:
        """See `TaskSource`."""
        image = self.file.task.image
        return image if isinstance(image, SavedImage) else None

    def refused(self, text: str) -> TaskFileError:
        """See `TaskSource`."""
        return _refused(self.file, self.inputs_key, text)

    def identity(self) -> bytes:
        """See `TaskSource`."""
        return repr(self.file.task).encode()

    def prepared(self, inputs: Mapping[str, bytes], seed: bytes, slot_ms: int) -> AskedTask:
        """See `TaskSource`."""
        return prepare_container(self.file, {path.rpartition("/")[2]: inputs[path] for path in inputs}, slot_ms)


def read_any_task(data: bytes, file: str) -> TrainingSource | ContainerSource:
    """The task of a file's bytes, of whichever kind; TaskFileError says all that is wrong with it."""
    if (other := other_file(data)) is not None:
        raise TaskFileError(file, [Problem(1, "", f"this is {other.value}")])
    tree = parse(data, file)
    kind = _kind(tree)
    if kind is not None and kind.text not in KINDS:
        text = f"is none of these: {unknown('kind of task', kind.text, KINDS)}"
        raise TaskFileError(file, [Problem(kind.line, "kind", text)])
    if kind is not None and kind.text in FILES:
        return ContainerSource(read_container_task(tree, kind.text, file))
    return TrainingSource(read_training_task(tree, file))


def _kind(tree: FileNode) -> Scalar | None:
    if not isinstance(tree, Table):
        return None
    return next((value for key, value in tree.entries if key.text == "kind" and isinstance(value, Scalar)), None)


def _refused(file: ReadFile[object], where: str, text: str) -> TaskFileError:
    return TaskFileError(file.file, [Problem(file.line(where), where, text)])
