"""A whole program: its commands in sections, `--json` anywhere, and every error as one message with an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from cli.messages import JSON_MARK, write
from wallet.errors import CodedError, code_of, code_of_class

JSON_WORD = "--json"
ALIKE = 0.75
"""The least similarity of a suggestion, by difflib's measure: one letter of four or five may differ."""
END_WORD = "--"
EITHER = " or "
"""Joins two commands that one word may stand for."""
EXIT_ABORTED = 1
EXIT_PIPE_CLOSED = 1
EXIT_UNUSABLE = 2
EXIT_OUTPUT_LOST = 74
"""Standard output could not be written (EX_IOERR of sysexits.h); the command itself may have done its work."""
NO_HOME = "Could not determine home directory."
"""The message of `pathlib` for a user without a home folder, as in a container."""
OUTPUT_LOST = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
OTHER_NAMES = {"--from": "--key", "--account": "--key", "--signer": "--key"}
"""Options of other wallets, and the options here that do the same."""
MISSING = {
    "--key": "Give the key that signs: a name of `ogpu-wallet list`, or a development key like //Alice.",
    "--service": "Give the number of a service. `ogpu offer services` lists them.",
}
"""Advice for a missing option or argument."""
ReportEnd = Callable[[str, int, str], int]
"""Print a text with its exit code and its error code, and return the exit code."""


class NegativeNumberError(click.UsageError):
    """A number with a minus sign, which looks like an option."""


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
            raise explain_option(error, info_name, parent) from None
        except click.MissingParameter as error:
            advice = (
                next((MISSING[name] for name in error.param.opts if name in MISSING), None) if error.param else None
            )
            if advice is None:
                raise
            raise click.MissingParameter(advice, error.ctx, error.param) from None


def explain_option(error: click.NoSuchOption, info_name: str | None, parent: click.Context | None) -> click.UsageError:
    """Return a clearer error for another system's option, a negative number, or an option before its command."""
    name = error.option_name
    if name in OTHER_NAMES and error.ctx is not None and _has_option(error.ctx.command, OTHER_NAMES[name]):
        return OtherOptionError(f"No such option {name!r}. Use {OTHER_NAMES[name]}.", error.ctx)
    if name[1:2].isdigit():
        return NegativeNumberError(f"{name} is negative, and amounts and numbers here are not", error.ctx)
    program = None if parent is None else parent.find_root()
    if parent is not None and program is not None and _has_option(program.command, name):
        words = f"{parent.command_path} {info_name}".removeprefix(program.command_path)
        before = f"{program.command_path} {name} …{words}"
        return OptionPlaceError(f"{name} stands before the command: {before}", error.ctx)
    return error


def _has_option(command: click.Command, name: str) -> bool:
    return any(name in parameter.opts for parameter in command.params)


def _owners(group: click.Group, option: str) -> Iterator[str]:
    """Yield the commands of a group, and of its groups, that have an option."""
    for name, command in group.commands.items():
        whole = command.load() if hasattr(command, "load") else command  # a deferred command knows no options
        if isinstance(whole, click.Group):
            yield from (f"{name} {each}" for each in _owners(whole, option))
        elif _has_option(whole, option):
            yield name


class CommandGroup(click.Group):
    """Commands whose names are suggested for a mistyped one."""

    command_class = ExplainingCommand

    def __init__(
        self,
        *args: Any,
        foreign_words: Mapping[str, str] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """`sections`: names of commands by the heading under which the help lists them. The others come first."""
        super().__init__(*args, **kwargs)
        self._foreign_words = foreign_words or {}
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
            meant = EITHER.join(f"`{each}`" for each in here.split(EITHER))
            raise UnknownCommandError(f"No such command {args[0]!r}. Use {meant}.", error.ctx) from None
        if command is not None and any(word in ctx.help_option_names for word in rest) and not ctx.resilient_parsing:
            # The words may be another option's value, or a program's own: then this does nothing, and the command runs.
            context = command.make_context(name, list(rest), parent=ctx)
            if isinstance(command, click.Group) and not rest[0].startswith("-"):
                command.resolve_command(context, list(rest))
        return name, command, rest

    def suggested(self, ctx: click.Context, word: str) -> str | None:
        """Return the command, here or in another group, that has this name or a similar one, or another system's."""
        names = {**dict.fromkeys(self._foreign_words), **dict.fromkeys(self.commands)}
        near = [word] if word in self._foreign_words else get_close_matches(word, names, n=1, cutoff=ALIKE)
        if not near:
            return None
        return self._foreign_words.get(near[0]) or f"{ctx.command_path} {near[0]}"

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
            owner = next(_owners(self, name), None)
            if owner is None:
                raise
            behind = f"{ctx.command_path} {owner} … {name}"
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
