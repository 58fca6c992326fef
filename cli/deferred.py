"""Commands that are imported when they are called: for its help and its completion a program needs their names alone.

Invariant: the module behind a name is imported by a call of that command, never by a call of another one or by the help
of the whole program. A program that its user waits for at every line would else load the chain's rules to print a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class DeferredCommand(click.Command):
    """Stands in for a command: has its name and the first sentence of its help, and hands each call over to it."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        """`place` is `module:attribute`."""
        super().__init__(name, help=summary)
        self._place = place

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self._place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command itself: click goes on with whose context it is."""
        try:
            return self.load().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            name = error.option_name
            if name[1:2].isdigit():
                raise click.UsageError(
                    f"{name} begins with a minus: amounts and numbers here are not negative", error.ctx
                ) from None
            if parent is not None and any(name in option.opts for option in parent.command.params):
                before = f"{parent.command_path} {name} … {info_name}"
                raise click.UsageError(f"{name} stands before the command: {before}", error.ctx) from None
            raise


def add_deferred(group: click.Group, module: str, commands: Mapping[str, tuple[str, str]]) -> None:
    """Give `group` commands of one package: name to (`module:attribute` below `module`, first sentence of the help)."""
    for name, (place, summary) in commands.items():
        group.add_command(DeferredCommand(name, f"{module}.{place}", summary))
