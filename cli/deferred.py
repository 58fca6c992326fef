"""Commands whose work is imported when they run. Help and the shell's completion import declarations alone.

A program's file declares its commands: names, options and help. `runs` names the function that does the work. Without
this split every `--help` and every TAB would import the chain's rules, which takes a second or more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

PLACE = "ogpu_place"
"""The attribute of a command's callback that names the function to run: `module:function`."""


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


def import_work(command: click.Command) -> None:
    """Import everything that a command needs when it runs."""
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        import_work(inner)
    place = getattr(command.callback, PLACE, None)
    if place is not None:
        loaded(place)
