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
    "--key": "Give a key: a name of `ogpu-wallet list`, or a development key like //Alice.",
    "--service": "Give the number of a service. `ogpu offer services` lists them.",
    "node": "`ogpu-devnet status` lists the nodes.",
    "task": "`ogpu ps --key KEY` lists your tasks; `last` is the newest one.",
    "unit": "`ogpu unit list --key KEY` lists your units; `last` is the newest one.",
    "named": "`ogpu unit list --key KEY` lists your units; `last` is the newest one.",
    "device": "`ogpu-provider status` lists your devices.",
    "validator": "`ogpu-wallet validators` lists the validators.",
    "--image": "Give an image by its digest: `docker inspect --format '{{.RepoDigests}}' IMAGE` shows it.",
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
            option_names = error.param.opts if error.param else ()
            advice = next((MISSING[name] for name in option_names if name in MISSING), None)
            if advice is None:
                raise
            raise click.MissingParameter(advice, error.ctx, error.param) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. The error for a bare word names the option whose value it may be."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            stray_option = next(
                (STRAY_WORDS[parameter.name] for parameter in self.params if parameter.name in STRAY_WORDS), None
            )
            # click's error holds the word in its message alone.
            extra_word = _EXTRA_WORD.fullmatch(error.message)
            if stray_option is None or extra_word is None:
                raise
            raise ExtraWordError(f"{error.message}. Did you mean {stray_option} {extra_word[1]}?", ctx) from None


def explain_option(error: click.NoSuchOption) -> click.UsageError:
    """Return a clearer error for another system's option, a negative number, or an option before its command."""
    context, option_name = error.ctx, error.option_name
    if context is None:
        return error
    replacement = foreign_words(context).get(option_name, "")
    if replacement and (not replacement.startswith("-") or _has_option(context.command, replacement.split()[0])):
        return OtherOptionError(f"No such option {option_name!r}. {_advice_sentence(replacement)}", context)
    if option_name[1:2].isdigit():
        return NegativeNumberError(f"{option_name} is negative, and amounts and numbers here are not", context)
    program_context = context.find_root()
    if program_context is not context and _has_option(program_context.command, option_name):
        command_words = context.command_path.removeprefix(program_context.command_path)
        return OptionPlaceError(
            f"{option_name} stands before the command: {program_context.command_path} {option_name} …{command_words}",
            context,
        )
    return error


def foreign_words(context: click.Context) -> dict[str, str]:
    """Return other systems' words that a person may type at this command, with the words here."""
    words = getattr(context.find_root().command, "foreign_words", {})
    command_prefix = f"{context.info_name} "
    general = {word: replacement for word, replacement in words.items() if " " not in word}
    return general | {
        word.removeprefix(command_prefix): replacement
        for word, replacement in words.items()
        if word.startswith(command_prefix)
    }


def _advice_sentence(replacement: str) -> str:
    """Return advice as it is, and commands or options as `Use …`."""
    if replacement[0].isupper():
        return replacement
    return f"Use {EITHER.join(f'`{command}`' for command in replacement.split(EITHER))}."


def _has_option(command: click.Command, option_name: str) -> bool:
    return any(option_name in parameter.opts for parameter in command.params)


