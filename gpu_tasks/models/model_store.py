"""The folder of model files. Each is named by its model id, and found by its name or by the first digits of the id.

Behind the user's folder comes that of the package, which holds the built-in models and is only read.

Invariant: a file gets its name after all its bytes are checked and on the disk. Two programs that add one model write
the same bytes, so the later one replaces the file of the earlier one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpu_tasks.models import model_file
from gpu_tasks.models.errors import ModelError
from gpu_tasks.models.model_file import (
    DRAFT_SUFFIX,
    ByteProgress,
    ModelFields,
    ModelFileError,
    ModelHeader,
    SectionContent,
)

FOLDER_VARIABLE = "OGPU_MODELS"
DATA_VARIABLE = "XDG_DATA_HOME"
FILE_SUFFIX = ".ogpu-model"
BUILT_IN_FOLDER = Path(__file__).with_name("built_in")
DIGITS_LEAST = 4
ABANDONED_SECONDS = 86_400
"""The age at which a draft belongs to a program that was killed."""
_DIGITS = re.compile(r"(?:0x)?([0-9a-f]{4,64})")
_FILE_NAME = re.compile(rf"([0-9a-f]{{64}}){re.escape(FILE_SUFFIX)}")
_ADVICE = "`ogpu model list` shows your models; install one with `ogpu model fetch` or `ogpu model import`"


class ModelMissingError(ModelError):
    """No model, or more than one, has this id or name."""


class ModelStoreError(ModelError):
    """The folder cannot be used, or a new model is another one than expected."""


class DamagedFile(NamedTuple):
    """A file in the folder that is not the model of its name."""

    path: Path
    error: ModelFileError


def default_folder() -> Path:
    """Return the folder of this user's model files. Raise RuntimeError for a user without a home folder."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named).expanduser().absolute()
    data_folder = os.environ.get(DATA_VARIABLE, "")
    # The XDG Base Directory Specification: ignore a relative path.
    return (Path(data_folder) if data_folder.startswith("/") else Path.home() / ".local/share") / "ogpu/models"


