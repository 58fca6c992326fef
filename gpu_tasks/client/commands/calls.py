"""Helpers of commands that send: the facts of a call, and messages after an interrupt."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import click

from cli.calls import PlannedCall
from cli.chain_time import ChainTime
from cli.messages import report_error
from cli.output import Output
from cli.program import EXIT_ABORTED
from runtime.frame.call import Call
from wallet.amounts import counted, format_duration
from wallet.client import Outcome


def planned(
    output: Output,
    call: Call,
    terms: Mapping[str, Any],
    *,
    locks: int = 0,
    result: Callable[[Outcome], Mapping[str, Any]] = lambda _: {},
) -> PlannedCall:
    """Return a call with its terms as facts. Under `--json` the terms appear again with the outcome."""
    again = terms if output.as_json else {}
    return PlannedCall(call, terms, locks, lambda outcome: {**again, **result(outcome), "sent": True})


def time_left(chain_time: ChainTime, block: int) -> str:
    """Return the blocks until a block, and about the time: `20 blocks, about 40 s`."""
    last = max(block, chain_time.height)
    return f"{counted(last - chain_time.height, 'block')}, about {format_duration(chain_time.seconds_to(last))}"


@contextmanager
def told_when_interrupted(said: Callable[[], str]) -> Iterator[None]:
    """Report an interrupt of the body with a text, and end the program. The text is computed only on an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(report_error(f"interrupted: {said()}", EXIT_ABORTED, "interrupted")) from None


def told_nothing_was_sent() -> AbstractContextManager[None]:
    """Report an interrupt before anything was sent."""
    return told_when_interrupted(lambda: f"nothing was sent. Go on with `{this_command()}`")


def this_command() -> str:
    """Return the command line to continue with, quoted for a shell, without `--again`."""
    context = click.get_current_context(silent=True)
    program = () if context is None else context.params.get("command") or ()  # a program's own words
    # A person pastes this command to go on. With --again it would buy another task.
    own = [word for word in sys.argv[1 : len(sys.argv) - len(program)] if word != "--again"]
    return shlex.join(["ogpu", *own, *program])


def other_command(*words: str) -> str:
    """Return another command of the program, with the options that precede this one."""
    context = click.get_current_context()
    while context.parent is not None and context.parent.parent is not None:  # up to the group's own word
        context = context.parent
    name = context.info_name
    before = sys.argv[1 : sys.argv.index(name)] if name in sys.argv else []
    return shlex.join(["ogpu", *before, *words])
