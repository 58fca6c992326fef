"""One task for each index of an array, as in Slurm, and the record of submitted members.

Invariants:

* The array's record has a member before the member's own posting record is dropped, so a repeated command submits none
  twice.
* A member is its file's task with its index in the environment, and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

from gpu_tasks.client.tasks.orders import LoadedTask
from gpu_tasks.tasks.container_request import VARIABLES_MAX
from gpu_tasks.tasks.file_words import NAME_MAX
from gpu_tasks.tasks.task_kinds import ContainerSource
from wallet.errors import WalletError
from wallet.outbox import HeldRecord, OutboxFile, record_name

MEMBERS_MAX = 64
INDEX_VARIABLES = ("OGPU_ARRAY_INDEX", "SLURM_ARRAY_TASK_ID")
SET_VARIABLES = ("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
"""Further variables that Slurm scripts read."""
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6})(?::([0-9]{1,6}))?)?", re.ASCII)


class ArrayError(WalletError):
    """The options describe no array of tasks. The text gives the reason and the next step."""


@dataclass(frozen=True, slots=True)
class IndexSet:
    """A set of indices: `0-9`, `1,3,5-7` or `0-100:10`, each with `%4` for four members at once."""

    indices: tuple[int, ...]
    at_once: int | None = None


def index_set(text: str) -> IndexSet:
    """Return the indices of an array in ascending order, without duplicates. Raise ArrayError for other texts."""
    ranges, is_bounded, bound = text.partition("%")
    if is_bounded and not (bound.isdecimal() and 1 <= len(bound) <= 3 and int(bound)):
        raise ArrayError(f"--array {text!r:.40}: % needs a number of tasks at once, such as %4", code="invalid_array")
    indices: set[int] = set()
    for range_text in ranges.split(","):
        match = _RANGE.fullmatch(range_text)
        if match is None:
            raise ArrayError(
                f"--array {text!r:.40} is not an array. Write 0-9, 1,3,5-7 or 0-100:10, with %4 for four at once",
                code="invalid_array",
            )
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        # The size is checked before the set is built: `0-999999` must not fill the memory.
        if last < first or not step or (last - first) // step >= MEMBERS_MAX:
            raise ArrayError(
                f"--array {text!r:.40} has a falling range, or more than {MEMBERS_MAX} tasks",
                code="invalid_array",
            )
        indices |= set(range(first, last + 1, step))
    if len(indices) > MEMBERS_MAX:
        raise ArrayError(f"--array {text!r:.40} has more than {MEMBERS_MAX} tasks", code="too_many_tasks")
    return IndexSet(tuple(sorted(indices)), int(bound) if is_bounded else None)


def member_of(loaded: LoadedTask, asked: IndexSet, index: int) -> LoadedTask:
    """Return the task of one index. Raise ArrayError if the task has no environment, or if it is full."""
    source = loaded.source
    if not isinstance(source, ContainerSource):
        raise ArrayError(
            "--array is for jobs and leases. Other tasks have no environment, and so no index",
            code="not_for_arrays",
        )
    task = source.file.task
    array_bounds = (len(asked.indices), asked.indices[0], asked.indices[-1])
    member_variables = dict.fromkeys(INDEX_VARIABLES, str(index)) | dict(
        zip(SET_VARIABLES, map(str, array_bounds), strict=True)
    )
    # The array's own variables win: a file that sets one of these names would hide the index from its program.
    environment = dict(task.environment) | member_variables
    if len(environment) > VARIABLES_MAX:
        raise ArrayError(
            f"--array adds variables, and the file then has more than {VARIABLES_MAX}. Name fewer in the file",
            code="too_many_variables",
        )
    suffix = f"-{index}"
    # The index stays whole when the name is cut, so members have different names.
    named_task = task.model_copy(
        update={"name": task.name[: NAME_MAX - len(suffix)] + suffix, "environment": environment}
    )
    return replace(loaded, source=replace(source, file=replace(source.file, task=named_task)))


@dataclass(slots=True)
class ArrayRecord(HeldRecord):
    """The members that are on the chain."""

    kind: ClassVar[bytes] = b"array"
    members: dict[int, str] = field(default_factory=dict)
    """The tasks in hexadecimal, by index."""

    @classmethod
    def open(cls, place: Path | OutboxFile, *identity: bytes) -> Self:
        """Return the record of an array, with earlier tries. Raise RecordBusyError if another process holds it."""
        busy = "the same array is being submitted by another `ogpu task submit`: wait for it"
        return cls.held(place, record_name(*identity), busy)

    def note(self, index: int, task: bytes) -> None:
        """Note that a member is on the chain."""
        self.outbox.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?)", self.name, index, task)
        self.members[index] = task.hex()

    def remove(self, index: int) -> None:
        """Remove a member that ended without a provider, because it is submitted again."""
        self.outbox.execute("DELETE FROM members WHERE array = ? AND number = ?", self.name, index)
        self.members.pop(index, None)

    def forget(self) -> None:
        """Forget all members."""
        self.outbox.execute("DELETE FROM members WHERE array = ?", self.name)
        self.members.clear()

    def _load(self) -> None:
        rows = self.outbox.rows("SELECT number, task FROM members WHERE array = ? ORDER BY number", self.name)
        self.members = {number: task.hex() for number, task in rows}
