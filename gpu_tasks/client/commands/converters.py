"""Convert the files of other systems to task files, and list the settings that no task has."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import click

from cli.session import WalletSession
from gpu_tasks.client.commands.tasks import ANY_SLOT_MS
from gpu_tasks.client.input_files import read_input
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.tasks.compose import from_compose
from gpu_tasks.client.tasks.drafts import DraftOrigin, ProgramDraft, in_own_words, option_origins, variable_key
from gpu_tasks.client.tasks.foreign import Carrying, Foreign, ForeignFileError
from gpu_tasks.client.tasks.orders import look_at_image
from gpu_tasks.client.tasks.sbatch import SCRIPT_BYTES_MAX, from_sbatch
from gpu_tasks.client.tasks.sdl import from_sdl
from gpu_tasks.tasks.container_order import intervals_of
from gpu_tasks.tasks.container_task import RESOURCE_DEFAULTS, TIME_DEFAULT
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import ContainerSource, OtherFile, other_file, read_any_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from wallet.errors import harmless

SBATCH_LINE = re.compile(rb"^#SBATCH\b", re.MULTILINE)
LIMITS = ("time", "cpu", "memory", "disk", "processes")
"""Fields of a draft that have an option, with the default if neither the file nor an option sets them."""
DEFAULTS = {**RESOURCE_DEFAULTS, "time": TIME_DEFAULT}
OPTION_ORIGINS = option_origins({name: f"--{name}" for name in (*LIMITS, "archive", "network")} | {
    "max_price": "--max-price", "classes": "--class",
})  # fmt: skip


class ForeignForm(Enum):
    """A form of files of another system."""

    SBATCH = "sbatch"
    COMPOSE = "compose"
    SDL = "sdl"


BY_CONTENT = {
    OtherFile.SCRIPT: ForeignForm.SBATCH,
    OtherFile.COMPOSE: ForeignForm.COMPOSE,
    OtherFile.SDL: ForeignForm.SDL,
}


def form_by_content(source_path: Path, file_bytes: bytes) -> ForeignForm:
    """Return the form of a file. Raise ForeignFileError if its content shows none that can be converted."""
    other = other_file(file_bytes)
    if other is OtherFile.KUBERNETES:
        raise ForeignFileError(f"{source_path} is {other.value}", code="other_kind_of_file")
    if other is None and SBATCH_LINE.search(file_bytes) is not None:
        return ForeignForm.SBATCH
    if other is None:
        raise ForeignFileError(
            f"{source_path} is not a Slurm script, a Compose file or an Akash deployment. Name its form with --from. "
            "Submit a task file as it is, with `ogpu task submit`",
            code="form_unknown",
        )
    return BY_CONTENT[other]


def convert(
    session: WalletSession, /, file: Path, form: str | None, out: Path | None, force: bool, **given: Any
) -> None:
    """Carry out `ogpu task convert`."""
    file_bytes = read_foreign(file)
    draft, hints = converted(file, file_bytes, None if form is None else ForeignForm(form), given, out=out)
    if out is None:
        click.echo(draft.json_text() if session.output.as_json else draft.text(), nl=False)
    else:
        written = OutputFile(out, force).write("task.yaml", draft.text().encode())
        click.echo(f"written to {written}", err=True)
    if hints:
        # The hints come from the file, and a terminal shows them.
        click.echo(f"submit it with `ogpu task submit {harmless(' '.join(hints))} FILE`", err=True)


def read_foreign(source_path: Path) -> bytes:
    """Return the bytes of another system's file, at most one byte more than any form may have."""
    return read_input(source_path, max(FILE_BYTES_MAX, SCRIPT_BYTES_MAX))


def converted(
    source_path: Path,
    file_bytes: bytes,
    foreign_form: ForeignForm | None,
    given: dict[str, Any],
    *,
    out: Path | None = None,
) -> tuple[ProgramDraft, Sequence[str]]:
    """Return the task of a file with these bytes, and its options for `ogpu task submit`.

    Losses and defaults go to standard error.
    `given` are the options of `conversion_options`. Raise ForeignFileError for a file that is no task.
    """
    foreign_form = foreign_form or form_by_content(source_path, file_bytes)
    if foreign_form is ForeignForm.SBATCH:
        if given.get("service") is not None or given.get("is_job"):
            raise click.UsageError("--service and --job are for Compose and Akash files")
        _require_beside(source_path, out)
    try:
        foreign = _converted(source_path, file_bytes, foreign_form, given)
    except ForeignFileError as error:
        if error.left_out is not None:
            error.left_out.drop_given(_named_variables(given))
            _tell_left_out(error.left_out)
        if error.line is None:
            raise
        raise ForeignFileError(f"{source_path}:{error.line}: {error}", code=error.code) from None
    foreign.carrying.drop_given(_named_variables(given))
    try:
        draft = _draft_of(source_path, foreign, given, out)
    except ForeignFileError:
        _tell_left_out(foreign.carrying)
        raise
    # Slurm gives a job one core too, so that default changes nothing.
    _note_defaults(draft, foreign.carrying, ("cpu",) if foreign_form is ForeignForm.SBATCH else ())
    _tell_left_out(foreign.carrying)
    if given["strict"] and foreign.carrying.losses:
        raise ForeignFileError("--strict: the program would run differently, as the lines with ! say", code="strict")
    return draft, foreign.hints


