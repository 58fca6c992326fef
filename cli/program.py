"""A whole program: its commands in sections, `--json` anywhere, and every error as one message with an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from cli.messages import JSON_MARK, write
from wallet.errors import CodedError, code_of, code_of_class
from wallet.suggestions import suggestion

JSON_WORD = "--json"
END_WORD = "--"
EITHER = " or "
"""Joins two commands that one word may stand for."""
_EXTRA_WORD = re.compile(r"Got unexpected extra argument \((.+)\)")
EXIT_ABORTED = 1
EXIT_PIPE_CLOSED = 1
EXIT_UNUSABLE = 2
EXIT_OUTPUT_LOST = 74
"""Standard output could not be written (EX_IOERR of sysexits.h); the command itself may have done its work."""
NO_HOME = "Could not determine home directory."
"""The message of `pathlib` for a user without a home folder, as in a container."""
OUTPUT_LOST = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
KEY_WORDS = {"--from": "--key", "--account": "--key", "--signer": "--key"}
"""Options of other wallets, and the option here that does the same."""
MISSING = {
    "--key": "Give the key that signs: a name of `ogpu-wallet list`, or a development key like //Alice.",
    "--service": "Give the number of a service. `ogpu offer services` lists them.",
    "node": "`ogpu-devnet status` lists the nodes.",
}
"""Advice for a missing option or argument."""
STRAY_WORDS = {"chain": "--chain", "validators": "-n"}
"""Parameters that people give as a bare word, and their options."""
ReportEnd = Callable[[str, int, str], int]
"""Print a text with its exit code and its error code, and return the exit code."""


class NegativeNumberError(click.UsageError):
    """A number with a minus sign, which looks like an option."""


class ExtraWordError(click.UsageError):
    """A word that is an option's value, without the option."""


class OptionPlaceError(click.UsageError):
    """An option on the wrong side of a command."""


class OtherOptionError(click.UsageError):
    """An option of another program, which has another name here."""


class UnknownCommandError(click.UsageError):
    """A command that the program does not have."""


class ExplainingCommand(click.Command):
    """A command whose errors name the place of a misplaced option."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command's words."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.NoSuchOption as error:
            raise explain_option(error) from None
        except click.MissingParameter as error:
            advice = (
                next((MISSING[name] for name in error.param.opts if name in MISSING), None) if error.param else None
            )
            if advice is None:
                raise
            raise click.MissingParameter(advice, error.ctx, error.param) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. The error for a bare word names the option whose value it may be."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            option = next((STRAY_WORDS[each.name] for each in self.params if each.name in STRAY_WORDS), None)
            word = _EXTRA_WORD.fullmatch(error.message)
            if option is None or word is None:
                raise
            raise ExtraWordError(f"{error.message}. Did you mean {option} {word[1]}?", ctx) from None


def explain_option(error: click.NoSuchOption) -> click.UsageError:
    """Return a clearer error for another system's option, a negative number, or an option before its command."""
    context, name = error.ctx, error.option_name
    if context is None:
        return error
    here = foreign_words(context).get(name, "")
    if here and (not here.startswith("-") or _has_option(context.command, here.split()[0])):
        return OtherOptionError(f"No such option {name!r}. {_advice(here)}", context)
    if name[1:2].isdigit():
        return NegativeNumberError(f"{name} is negative, and amounts and numbers here are not", context)
    program = context.find_root()
    if program is not context and _has_option(program.command, name):
        words = context.command_path.removeprefix(program.command_path)
        return OptionPlaceError(f"{name} stands before the command: {program.command_path} {name} …{words}", context)
    return error


def foreign_words(context: click.Context) -> dict[str, str]:
    """Return other systems' words that a person may type at this command, with the words here."""
    words = getattr(context.find_root().command, "foreign_words", {})
    command = f"{context.info_name} "
    general = {word: here for word, here in words.items() if " " not in word}
    return general | {word.removeprefix(command): here for word, here in words.items() if word.startswith(command)}


