"""Task files and their inputs, as they lie on the disk.

Always: no more is read than may be used; an input lies beside its task file or below it, wherever links lead, so a
stranger's task file sends none of the reader's other files away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.client.image_files import ArchiveFile, ImageFileError, look_at_image
from gpu_tasks.tasks.canonical import INPUT_BYTES_MAX
from gpu_tasks.tasks.container_task import SavedImage
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import AskedTask, TaskSource, TrainingSource, read_any_task
from gpu_tasks.tasks.training_task import TaskFile, read_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from wallet.errors import WalletError


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A task file of any kind with its inputs."""

    source: TaskSource
    inputs: Mapping[str, bytes]
    """By the paths that the file names."""
    image: ArchiveFile | None = None
    """Of an image that comes as an archive."""

    @property
    def secrets(self) -> Sequence[str]:
        """The names of what is handed to who runs it."""
        return self.source.secrets

    def asked(self, seed: bytes, slot_ms: int) -> AskedTask:
        """What it comes to; `seed` is 32 bytes of chance. TaskFileError."""
        return self.source.prepared(self.inputs, seed, slot_ms)

    def identity(self) -> tuple[bytes, ...]:
        """What makes two submissions the same: what the file asks, and every byte of its inputs."""
        return repr(self.source.file.task).encode(), *(self.inputs[path] for path in sorted(self.inputs))


def load_any(path: Path) -> LoadedTask:
    """The task of a file with its inputs; TaskFileError says all that is wrong, WalletError why it cannot be read."""
    source = read_any_task(_bytes_of(path), str(path))
    inputs = {name: _input(path, name, source.refused) for name in source.inputs}
    return LoadedTask(source, inputs, None if source.image is None else _image(path, source.image, source.refused))


def load(path: Path) -> TaskFile:
    """The training task of a file; errors as `load_any`."""
    return read_task(_bytes_of(path), str(path))


def load_input(path: Path, file: TaskFile) -> bytes:
    """The bytes of the input that the training task at `path` names; TaskFileError where it is none to be sent."""
    return _input(path, file.task.input, TrainingSource(file).refused)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise WalletError(f"the task file {path} cannot be read: {_why(error)}; give the path of one") from None


def _input(path: Path, name: str, refused: Callable[[str], TaskFileError]) -> bytes:
    try:
        with _beside(path, name, refused).open("rb") as opened:
            return opened.read(INPUT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise refused(f"{name} cannot be read: {_why(error)}; put it beside the task file, or name another") from None


def _image(path: Path, saved: SavedImage, refused: Callable[[str], TaskFileError]) -> ArchiveFile:
    try:
        return look_at_image(_beside(path, saved.path, refused), saved.sha256)
    except ImageFileError as error:
        raise refused(str(error)) from None
    except (OSError, ValueError) as error:
        raise refused(f"{saved.path} cannot be read: {_why(error)}; put it beside the task file") from None


def _beside(path: Path, name: str, refused: Callable[[str], TaskFileError]) -> Path:
    """Where a file lies that a task file names; OSError, ValueError where there is none."""
    folder = path.parent.resolve()
    found = (folder / name).resolve(strict=True)
    if not found.is_relative_to(folder):
        raise refused(f"{name} leads out of the task file's folder; put the input beside the task file")
    if not found.is_file():
        raise refused(f"{name} is no file; name the file to learn")
    return found


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "no such path"
