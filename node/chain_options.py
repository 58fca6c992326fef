"""The options that select the chain, for every command that needs one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from genesis.preset_names import PRESETS


def chain_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the chain and its folder to a subcommand."""
    for option in (
        click.option("--base-path", "-d", type=click.Path(path_type=Path), help="Folder for this node's files."),
        click.option(
            "--dev", is_flag=True, help="The development chain; a node runs alone, as Alice, in a temporary folder."
        ),
        click.option("--chain", metavar="CHAIN", help=f"{', '.join(PRESETS)}, or the path of a chain spec file."),
    ):
        function = option(function)
    return function