def _command_paths(group: click.Group, *command_path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command of a group, and of its groups, with the names that lead to it."""
    for command_name, command in group.commands.items():
        yield (*command_path, command_name), command
        if isinstance(command, click.Group):
            yield from _command_paths(command, *command_path, command_name)


class CommandGroup(click.Group):
    """Commands whose names are suggested for a mistyped one."""

    command_class = ExplainingCommand

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        """`sections`: names of commands by the heading under which the help lists them. The others come first."""
        super().__init__(*args, **kwargs)
        self._help_sections = sections or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and show its help, if that is asked, before the program's own options are used.

        The error for an unknown command suggests the command that was meant.
        """
        try:
            command_name, command, words = super().resolve_command(ctx, args)
        except click.UsageError as error:
            replacement = self.suggested(ctx, args[0])
            if replacement is None:
                raise UnknownCommandError(error.message, error.ctx) from None
            raise UnknownCommandError(
                f"No such command {args[0]!r}. {_advice_sentence(replacement)}", error.ctx
            ) from None
        if command is not None and any(word in ctx.help_option_names for word in words) and not ctx.resilient_parsing:
            # The words may be another option's value, or a program's own: then this does nothing, and the command runs.
            context = command.make_context(command_name, list(words), parent=ctx)
            if isinstance(command, click.Group) and not words[0].startswith("-"):
                command.resolve_command(context, list(words))
        return command_name, command, words

    def suggested(self, ctx: click.Context, word: str) -> str | None:
        """Return the command, here or in another group, that has this name or a similar one, or another system's."""
        program_context = ctx.find_root()
        program = program_context.command
        commands_by_name: dict[str, str] = {}
        for (*groups, command_name), _ in _command_paths(program) if isinstance(program, click.Group) else ():
            command_path = " ".join((program_context.command_path, *groups, command_name))
            # A command outside the groups is the short form of theirs, so it replaces them.
            if groups and command_name in commands_by_name:
                command_path = f"{commands_by_name[command_name]}{EITHER}{command_path}"
            commands_by_name[command_name] = command_path
        # A mistyped command never means an option.
        commands_by_name |= {
            foreign: replacement for foreign, replacement in foreign_words(ctx).items() if not foreign.startswith("-")
        }
        commands_by_name |= {command_name: f"{ctx.command_path} {command_name}" for command_name in self.commands}
        return commands_by_name.get(word) or commands_by_name.get(suggestion(word, commands_by_name) or "")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the help."""
        sectioned_names = {name for names in self._help_sections.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in sectioned_names]
        width = formatter.width - 6 - max(map(len, self.commands), default=0)
        for heading, names in {"Commands": others, **self._help_sections}.items():
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
        self._explained_errors: tuple[type[Exception], ...] = (CodedError, *explained)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, with `--json` moved to the front, where the program's own options stand."""
        own_count = self._own_words(args)
        own_words, other_words = args[:own_count], args[own_count:]
        if JSON_WORD in own_words:
            ctx.meta[JSON_MARK] = True
            args = [JSON_WORD, *(word for word in own_words if word != JSON_WORD), *other_words]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option_name = error.option_name
            owner = next((path for path, command in _command_paths(self) if _has_option(command, option_name)), None)
            if owner is None:
                raise explain_option(error) from None
            right_order = f"{ctx.command_path} {' '.join(owner)} … {option_name}"
            raise OptionPlaceError(
                f"{option_name} stands behind the command, as in: {right_order}", error.ctx
            ) from None

    def _own_words(self, typed_words: Sequence[str]) -> int:
        """Return the number of words before a lone `--`, or before a command that passes words on."""
        end = typed_words.index(END_WORD) if END_WORD in typed_words else len(typed_words)
        group: click.Group = self
        position = 0
        while position < end:
            word = typed_words[position]
            # The value of an option may be the name of a command.
            if word.startswith("-"):
                position += 2 if _takes_value(group, word) else 1
                continue
            command = group.commands.get(word)
            if not isinstance(command, click.Group):
                return position if word in self._program_commands else end
            group, position = command, position + 1
        return end

    def main(self, args: Sequence[str] | None = None, *extra: Any, **named: Any) -> Any:
        """Run the program; an error becomes a message and an exit code."""
        # click's own mode would end the program before an error becomes JSON.
        run: Callable[..., Any] = super().main
        if not named.pop("standalone_mode", True):
            return run(args, *extra, standalone_mode=False, **named)
        typed_words = list(sys.argv[1:] if args is None else args)
        is_json = JSON_WORD in typed_words[: self._own_words(typed_words)]

        def report(message: str, exit_code: int, error_code: str) -> int:
            write("error", message, is_json=is_json, code=error_code, exit_code=exit_code)
            return exit_code

        with _file_errors(report):
            try:
                exit_code = run(args, *extra, standalone_mode=False, **named)
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
            except self._explained_errors as error:
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
        file_error = _file_error(error)
        exit_code = None if file_error is None else _exit_code_of(file_error, report)
        if exit_code is None:
            raise
        _discard_output()
        sys.exit(exit_code)


def _file_error(error: BaseException) -> OSError | None:
    """Return the OSError, also from a group with nothing else."""
    while isinstance(error, BaseExceptionGroup):
        file_errors, other_errors = error.split(OSError)
        if file_errors is None or other_errors is not None:
            return None
        error = file_errors.exceptions[0]
    return error if isinstance(error, OSError) else None


def _exit_code_of(error: OSError, report: ReportEnd) -> int | None:
    """Report an error and return the exit code; None for an error without a file."""
    exit_code: int | None = None
    with suppress(OSError):  # standard error may be as full
        if error.filename is not None:
            exit_code = EXIT_UNUSABLE
            text = f"{_file_name_text(error.filename)} cannot be used: {error.strerror}. Check its path and permissions"
            report(text, exit_code, "file_unusable")
        # `head` closes its pipe on purpose, so this end needs no message.
        elif error.errno == errno.EPIPE:
            exit_code = EXIT_PIPE_CLOSED
        elif error.errno in OUTPUT_LOST:
            exit_code = EXIT_OUTPUT_LOST
            report(f"the output cannot be written: {error.strerror}. It is incomplete", exit_code, "output_lost")
    return exit_code


def _file_name_text(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, str | bytes) else str(filename)


def _discard_output() -> None:
    """Drop the unwritten output, at which Python would fail again on exit."""
    with suppress(OSError, ValueError):
        null_descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_descriptor, sys.stdout.fileno())
        os.close(null_descriptor)


def _takes_value(command: click.Command, option_word: str) -> bool:
    """Return True if the word is an option whose value is the next word."""
    options = [option for option in command.params if isinstance(option, click.Option) and option_word in option.opts]
    return any(not option.is_flag and not option.count for option in options)
