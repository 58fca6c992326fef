"""`ogpu-devnet`: a network of real nodes on one machine, in one command.

What always holds: whatever goes wrong is one message that says what, why and what to do next.
"""

from __future__ import annotations

from pathlib import Path

import click

from cli.deferred import add_deferred
from cli.options import HELP_NAMES, json_errors_option
from cli.program import ProgramGroup
from devnet.launcher.folder import DEFAULT_FOLDER, chosen_folder

COMMANDS = {
    "up": ("commands:up", "Start a new devnet, or the one in the folder again."),
    "status": ("commands:show_status", "Heights, peers, pool and units of each node."),
    "logs": ("commands:logs", "The log of NODE: Bob, or Bob/provider for the GPU provider beside it."),
    "kill": (
        "commands:kill",
        "Kill NODE with -9, as a power cut would: Bob, or Bob/provider for the GPU provider beside it.",
    ),
    "restart": (
        "commands:restart",
        "Start NODE again, stopping it first where it runs: Bob, or Bob/provider.",
    ),
    "down": ("commands:down", "End every process of the devnet."),
}


@click.group(cls=ProgramGroup, context_settings=HELP_NAMES)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help=f"Where the devnet's files are.  [default: {DEFAULT_FOLDER}]",
)
@json_errors_option
@click.version_option(package_name="ogpu")
@click.pass_context
def ogpu_devnet(context: click.Context, folder: Path | None) -> None:
    """A network of real nodes on this machine.

    Shell completion: eval "$(_OGPU_DEVNET_COMPLETE=bash_source ogpu-devnet)"
    """
    context.obj = chosen_folder(folder)


add_deferred(ogpu_devnet, "devnet.launcher", COMMANDS)


def main() -> None:
    """The `ogpu-devnet` program."""
    ogpu_devnet(prog_name="ogpu-devnet")


if __name__ == "__main__":
    main()