def _advice(here: str) -> str:
    """Return advice as it is, and commands or options as `Use …`."""
    return here if here[0].isupper() else f"Use {EITHER.join(f'`{each}`' for each in here.split(EITHER))}."


def _has_option(command: click.Command, name: str) -> bool:
    return any(name in parameter.opts for parameter in command.params)


def _paths(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command of a group, and of its groups, with the names that lead to it."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _paths(command, *path, name)


class CommandGroup(click.Group):
    """Commands whose names are suggested for a mistyped one."""

    command_class = ExplainingCommand

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        """`sections`: names of commands by the heading under which the help lists them. The others come first."""
        super().__init__(*args, **kwargs)
        self._sections = sections or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and show its help, if that is asked, before the program's own options are used.

        The error for an unknown command suggests the command that was meant.
        """
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            here = self.suggested(ctx, args[0])
            if here is None:
                raise UnknownCommandError(error.message, error.ctx) from None
            raise UnknownCommandError(f"No such command {args[0]!r}. {_advice(here)}", error.ctx) from None
        if command is not None and any(word in ctx.help_option_names for word in rest) and not ctx.resilient_parsing:
            # The words may be another option's value, or a program's own: then this does nothing, and the command runs.
            context = command.make_context(name, list(rest), parent=ctx)
            if isinstance(command, click.Group) and not rest[0].startswith("-"):
                command.resolve_command(context, list(rest))
        return name, command, rest

    def suggested(self, ctx: click.Context, word: str) -> str | None:
        """Return the command, here or in another group, that has this name or a similar one, or another system's."""
        program = ctx.find_root()
        known: dict[str, str] = {}
        for (*groups, name), _ in _paths(program.command) if isinstance(program.command, click.Group) else ():
            command = " ".join((program.command_path, *groups, name))
            known[name] = f"{known[name]}{EITHER}{command}" if groups and name in known else command
        known |= {name: here for name, here in foreign_words(ctx).items() if not name.startswith("-")}
        known |= {name: f"{ctx.command_path} {name}" for name in self.commands}
        return known.get(word) or known.get(suggestion(word, known) or "")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the help."""
        apart = {name for names in self._sections.values() for name in names}
        first = [name for name in self.list_commands(ctx) if name not in apart]
        width = formatter.width - 6 - max(map(len, self.commands), default=0)
        for heading, names in {"Commands": first, **self._sections}.items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


class ProgramGroup(CommandGroup):
    """The commands of a program.

    `--json` may stand before or behind a command. Words behind a lone `--`, or behind a command that passes words on to
    another program, stay as they are.
    """

    group_class = CommandGroup

    def __init__(
        self,
        *args: Any,
        foreign_words: Mapping[str, str] | None = None,
        program_commands: Sequence[str] = (),
        explained: tuple[type[Exception], ...] = (),
        **kwargs: Any,
    ) -> None:
        """`foreign_words`: other systems' words, and what to type here; `EITHER` joins two commands.

        A word may follow the name of the group or command to which it belongs: `"run --gpus": "--gpu any"`. A value
        that begins with a capital letter is advice.

        `program_commands`: commands that pass words on to another program.

        `explained`: exceptions beside `CodedError` whose text is a message for the user.
        """
        super().__init__(*args, **kwargs)
        self.foreign_words = {**KEY_WORDS, **(foreign_words or {})}
        self._program_commands = program_commands
        self._explained: tuple[type[Exception], ...] = (CodedError, *explained)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, with `--json` moved to the front, where the program's own options stand."""
        options, rest = _split(args, self._own_words(args))
        if JSON_WORD in options:
            ctx.meta[JSON_MARK] = True
            args = [JSON_WORD, *(word for word in options if word != JSON_WORD), *rest]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            owner = next((path for path, command in _paths(self) if _has_option(command, name)), None)
            if owner is None:
                raise
            behind = f"{ctx.command_path} {' '.join(owner)} … {name}"
            raise OptionPlaceError(f"{name} stands behind the command, as in: {behind}", error.ctx) from None

    def _own_words(self, words: Sequence[str]) -> int:
        """Return the number of words before a lone `--`, or before a command that passes words on."""
        end = words.index(END_WORD) if END_WORD in words else len(words)
        group: click.Group = self
        place = 0
        while place < end:
            word = words[place]
            if word.startswith("-"):
                place += 2 if _takes_value(group, word) else 1
                continue
            command = group.commands.get(word)
            if not isinstance(command, click.Group):
                return place if word in self._program_commands else end
            group, place = command, place + 1
        return end

    def main(self, args: Sequence[str] | None = None, *given: Any, **named: Any) -> Any:
        """Run the program; an error becomes a message and an exit code."""
        run: Callable[..., Any] = super().main
        if not named.pop("standalone_mode", True):
            return run(args, *given, standalone_mode=False, **named)
        words = list(sys.argv[1:] if args is None else args)
        is_json = JSON_WORD in words[: self._own_words(words)]

        def report(text: str, exit_code: int, code: str) -> int:
            write("error", text, is_json=is_json, code=code, exit_code=exit_code)
            return exit_code

        with _file_errors(report):
            try:
                exit_code = run(args, *given, standalone_mode=False, **named)
            except click.ClickException as error:
                exit_code = error.exit_code
                clearer = error.message.replace("a valid integer range", "a whole number")
                error.message = clearer  # type: ignore[misc]  # click declares it final
                if is_json:
                    report(error.format_message(), exit_code, code_of_class(type(error)))
                else:
                    error.show()
            except click.Abort:
                exit_code = report("aborted: not confirmed, or interrupted", EXIT_ABORTED, "aborted")
            except self._explained as error:
                exit_code = report(str(error), getattr(error, "exit_code", EXIT_UNUSABLE), code_of(error))
        sys.exit(exit_code or 0)


@contextmanager
def _file_errors(report: ReportEnd) -> Iterator[None]:
    """End the program with a message for an unusable path, or for standard output that cannot be written."""
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
        text = "this user has no home folder. Give the full path of the program's files"
        sys.exit(report(text, EXIT_UNUSABLE, "no_home_folder"))
    except (OSError, BaseExceptionGroup) as error:
        cause = _file_error(error)
        exit_code = None if cause is None else _exit_code_of(cause, report)
        if exit_code is None:
            raise
        _discard_output()
        sys.exit(exit_code)


def _file_error(error: BaseException) -> OSError | None:
    """Return the OSError, also from a group with nothing else."""
    while isinstance(error, BaseExceptionGroup):
        matched, rest = error.split(OSError)
        if matched is None or rest is not None:
            return None
        error = matched.exceptions[0]
    return error if isinstance(error, OSError) else None


def _exit_code_of(error: OSError, report: ReportEnd) -> int | None:
    """Report an error and return the exit code; None for an error without a file."""
    exit_code: int | None = None
    with suppress(OSError):  # standard error may be as full
        if error.filename is not None:
            exit_code = EXIT_UNUSABLE
            report(f"{_named(error.filename)} cannot be used: {error.strerror}", exit_code, "file_unusable")
        elif error.errno == errno.EPIPE:
            exit_code = EXIT_PIPE_CLOSED
        elif error.errno in OUTPUT_LOST:
            exit_code = EXIT_OUTPUT_LOST
            report(f"the output cannot be written: {error.strerror}. It is incomplete", exit_code, "output_lost")
    return exit_code


def _named(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, str | bytes) else str(filename)


def _discard_output() -> None:
    """Drop the unwritten output, at which Python would fail again on exit."""
    with suppress(OSError, ValueError):
        lost = os.open(os.devnull, os.O_WRONLY)
        os.dup2(lost, sys.stdout.fileno())
        os.close(lost)


def _split(words: Sequence[str], place: int) -> tuple[list[str], list[str]]:
    return list(words[:place]), list(words[place:])


def _takes_value(command: click.Command, word: str) -> bool:
    """Return True if the word is an option whose value is the next word."""
    options = [option for option in command.params if isinstance(option, click.Option) and word in option.opts]
    return any(not option.is_flag and not option.count for option in options)
