"""Task files and their inputs, as they lie on the disk.

Always: no more is read than may be used; an input lies beside its task file or below it, wherever links lead, so a
stranger's task file sends none of the reader's other files away.
"""

from __future__ import annotations

from pathlib import Path

from gpu_tasks.tasks.canonical import INPUT_BYTES_MAX
from gpu_tasks.tasks.problems import Problem, TaskFileError
from gpu_tasks.tasks.training_task import TaskFile, read_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from wallet.errors import WalletError

INPUT = "spec.run.input"


def load(path: Path) -> TaskFile:
    """The task of a file; TaskFileError says all that is wrong with it, WalletError why it cannot be read."""
    try:
        with path.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise WalletError(f"the task file {path} cannot be read: {_why(error)}; give the path of one") from None
    return read_task(data, str(path))


def load_input(path: Path, file: TaskFile) -> bytes:
    """The bytes of the input that the task file at `path` names; TaskFileError where it is none that may be sent."""
    folder = path.parent.resolve()
    try:
        found = (folder / file.task.input).resolve(strict=True)
        if not found.is_relative_to(folder):
            raise _refused(file, "leads out of the task file's folder; put the input beside the task file")
        if not found.is_file():
            raise _refused(file, "is no file; name the file to learn")
        with found.open("rb") as opened:
            return opened.read(INPUT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise _refused(file, f"cannot be read: {_why(error)}; put it beside the task file, or name another") from None


def _refused(file: TaskFile, text: str) -> TaskFileError:
    return TaskFileError(file.file, [Problem(file.line(INPUT), INPUT, f"{file.task.input} {text}")])


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "no such path"
