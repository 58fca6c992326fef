"""`ogpu-devnet`: the declarations of its commands, which run real nodes on one machine."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cli.deferred import loaded, runs
from cli.options import HELP_NAMES, json_errors_option
from cli.program import ProgramGroup
from consensus.parameters import SAMPLE_UNITS_MIN
from devnet.launcher.folder import DEFAULT_FOLDER, chosen_folder
from genesis.preset_names import VALIDATORS_MAX

FOREIGN_WORDS = {
    "start": "ogpu-devnet up",
    "stop": "ogpu-devnet down",
    "ps": "ogpu-devnet status",
    "up -d": "--detach",
    "up --nodes": "-n",
    "up --validators": "-n",
    "up --port": "Leave it out: the nodes take 30333, 9944 and the next ones, or free ports with `--any-ports`.",
}
"""Words of other systems, and the commands that do the same."""


@click.group("ogpu-devnet", cls=ProgramGroup, context_settings=HELP_NAMES, foreign_words=FOREIGN_WORDS)
@click.option(
    "--folder", type=click.Path(path_type=Path), help=f"The devnet's folder.  [default: {DEFAULT_FOLDER}]",
)  # fmt: skip
@json_errors_option
@click.version_option(package_name="ogpu")
@click.pass_context
def ogpu_devnet(context: click.Context, folder: Path | None) -> None:
    """Run a network of real nodes on this machine.

    NODE is a node's name, such as Bob, or Bob/provider for the GPU provider beside it.

    Shell completion: eval "$(_OGPU_DEVNET_COMPLETE=bash_source ogpu-devnet)"
    """
    context.obj = chosen_folder(folder)


def _complete_node(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    found: list[CompletionItem] = loaded("devnet.launcher.commands:complete_node")(context, parameter, begun)
    return found


node_argument = click.argument("node", shell_complete=_complete_node)


@ogpu_devnet.command()
@click.option("-n", "validators", type=click.IntRange(1, VALIDATORS_MAX), help="Validators.  [default: 4]")
@click.option(
    "--seats", type=click.IntRange(1, VALIDATORS_MAX), help="Validators with a seat at first.  [default: all]"
)
@click.option("--fast", is_flag=True, help="Epochs of 10 blocks, about ten seconds.")
@click.option(
    "--sample", type=click.IntRange(SAMPLE_UNITS_MIN, VALIDATORS_MAX), metavar="K",
    help="Units of stake in a poll.  [default: every validator]",
)  # fmt: skip
@click.option("--providers", is_flag=True, help="Start a GPU provider beside each validator.")
@click.option("--any-ports", is_flag=True, help="Take free ports, not the well-known ones.")
@click.option("--detach", is_flag=True, help="Return when the devnet works, and leave it running.")
@runs("devnet.launcher.commands:up")
def up() -> None:
    """Start a new devnet, or the stopped one of the folder."""


@ogpu_devnet.command()
@click.option("-w", "--watch", is_flag=True, help="Keep showing it.")
@runs("devnet.launcher.commands:show_status")
def status() -> None:
    """Show each node's height, peers, pool and units."""


@ogpu_devnet.command()
@node_argument
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come.")
@click.option("-n", "--lines", type=click.IntRange(1), default=50, show_default=True, help="Number of last lines.")
@runs("devnet.launcher.commands:logs")
def logs() -> None:
    """Print a node's log."""


@ogpu_devnet.command()
@node_argument
@runs("devnet.launcher.commands:kill")
def kill() -> None:
    """Kill a node with signal 9, like a power cut."""


@ogpu_devnet.command()
@node_argument
@runs("devnet.launcher.commands:restart")
def restart() -> None:
    """Stop a node if it runs, and start it again."""


@ogpu_devnet.command()
@click.option("--purge", is_flag=True, help="Remove the devnet's files too, and no others.")
@runs("devnet.launcher.commands:down")
def down() -> None:
    """Stop every process of the devnet."""


def main() -> None:
    """Run the program."""
    ogpu_devnet(prog_name="ogpu-devnet")


if __name__ == "__main__":
    main()