def _converted(source_path: Path, file_bytes: bytes, foreign_form: ForeignForm, given: dict[str, Any]) -> Foreign:
    image, price, network = given["image"], given["max_price"], given["network"]
    is_archived = given["archive"] is not None
    if foreign_form is ForeignForm.SBATCH:
        return from_sbatch(file_bytes, source_path.name, image, price, network, is_archived=is_archived)
    service, is_job = given["service"], given["is_job"]
    if foreign_form is ForeignForm.COMPOSE:
        variables = _named_variables(given)
        return from_compose(
            file_bytes,
            str(source_path),
            service,
            image,
            price,
            variables,
            is_job=is_job,
            network=network,
            is_archived=is_archived,
        )
    return from_sdl(
        file_bytes, str(source_path), service, image, price, is_job=is_job, network=network, is_archived=is_archived
    )


def _require_beside(sent: Path, out: Path | None) -> None:
    """Raise UsageError for a task file in another folder than a file that it names."""
    folder = None if out is None else (out if out.is_dir() else out.parent).resolve()
    if folder is not None and folder != sent.resolve().parent:
        raise click.UsageError(f"--out: write the task file beside {sent}, which the task sends along")


def _tell_left_out(carrying: Carrying) -> None:
    for omission in carrying.left_out:
        click.echo(harmless(str(omission)), err=True)
    if carrying.more:
        click.echo(f"… and {carrying.more} more", err=True)


def _draft_of(source_path: Path, foreign: Foreign, given: dict[str, Any], out: Path | None) -> ProgramDraft:
    """Return the draft with the options of the command line. Raise ForeignFileError if it is not a task."""
    variables, carrying = _named_variables(given), foreign.carrying
    limit_options = {name: given[name] for name in LIMITS if given[name]}
    draft = replace(
        foreign.draft,
        env={**foreign.draft.env, **variables},
        classes=given["classes"] or foreign.draft.classes,
        archive=_archive_name(given["archive"], out),
        **limit_options,
    )
    option_keys = {key: origin for key, origin in OPTION_ORIGINS.items() if key not in carrying.origins}
    option_keys |= option_origins(
        {name: f"--{name}" for name in limit_options} | ({"image": "--image"} if given["image"] else {})
    )
    option_keys |= {variable_key(name): DraftOrigin(f"--env {name}") for name in variables}
    try:
        source = read_any_task(draft.text().encode(), "the task")
        if isinstance(source, ContainerSource):
            intervals_of(source.file, ANY_SLOT_MS)
            if source.image is not None:
                look_at_image(given["archive"], source.image.sha256)
    except TaskFileError as error:
        raise ForeignFileError(in_own_words(error, {**carrying.origins, **option_keys}, str(source_path))) from None
    except OSError as error:
        raise ForeignFileError(
            f"--archive: {given['archive']} cannot be read: {error.strerror}", code="archive_unreadable"
        ) from None
    return draft


def _archive_name(archive: Path | None, out: Path | None) -> str:
    """Return the archive's name beside the task file. Raise UsageError if the two lie in different folders."""
    if archive is None:
        return ""
    _require_beside(archive, out)
    return archive.name


def _note_defaults(draft: ProgramDraft, carrying: Carrying, unnoted: tuple[str, ...]) -> None:
    """Note the filled-in defaults, because other systems have no limit or another one."""
    for name in LIMITS:
        if not getattr(draft, name) and name not in unnoted:
            carrying.leave(
                f"no {name}", f"the file sets none, so the default {DEFAULTS[name]} applies. Set it with --{name}"
            )


def _named_variables(given: dict[str, Any]) -> dict[str, str]:
    """Return the variables of --env. Raise ForeignFileError for a bare name that the environment lacks."""
    variables: dict[str, str] = {}
    for word in given["variables"]:
        name, is_set, value = word.partition("=")
        if not is_set and name not in os.environ:
            raise ForeignFileError(
                f"--env {word!r}: this variable is not in your environment. Write NAME=VALUE", code="variable_unset"
            )
        variables[name] = value if is_set else os.environ[name]
    return variables
