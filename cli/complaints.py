"""What a program says beside its results, on standard error: a line each, or a JSON object each for programs.

A `ProgramGroup` is a whole program: an unusable file ends it in a sentence, wherever that is noticed. A
`JsonAnywhereGroup` takes `--json` anywhere too, and whatever goes wrong is JSON then, its words included.

Always: a line holds nothing that a terminal would take for a command, whoever wrote the text.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from wallet.errors import harmless

JSON_WORD = "--json"
END_WORD = "--"
EXIT_ABORTED = 1
EXIT_PIPE_CLOSED = 1
EXIT_UNUSABLE = 2
EXIT_OUTPUT_LOST = 74
"""Standard output could not be written (EX_IOERR of sysexits.h); the command itself may have done its work."""
NO_HOME = "Could not determine home directory."
"""The message of `pathlib` for a user without a home folder, as in a container."""
OUTPUT_LOST = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
JSON_COMPLAINTS = "cli.complaints.json"
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


class ProgramGroup(click.Group):
    """The commands of a program; an unusable file ends it with an error message and an exit code."""

    def __init__(self, *args: Any, foreign_words: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        """`foreign_words`: the commands of other systems, and the command here that does the same."""
        super().__init__(*args, **kwargs)
        self._foreign_words = foreign_words or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As any group; a known word of another system is answered with the command to use."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            here = self._foreign_words.get(args[0])
            if here is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Use `{here}`.", error.ctx) from None

    def main(self, *given: Any, **named: Any) -> Any:
        """Run the program."""
        main: Callable[..., Any] = super().main  # as click calls it, which has two ways
        with _files_answered_for(complain):
            return main(*given, **named)


class JsonAnywhereGroup(ProgramGroup):
    """A program that takes `--json` before and behind its commands; what follows a lone `--` is left alone.

    So is what follows the name of a command that takes the words of a program.
    """

    def __init__(self, *args: Any, program_commands: Sequence[str] = (), **kwargs: Any) -> None:
        """`program_commands`: the names of the commands that take the words of a program."""
        super().__init__(*args, **kwargs)
        self._ends = (END_WORD, *program_commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As any group, the word moved to where the group's own options stand."""
        options, rest = _parted(args, self._ends)
        if JSON_WORD in options:
            ctx.meta[JSON_COMPLAINTS] = True
            args = [JSON_WORD, *(word for word in options if word != JSON_WORD), *rest]
        return super().parse_args(ctx, args)

    def main(self, args: Sequence[str] | None = None, *given: Any, **named: Any) -> Any:
        """As any group; of an error that click would print for people, an object for programs."""
        words = list(sys.argv[1:] if args is None else args)
        if not named.get("standalone_mode", True) or JSON_WORD not in _parted(words, self._ends)[0]:
            return super().main(args, *given, **named)
        try:
            with _files_answered_for(_tell):
                code = click.Group.main(self, args, *given, **{**named, "standalone_mode": False})
        except click.ClickException as error:
            code = _tell(error.format_message(), error.exit_code)
        except click.Abort:
            code = _tell("aborted: it was not agreed to, or interrupted", EXIT_ABORTED)
        sys.exit(code or 0)


@contextmanager
def _files_answered_for(tell: Callable[[str, int], int]) -> Iterator[None]:
    """End the program with `tell` for an unusable path, or if standard output cannot be written."""
    if sys.stdout is None:  # it was closed: a program that shows nothing runs, any other one must notice
        sys.stdout = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  # as long as the program
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except RuntimeError as error:
        if str(error) != NO_HOME:
            raise
        sys.exit(tell("this user has no home folder: give the path of the program's files in full", EXIT_UNUSABLE))
    except (OSError, BaseExceptionGroup) as error:
        cause = _file_error(error)
        code = None if cause is None else _code_of(cause, tell)
        if code is None:
            raise
        _discard_output()
        sys.exit(code)


def _file_error(error: BaseException) -> OSError | None:
    """Return the OSError, also from a group with nothing else."""
    while isinstance(error, BaseExceptionGroup):
        matched, rest = error.split(OSError)
        if matched is None or rest is not None:
            return None
        error = matched.exceptions[0]
    return error if isinstance(error, OSError) else None


def _code_of(error: OSError, tell: Callable[[str, int], int]) -> int | None:
    """Report an error and return the exit code; None for an error without a file."""
    code: int | None = None
    with suppress(OSError):  # standard error may be as full
        if error.filename is not None:
            code = EXIT_UNUSABLE
            tell(f"{_named(error.filename)} cannot be used: {error.strerror}", code)
        elif error.errno == errno.EPIPE:
            code = EXIT_PIPE_CLOSED
        elif error.errno in OUTPUT_LOST:
            code = EXIT_OUTPUT_LOST
            tell(f"the output cannot be written: {error.strerror}; it is incomplete", code)
    return code


def _named(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, str | bytes) else str(filename)


def _discard_output() -> None:
    """Drop the unwritten output, at which Python would fail again on exit."""
    with suppress(OSError, ValueError):
        lost = os.open(os.devnull, os.O_WRONLY)
        os.dup2(lost, sys.stdout.fileno())
        os.close(lost)


def _parted(words: Sequence[str], ends: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split words at the first of `ends`, which belongs to the rest."""
    place = next((number for number, word in enumerate(words) if word in ends), len(words))
    return list(words[:place]), list(words[place:])


def _tell(text: str, code: int) -> int:
    click.echo(as_json("error", harmless(text), exit_code=code), err=True)
    return code
