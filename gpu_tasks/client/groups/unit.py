"""`ogpu unit`: post requests as units, follow them, read and dispute their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.deferred import runs
from cli.options import AMOUNT, OneOf, anyway_option, key_option, reading_key_option, sending_options
from cli.program import CommandGroup
from gpu_tasks.client.groups import limits
from gpu_tasks.client.groups.declared import (
    account_option,
    budget_option,
    buying_options,
    force_option,
    out_option,
    postings_option,
)

PIXELS_CHECKED_MAX = 65_536
NEW_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(cls=CommandGroup)
def unit() -> None:
    """Requests to a model, each paid by its tokens."""


class PromptFile(click.File):
    """The file of prompts; the error for a prompt in its place shows the right command."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the open file."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            advice_text = (
                "FILE holds a prompt a line. For a single prompt use standard input: `echo … | ogpu unit post -`"
            )
            raise click.BadParameter(f"{error.message}. {advice_text}", ctx, param) from None


class Setting(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`; the service's workload knows the names."""

    name = "NAME=VALUE"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return name and value."""
        if isinstance(value, tuple):
            return value
        setting_name, equals_sign, setting_value = value.partition("=")
        if not equals_sign or not setting_name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return setting_name, setting_value


class PictureSize(click.ParamType[tuple[int, int]]):
    """`WxH` in pixels; the scene sets the limits."""

    name = "WxH"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return width and height."""
        if isinstance(value, tuple):
            return value
        width_text, cross_sign, height_text = value.partition("x")
        # `isdigit` is true of ², which `int` refuses.
        if not cross_sign or not all(
            side_text.isascii() and side_text.isdigit() and len(side_text) <= 5
            for side_text in (width_text, height_text)
        ):
            self.fail(f"{value!r} is not WxH, such as 320x200", param, ctx)
        return int(width_text), int(height_text)


@unit.command()
@click.argument("file", type=PromptFile("rb"))
@key_option
@click.option("--service", default=0, show_default=True, help="Service number from `ogpu offer services`.")
@click.option("--max-tokens", default=64, show_default=True, help="Most tokens a request may cost.")
@click.option(
    "--batch",
    type=click.IntRange(1, limits.REQUESTS_MAX),
    help="Requests in one unit.  [default: 1; with --out as many as fit]",
)
@click.option("--set", "options", multiple=True, type=Setting(), help="Option of the workload; repeatable.")
@click.option(
    "--racers", default=2, show_default=True, type=click.IntRange(1, limits.RACERS_MAX), help="Providers for each unit."
)
@click.option(
    "--class",
    "device_class",
    type=OneOf(limits.CLASS_CHOICES),
    default=limits.CLASS_CHOICES[0],
    show_default=True,
    help="Class of the devices that compute it.",
)
@click.option(
    "--price",
    type=AMOUNT,
    # The help states it, because click would show grains.
    default=limits.UNIT_PRICE,
    help="Most you pay per thousand output tokens.  [default: 0.05]",
)
@anyway_option
@click.option("--out", type=NEW_FILE, metavar="RESULTS", help="Wait, and write the answers to this new file.")
@click.option("--errors", type=NEW_FILE, help="File of failed requests.  [default: RESULTS.errors]")
@click.option("--form", type=OneOf(limits.FILE_FORMS), help="Form of FILE.  [default: from its first line]")
@click.option(
    "--completion-window",
    "window",
    metavar="24h",
    help="With --out: cancel what still waits after this time.",
)
@click.option("--watch", "is_watched", is_flag=True, help="Follow the units until they end.")
@budget_option
@buying_options
@runs("gpu_tasks.client.commands.post:post")
def post() -> None:
    """Post each line of FILE as a request.

    FILE - is standard input. The command shows the cost and asks before it posts. Repeat it after an interruption:
    it posts nothing twice.

    With --out, FILE holds up to 50,000 prompts, JSON objects, or lines of OpenAI's batch input. RESULTS gets the same
    form. --batch puts several requests into one unit.

    Class `usual` is any class for one provider, else one class with enough devices. A unit that nobody takes opens to
    other classes as its price rises.
    """


@unit.command("list")
@account_option
@click.option("--open", "is_open_only", is_flag=True, help="Leave out units that have ended.")
@postings_option
@runs("gpu_tasks.client.commands.units:list_posted")
def list_units() -> None:
    """List the units of a key and of its budgets, oldest first.

    A row shows state, service, cost, block and time. Times are estimates from block numbers. The chain forgets old
    units. Units of a file that this machine posted stay listed longer.
    """


@unit.command()
@click.argument("unit")
@runs("gpu_tasks.client.commands.units:show")
def show() -> None:
    """Show a unit: its state, providers and payments."""


@unit.command()
@click.argument("units", nargs=-1)
@reading_key_option("opens the answers")
@runs("gpu_tasks.client.commands.units:watch_units")
def watch() -> None:
    """Follow units until they end.

    An answer is shown once a provider claims its pay. The payment then waits for a check. Without UNITS it follows the
    open units of the key.
    """


@unit.command()
@click.argument("unit")
@reading_key_option("opens the answer")
@out_option
@force_option
@runs("gpu_tasks.client.commands.units:unit_result")
def result() -> None:
    """Print the answer of a unit.

    The command fetches the answer and compares it with its hash on the chain. A note tells you if the payment still
    waits for a check. With --out it writes the bytes of the answer.
    """


@unit.command()
@click.argument("named", metavar="UNIT|RESULTS...", nargs=-1, required=True)
@key_option
@postings_option
@sending_options
@runs("gpu_tasks.client.commands.cancel:cancel_units")
def cancel() -> None:
    """Cancel queued units, or the rest of a file.

    The command shows the cost and asks. A tenth of a unit's bond burns. One call cancels several units: all of them,
    or none if one is no longer queued.

    Name a file's run by its RESULTS or by its id from `ogpu unit runs`. Units in progress are finished, and their
    answers are written. All other lines go to the file of errors as cancelled.
    """


@unit.command()
@click.argument("named", metavar="UNIT|RESULTS")
@key_option
@click.option("--request", type=click.IntRange(0, limits.REQUESTS_MAX - 1), help="Request of a UNIT, counted from 0.")
@click.option("--line", type=click.IntRange(1), help="Line of the file that RESULTS answers.")
@click.option("--compute", "is_computed", is_flag=True, help="Recompute all; dispute the first wrong one.")
@click.option("--backend", default="numpy", show_default=True, help="numpy, reference, or torch-<device>.")
@postings_option
@sending_options
@runs("gpu_tasks.client.commands.dispute:dispute_unit")
def dispute() -> None:
    """Dispute an answer whose payment waits for a check.

    ogpu recomputes one answer (--request or --line) or all (--compute) on this machine, and disputes the first that
    differs. A unit with one request needs neither option. The command shows the bond and each outcome, and asks.

    Validators vote. You lose the bond if the answer is right. If it is wrong, price and bond come back, and an early
    disputer gets a reward.
    """


@unit.command()
@click.argument("unit")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.units:appeal")
def appeal() -> None:
    """Appeal against the votes about a unit.

    All eligible validators vote then, once. A party or an outvoted voter may appeal. It needs no bond.
    """


@unit.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--scene", type=NEW_FILE, help="Scene file, instead of a task file.")
@key_option
@click.option("--size", type=PictureSize(), help="Size in pixels.  [default: the scene's]")
@click.option("--tiles", default=4, show_default=True, type=click.IntRange(1), help="Units to split it into.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("picture.png"), show_default=True, help="New PNG file."
)
@force_option
@click.option("--service", type=int, help="Service number.  [default: the one that sells pictures]")
@click.option(
    "--racers", default=2, show_default=True, type=click.IntRange(1, limits.RACERS_MAX), help="Providers for each tile."
)
@click.option("--price", type=AMOUNT, help="Most you pay for a tile.  [default: FILE's, or 0.05]")
@click.option(
    "--check",
    "pixels",
    default=256,
    show_default=True,
    type=click.IntRange(0, PIXELS_CHECKED_MAX),
    help="Random pixels of each tile to recompute here.",
)
@click.option("--backend", default="numpy", show_default=True, help="For --check: numpy, reference, or torch-<device>.")
@anyway_option
@budget_option
@buying_options
@runs("gpu_tasks.client.commands.picture:picture")
def picture() -> None:
    """Render a picture in tiles on several providers.

    FILE is a task file that renders a picture. Name a scene with --scene instead. Repeat the command after an
    interruption: it posts no tile twice. It offers to post a missing or wrong tile again.
    """


@unit.command("runs")
@click.argument("run", required=False, metavar="[RESULTS]")
@postings_option
@runs("gpu_tasks.client.commands.units:runs")
def list_runs() -> None:
    """List the runs of `ogpu unit post --out`, or show one.

    RESULTS is the results file or the run's id. The command reads the records of this machine and asks no node. With
    --json it prints a run as an OpenAI batch object.
    """
