"""Command lines that end with a program's own words: `ogpu run`, `ogpu exec`.

Always: an unknown option before the program's first word is an error, never one of the program's words; behind that
word, or behind `--`, every word is the program's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

OF_DOCKER = {
    "--gpus": "write `--gpu any`",
    "--cpus": "write `--cpu`",
    "-c": "write `--cpu`",
    "-e": "write `--env NAME=VALUE`",
    "-m": "write `--memory`",
    "-d": "write `--detach`",
    "-v": "files go in by `--in FILE`, and come back from /out by `--out`",
    "--volume": "files go in by `--in FILE`, and come back from /out by `--out`",
    "--mount": "files go in by `--in FILE`, and come back from /out by `--out`",
    "--env-file": "write `--env NAME=VALUE` for each variable",
    "--net": "write `--network outbound`",
    "-p": "a job has no ports; a lease has: see `ogpu task submit`",
    "--publish": "a job has no ports; a lease has: see `ogpu task submit`",
    "--entrypoint": "the image's own entry point runs",
    "--rm": "leave it out: nothing of a container stays",
    "--shm-size": "write `--memory`: /dev/shm counts as memory",
    "--runtime": "write `--gpu any`",
    "-w": "the program begins in /workspace",
    "--workdir": "the program begins in /workspace",
    "-i": "leave it out: `ogpu exec` gives you a terminal in a container that runs",
    "-t": "leave it out: `ogpu exec` gives you a terminal in a container that runs",
}
"""The options of ogpu that replace common options of `docker run`."""


class ProgramCommand(click.Command):
    """A command whose last argument takes the words of a program."""

    def __init__(self, *args: Any, before: int = 0, instead: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        """`before`: how many words of ogpu's own precede the program's; `instead`: advice by unknown option."""
        super().__init__(*args, **kwargs)
        self._before, self._instead = before, instead or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the program's first word; NoSuchOption names what an unknown one stands for."""
        try:
            return super().parse_args(ctx, self._parted(ctx, args))
        except click.NoSuchOption as error:
            advice = self._instead.get(error.option_name)
            if advice is None:
                raise
            raise click.NoSuchOption(
                error.option_name, f"No such option: {error.option_name}; {advice}", ctx=ctx
            ) from None

    def _parted(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert a `--` before the program's first word."""
        takes = {
            name: option.nargs
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        }
        place, words = 0, 0
        while place < len(args) and (word := args[place]) != "--":
            if word.startswith("-") and len(word) > 1:
                place += 1 + takes.get(word, 0)
                continue
            words += 1
            if words > self._before:
                return [*args[:place], "--", *args[place:]]
            place += 1
        return args