class ModelStore:
    """The model files of one folder, and behind them the built-in models."""

    def __init__(self, folder: Path) -> None:
        """`folder` is created when the first model is added."""
        self.folder = folder.expanduser()
        self._built_in = BUILT_IN_FOLDER

    def path(self, model_id: bytes) -> Path:
        """Return the path of a model's file, whose header is checked and whose sections are not.

        Raise ModelMissingError, or ModelFileError for a file with another header.
        """
        return self._checked(model_id)[0]

    def models(self) -> list[ModelHeader]:
        """Return the headers of all models, by name. Damaged files are left out. Raise ModelStoreError."""
        return sorted(
            (header for header in self._read() if isinstance(header, ModelHeader)),
            key=lambda header: (header.name, header.model_id),
        )

    def damaged(self) -> list[DamagedFile]:
        """Return the files that are not the models of their names. Raise ModelStoreError."""
        return [found for found in self._read() if isinstance(found, DamagedFile)]

    def find(self, text: str) -> ModelHeader:
        """Return the model with this name, or whose id begins with these digits, at least `DIGITS_LEAST`.

        Raise ModelMissingError for none or several, and ModelFileError if the whole id of a damaged file is given.
        """
        digits = _DIGITS.fullmatch(text.lower())
        if digits is not None and len(digits[1]) == 64:
            return self._checked(bytes.fromhex(digits[1]))[1]
        found = [
            header
            for header in self.models()
            # Names have lower case. The source of an imported model often has not.
            if header.name == text.lower() or (digits is not None and header.model_id.hex().startswith(digits[1]))
        ]
        if len(found) > 1:
            listed = ", ".join(f"{header.name} 0x{header.model_id.hex()}" for header in found)
            raise ModelMissingError(
                f"{text!r} stands for {len(found)} models: {listed}. Type more digits of an id", code="model_ambiguous"
            )
        if not found:
            raise ModelMissingError(f"there is no model {text!r} in {self.folder}. {_ADVICE}", code="model_missing")
        return found[0]

    def add(self, path: Path, progress: ByteProgress = lambda _: None) -> ModelHeader:
        """Copy a model file into the folder, checking every byte, and return its header.

        Raise ModelFileError or ModelStoreError.
        """
        return self._keep(lambda stream: model_file.copy_verified(path, stream, progress), None)

    def create(
        self,
        model_fields: ModelFields,
        sections: Iterable[tuple[str, SectionContent]],
        *,
        expected_id: bytes | None = None,
    ) -> ModelHeader:
        """Write a new model file into the folder and return its header.

        Raise ModelFileError, and ModelStoreError `another_model` if the id is not `expected_id`. Nothing is added then.
        """
        return self._keep(lambda stream: model_file.write_sections(stream, model_fields, sections), expected_id)

    def remove(self, model_id: bytes) -> None:
        """Remove a model from the folder, damaged or not. Raise ModelMissingError or ModelStoreError."""
        path = _place(self.folder, model_id)
        try:
            path.unlink()
        except FileNotFoundError:
            if self.is_built_in(model_id):
                raise ModelStoreError(
                    f"the model 0x{model_id.hex()} is a part of ogpu, and stays with it", code="built_in"
                ) from None
            raise self._missing(model_id) from None
        except OSError as error:
            raise _store_error(path, error) from None

    def is_built_in(self, model_id: bytes) -> bool:
        """Return whether the package holds the model."""
        return _place(self._built_in, model_id).is_file()

    def _missing(self, model_id: bytes) -> ModelMissingError:
        return ModelMissingError(
            f"there is no model 0x{model_id.hex()} in {self.folder}. {_ADVICE}", code="model_missing"
        )

    def _checked(self, model_id: bytes) -> tuple[Path, ModelHeader]:
        places = (_place(folder, model_id) for folder in (self.folder, self._built_in))
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise self._missing(model_id)
        header = model_file.read_header(path)
        # Anybody can rename a file, and the provider would then compute with another model than it sells.
        if header.model_id != model_id:
            raise ModelFileError(
                f"{path} holds another model, 0x{header.model_id.hex()}. Remove the file, and fetch or import the "
                "model again",
                code="another_model",
            )
        return path, header

    def _read(self) -> Iterator[ModelHeader | DamagedFile]:
        """Yield every model file once, in the order of the ids."""
        for model_id in sorted({*_ids_in(self.folder), *_ids_in(self._built_in)}):
            try:
                yield self._checked(model_id)[1]
            except ModelFileError as error:
                yield DamagedFile(_place(self.folder, model_id), error)
            except ModelMissingError:  # another program removed it
                continue

    def _keep(self, write: Callable[[BinaryIO], ModelHeader], expected_id: bytes | None) -> ModelHeader:
        """Write a draft in the folder, and give it the name of its id."""
        with _usable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with model_file.draft_beside(self.folder / FILE_SUFFIX) as draft:
            self._remove_abandoned(draft.path)
            header = write(draft.stream)
            if expected_id is not None and header.model_id != expected_id:
                raise ModelStoreError(
                    f"the model has the id 0x{header.model_id.hex()}, and not 0x{expected_id.hex()}. It was made "
                    "from another source or by another version of this program",
                    code="another_model",
                )
            draft.give_name(_place(self.folder, header.model_id))
        return header

    def _remove_abandoned(self, own_draft: Path) -> None:
        """Remove the drafts of programs that were killed, by the clock of the file system."""
        with suppress(OSError):
            # The own draft gives the time, because the clock of a network file system may differ from the local one.
            newest = own_draft.stat().st_mtime
            for path in self.folder.glob(f".*{DRAFT_SUFFIX}"):
                # A younger draft may belong to a second import that still runs.
                if path.stat().st_mtime < newest - ABANDONED_SECONDS:
                    path.unlink()


def _place(folder: Path, model_id: bytes) -> Path:
    return folder / f"{model_id.hex()}{FILE_SUFFIX}"


def _ids_in(folder: Path) -> list[bytes]:
    """Return the ids in the names of a folder's files. Raise ModelStoreError."""
    try:
        file_names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _store_error(folder, error) from None
    return [bytes.fromhex(found[1]) for name in file_names if (found := _FILE_NAME.fullmatch(name))]


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _store_error(folder, error) from None


def _store_error(place: Path, error: OSError) -> ModelStoreError:
    return ModelStoreError(
        f"{place} cannot be used: {error.strerror or error}. Correct that, or name another folder with --models or "
        f"{FOLDER_VARIABLE}",
        code="store_unusable",
    )
