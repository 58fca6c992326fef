"""What a program says beside its results, on standard error: a line each, or a JSON object each for programs.

A `JsonAnywhereGroup` takes `--json` anywhere, and whatever goes wrong is JSON then, its words included.

Always: a line holds nothing that a terminal would take for a command, whoever wrote the text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from wallet.errors import harmless

JSON_WORD = "--json"
EXIT_ABORTED = 1
JSON_COMPLAINTS = "wallet.complaints.json"
"""A mark in a program's context: what it complains of is read by a program."""


def complain(text: object, code: int) -> int:
    """Say why the program ends with this exit code, which is given back."""
    _say("error", str(text), exit_code=code)
    return code


def note(text: str) -> None:
    """Say something beside the result."""
    _say("note", text)


def _say(kind: str, text: str, **more: Any) -> None:
    context = click.get_current_context(silent=True)
    is_for_programs = context is not None and context.find_root().meta.get(JSON_COMPLAINTS, False)
    said = harmless(text)
    click.echo(as_json(kind, said, **more) if is_for_programs else f"{kind}: {said}", err=True)


def as_json(kind: str, text: str, **more: Any) -> str:
    """The object: what it is about under its kind, and what else there is."""
    return json.dumps({kind: text, **more}, ensure_ascii=False)


class JsonAnywhereGroup(click.Group):
    """Takes `--json` before and behind its commands; what follows a lone `--` is left alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As any group, the word moved to where the group's own options stand."""
        options, rest = _parted(args)
        if JSON_WORD in options:
            ctx.meta[JSON_COMPLAINTS] = True
            args = [JSON_WORD, *(word for word in options if word != JSON_WORD), *rest]
        return super().parse_args(ctx, args)

    def main(self, args: Sequence[str] | None = None, *given: Any, **named: Any) -> Any:
        """As any group; of an error that click would print for people, an object for programs."""
        words = list(sys.argv[1:] if args is None else args)
        main: Callable[..., Any] = super().main  # as click calls it, which has two ways
        if not named.get("standalone_mode", True) or JSON_WORD not in _parted(words)[0]:
            return main(args, *given, **named)
        try:
            code = main(args, *given, **{**named, "standalone_mode": False})
        except click.ClickException as error:
            code = _tell(error.format_message(), error.exit_code)
        except click.Abort:
            code = _tell("aborted: it was not agreed to, or interrupted", EXIT_ABORTED)
        sys.exit(code or 0)


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before a lone `--`, and the rest with it."""
    place = list(words).index("--") if "--" in words else len(words)
    return list(words[:place]), list(words[place:])


def _tell(text: str, code: int) -> int:
    click.echo(as_json("error", text, exit_code=code), err=True)
    return code
