"""`from-sbatch`, `from-compose`, `from-sdl`: others' files as task files, with all that was left out and why."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cli.session import WalletSession, explained
from gpu_tasks.client.commands.tasks import ANY_SLOT_MS, TASK_PRICE
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.tasks.compose import from_compose as compose_draft
from gpu_tasks.client.tasks.drafts import DraftOrigin, ProgramDraft, in_own_words, option_origins, variable_key
from gpu_tasks.client.tasks.foreign import Carrying, Foreign, ForeignFileError
from gpu_tasks.client.tasks.orders import look_at_image
from gpu_tasks.client.tasks.sbatch import SCRIPT_BYTES_MAX
from gpu_tasks.client.tasks.sbatch import from_sbatch as sbatch_draft
from gpu_tasks.client.tasks.sdl import from_sdl as sdl_draft
from gpu_tasks.market.devices.records import CLASS_NAMES
from gpu_tasks.tasks.container_order import intervals_of
from gpu_tasks.tasks.container_task import NETWORKS, RESOURCE_DEFAULTS, TIME_DEFAULT
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import ContainerSource, read_any_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from wallet.errors import harmless

_OPTIONS = (
    click.argument("file", type=click.Path(path_type=Path)),
    click.option("--image", metavar="NAME@sha256:…", help="The image, by its digest.  [default: the file's]"),
    click.option(
        "--archive",
        type=click.Path(path_type=Path),
        help="The image's `docker save` archive, beside the task file; --image is then its id.",
    ),
    click.option(
        "--max-price", type=TASK_PRICE, required=True, help="Maximum cost of the whole time, such as `2 oGPU`."
    ),
    click.option("--class", "classes", multiple=True, type=click.Choice(list(CLASS_NAMES)), help="Devices that suit."),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable more, which bidders can read; NAME alone is your environment's. Repeatable.",
    ),
    click.option("--time", default="", help="Time to buy, such as `2h`.  [default: the file's, or 1h]"),
    click.option("--cpu", default="", help="Cores.  [default: the file's, or 1]"),
    click.option("--memory", default="", help="Memory, such as `2Gi`.  [default: the file's, or 512Mi]"),
    click.option("--disk", default="", help="Size of /workspace.  [default: the file's, or 64Mi]"),
    click.option("--processes", default="", help="Processes and threads.  [default: the file's, or 128]"),
    click.option("--network", type=click.Choice(list(NETWORKS)), default="none", help="What it may reach."),
    click.option("--strict", is_flag=True, help="Write nothing if the program would run differently."),
    click.option("-o", "--out", type=click.Path(path_type=Path), help="The task file.  [default: standard output]"),
    click.option("--force", is_flag=True, help="Replace the file of --out where there is one."),
)
service_option = click.option("--service", help="Which service, where the file has several.")
LIMITS = ("time", "cpu", "memory", "disk", "processes")
"""Fields of a draft that have an option, with the default if neither the file nor an option sets them."""
DEFAULTS = {**RESOURCE_DEFAULTS, "time": TIME_DEFAULT}
OPTION_ORIGINS = option_origins({name: f"--{name}" for name in (*LIMITS, "archive", "network")} | {
    "max_price": "--max-price", "classes": "--class",
})  # fmt: skip
job_option = click.option("--job", "is_job", is_flag=True, help="A job, which ends with its program, and no lease.")


def conversion_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What all three take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("from-sbatch")
@conversion_options
def from_sbatch(file: Path, image: str | None, max_price: str, network: str, **given: Any) -> None:
    """Write the task file of a Slurm batch script.

    FILE goes along as the job's input, and is run there. The command names each setting that no task has, with the
    reason; a `!` before it says that the program runs differently without.
    """
    out = given["out"]
    folder = None if out is None else (out if out.is_dir() else out.parent).resolve()
    if folder is not None and folder != file.resolve().parent:
        raise click.UsageError(f"--out: write it beside {file}, which the task sends along")
    _convert(
        file,
        lambda data: sbatch_draft(data, file.name, image, max_price, network, is_archived=given["archive"] is not None),
        {**given, "image": image},
        bytes_max=SCRIPT_BYTES_MAX,
        unnoted=("cpu",),
    )


@click.command("from-compose")
@conversion_options
@service_option
@job_option
def from_compose(
    file: Path, image: str | None, max_price: str, network: str, service: str | None, is_job: bool, **given: Any
) -> None:
    """Write the task file of a service of a Compose file.

    It becomes a lease, or with --job a job. A variable without a value is that of your environment where you name
    it too, by --env NAME. The command names each setting that no task has, with the reason.
    """
    _convert(
        file,
        lambda data: compose_draft(
            data,
            str(file),
            service,
            image,
            max_price,
            _named_variables(given),
            is_job=is_job,
            network=network,
            is_archived=given["archive"] is not None,
        ),
        {**given, "image": image},
    )


@click.command("from-sdl")
@conversion_options
@service_option
@job_option
def from_sdl(
    file: Path, image: str | None, max_price: str, network: str, service: str | None, is_job: bool, **given: Any
) -> None:
    """Write the task file of a service of an Akash deployment.

    It becomes a lease, or with --job a job. Its prices are another chain's, so --max-price is needed. The command
    names each setting that no task has, with the reason.
    """
    _convert(
        file,
        lambda data: sdl_draft(
            data,
            str(file),
            service,
            image,
            max_price,
            is_job=is_job,
            network=network,
            is_archived=given["archive"] is not None,
        ),
        {**given, "image": image},
    )


def _convert(
    path: Path, convert: Callable[[bytes], Foreign], given: dict[str, Any], *, bytes_max: int = FILE_BYTES_MAX,
    unnoted: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Read, convert, print losses and defaults, and write; `unnoted` limits have the same default elsewhere."""

    def body() -> None:
        try:
            found = convert(_bytes_of(path, bytes_max))
        except ForeignFileError as error:
            if error.left_out is not None:
                error.left_out.drop_given(_named_variables(given))
                _tell_left_out(error.left_out)
            if error.line is None:
                raise
            raise ForeignFileError(f"{path}:{error.line}: {error}") from None
        found.carrying.drop_given(_named_variables(given))
        try:
            draft = _draft_of(path, found, given)
        except ForeignFileError:
            _tell_left_out(found.carrying)
            raise
        _note_defaults(draft, found.carrying, unnoted)
        _tell_left_out(found.carrying)
        if given["strict"] and found.carrying.losses:
            raise ForeignFileError("--strict: what is marked with ! would be lost, and nothing was written")
        if given["out"] is None:
            session = click.get_current_context().find_object(WalletSession)
            is_json = session is not None and session.output.as_json
            click.echo(draft.json_text() if is_json else draft.text(), nl=False)
        else:
            written = OutputFile(given["out"], given["force"]).write("task.yaml", draft.text().encode())
            click.echo(f"written to {written}", err=True)
        if found.hints:
            click.echo(f"submit it with `ogpu submit {harmless(' '.join(found.hints))} FILE`", err=True)

    explained(body)


