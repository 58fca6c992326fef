"""Commands whose work is imported when they run. Their help and the shell's completion import declarations alone.

A program's file declares its commands: names, options and help. `runs` names the function that does the work. Without
this split every `--help` and every TAB would import the chain's rules, which takes a second or more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from cli.program import explain_option

PLACE = "ogpu_place"
"""The attribute of a command's callback that holds the place of its body, `module:function`."""


def loaded(place: str) -> Any:
    """Import `module:attribute`."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def runs(place: str, *, with_options: bool = True) -> Callable[[Callable[[], None]], Callable[..., Any]]:
    """Give a declared command its body: `module:function`, imported when the command runs.

    The decorated function holds the command's name and help alone. The body gets the object of the program's options,
    unless `with_options` is False, and then the command's parameters by name.
    """

    def bound(declared: Callable[[], None]) -> Callable[..., Any]:
        @functools.wraps(declared)
        def run(**given: Any) -> Any:
            body = loaded(place)
            return body(click.get_current_context().obj, **given) if with_options else body(**given)

        vars(run)[PLACE] = place
        return run

    return bound


class DeferredCommand(click.Command):
    """A stand-in with a command's name and summary. It imports the command, declaration and all, when it is called."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        """`place` is `module:attribute`."""
        super().__init__(name, help=summary)
        self._place = place

    def load(self) -> click.Command:
        """Import the command."""
        command: click.Command = loaded(self._place)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command itself: click goes on with the command of this context."""
        try:
            return self.load().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            raise explain_option(error, info_name, parent) from None


def import_work(command: click.Command) -> None:
    """Import everything that a command needs when it runs."""
    whole = command.load() if isinstance(command, DeferredCommand) else command
    for each in whole.commands.values() if isinstance(whole, click.Group) else ():
        import_work(each)
    place = vars(whole.callback).get(PLACE) if whole.callback is not None else None
    if place is not None:
        loaded(place)


def add_deferred(group: click.Group, module: str, commands: Mapping[str, tuple[str, str]]) -> None:
    """Give `group` commands of one package: name to (`module:attribute` below `module`, first sentence of the help)."""
    for name, (place, summary) in commands.items():
        group.add_command(DeferredCommand(name, f"{module}.{place}", summary))
