"""Ctrl-C while units are posted or followed: what there is by then, that nothing is lost, and how to go on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from wallet.complaints import EXIT_ABORTED, complain


@contextmanager
def told_when_interrupted(said: Callable[[], str]) -> Iterator[None]:
    """Say it if somebody interrupts what is done here, and end the program; it is asked for only then."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(complain(f"interrupted: {said()}", EXIT_ABORTED)) from None


def this_command() -> str:
    """The command line, as a shell takes it."""
    return shlex.join(["ogpu", *sys.argv[1:]])


def other_command(*words: str) -> str:
    """Another command of the program, with the options that stand before this one."""
    name = click.get_current_context().info_name
    before = sys.argv[1 : sys.argv.index(name)] if name in sys.argv else []
    return shlex.join(["ogpu", *before, *words])