def _tell_left_out(carrying: Carrying) -> None:
    for each in carrying.left_out:
        click.echo(harmless(str(each)), err=True)
    if carrying.more:
        click.echo(f"… and {carrying.more} more", err=True)


def _draft_of(path: Path, found: Foreign, given: dict[str, Any]) -> ProgramDraft:
    """The file to be, with what was said beside it; ForeignFileError where that is no task."""
    variables, carrying = _named_variables(given), found.carrying
    said = {name: given[name] for name in LIMITS if given[name]}
    draft = replace(
        found.draft,
        env={**found.draft.env, **variables},
        classes=given["classes"] or found.draft.classes,
        archive=_archive_name(given["archive"], given["out"]),
        **said,
    )
    of_options = {key: origin for key, origin in OPTION_ORIGINS.items() if key not in carrying.origins}
    of_options |= option_origins(
        {name: f"--{name}" for name in said} | ({"image": "--image"} if given["image"] else {})
    )
    of_options |= {variable_key(name): DraftOrigin(f"--env {name}") for name in variables}
    try:
        source = read_any_task(draft.text().encode(), "the task")
        if isinstance(source, ContainerSource):
            intervals_of(source.file, ANY_SLOT_MS)
            if source.image is not None:
                look_at_image(given["archive"], source.image.sha256)
    except TaskFileError as error:
        raise ForeignFileError(in_own_words(error, {**carrying.origins, **of_options}, str(path))) from None
    except OSError as error:
        raise ForeignFileError(f"--archive: {given['archive']} cannot be read: {error.strerror}") from None
    return draft


def _archive_name(archive: Path | None, out: Path | None) -> str:
    """Return the archive's name beside the task file; UsageError if the two lie in different folders."""
    if archive is None:
        return ""
    folder = None if out is None else (out if out.is_dir() else out.parent).resolve()
    if folder is not None and folder != archive.resolve().parent:
        raise click.UsageError(f"--out: write it beside {archive}, which the task sends along")
    return archive.name


def _note_defaults(draft: ProgramDraft, carrying: Carrying, unnoted: tuple[str, ...]) -> None:
    """Note the filled-in defaults: other systems have no limit, or another one."""
    for name in LIMITS:
        if not getattr(draft, name) and name not in unnoted:
            carrying.leave(f"no {name}", f"the file sets none, so the default is {DEFAULTS[name]}: give --{name}")


def _named_variables(given: dict[str, Any]) -> dict[str, str]:
    """What --env says; ForeignFileError for a name alone that the environment does not have."""
    found: dict[str, str] = {}
    for word in given["variables"]:
        name, is_set, value = word.partition("=")
        if not is_set and name not in os.environ:
            raise ForeignFileError(f"--env {word!r}: your environment has none; write it as NAME=VALUE")
        found[name] = value if is_set else os.environ[name]
    return found


def _bytes_of(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ForeignFileError(f"{path} cannot be read: {error.strerror}") from None
