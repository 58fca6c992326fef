"""Options and parameter types that several commands of `ogpu` share.

Invariant: nothing here imports the chain's rules, a client or NumPy.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import digits

import click

from cli.options import add_options, anyway_option, dry_run_option, tip_option, yes_option
from gpu_tasks.client.groups import limits
from gpu_tasks.tasks.quantities import QuantityError, TimeSpan, span
from wallet.amounts import SYMBOL, parse_amount
from wallet.errors import AmountError

POSTINGS_FOLDER = Path("~/.ogpu/postings")
CHECKPOINTS_FOLDER = Path("~/.ogpu/checkpoints")


class TaskPrice(click.ParamType[str]):
    """An amount for a task file, in which it is written with its unit."""

    name = SYMBOL

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the amount as a file has it; the file's reader refuses other texts."""
        try:
            parse_amount(value)
        except AmountError:
            return value
        return f"{value} {SYMBOL}" if value.endswith(tuple(digits)) else value


class BlocksOrTime(click.ParamType[TimeSpan]):
    """A number of blocks, or a time such as `90s`, `10m`, `2h` or `1d`."""

    name = "BLOCKS|TIME"

    def __init__(self, *, may_be_zero: bool = False) -> None:
        """`may_be_zero`: accept 0."""
        self._may_be_zero = may_be_zero

    def convert(self, value: str | TimeSpan, param: click.Parameter | None, ctx: click.Context | None) -> TimeSpan:
        """Return the span, in blocks or in milliseconds."""
        if isinstance(value, TimeSpan):
            return value
        if self._may_be_zero and value == "0":
            return TimeSpan()
        try:
            return span(f"{value} blocks" if value.isdecimal() else value)
        except QuantityError:
            self.fail(f"{value!r} is neither a number of blocks nor a time such as 90s, 10m, 2h or 1d", param, ctx)


class DurationRange(click.ParamType[float]):
    """A time such as `12s` or `2m`; a bare number is seconds."""

    name = "TIME"

    def __init__(self, seconds_min: float, seconds_max: float) -> None:
        """The bounds of the time."""
        self._seconds_min, self._seconds_max = seconds_min, seconds_max

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        if not isinstance(value, str):
            return value
        try:
            # `float` would also take 1e3, inf and nan.
            seconds = float(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else span(value).milliseconds / 1_000
        except QuantityError:
            self.fail(f"{value!r} is not a time such as 12s or 2m", param, ctx)
        if not self._seconds_min <= seconds <= self._seconds_max:
            self.fail(f"{value!r} is not between {self._seconds_min:g}s and {self._seconds_max:g}s", param, ctx)
        return seconds


TASK_PRICE = TaskPrice()
BLOCKS_OR_TIME = BlocksOrTime()
FILE_PATH = click.Path(path_type=Path)

account_option = click.option(
    "--key", "key_text", required=True, metavar="KEY", help="Stored key, //Alice, or any address."
)
budget_option = click.option(
    "--budget", "budget_text", metavar="BUDGET", help="Pay from this budget of `ogpu budget ps`."
)
postings_option = click.option(
    "--postings",
    type=click.Path(path_type=Path, file_okay=False),
    default=POSTINGS_FOLDER,
    show_default=True,
    envvar="OGPU_POSTINGS",
    help="Folder of purchase records.",
)
checkpoints_option = click.option(
    "--checkpoints",
    type=click.Path(path_type=Path, file_okay=False),
    default=CHECKPOINTS_FOLDER,
    show_default=True,
    envvar="OGPU_CHECKPOINTS",
    help="Folder for checkpoints until the task ends.",
)
again_option = click.option("--again", is_flag=True, help="Buy again, even after the same command bought it.")
# Never the value itself: other users of the machine see a program's arguments.
secret_option = click.option(
    "--secret",
    "secret_words",
    multiple=True,
    metavar="NAME[=FILE]",
    help="Secret from variable NAME or from FILE; repeatable.",
)
out_option = click.option("--out", type=FILE_PATH, help="Write the result to this new file, or into this folder.")
force_option = click.option("--force", is_flag=True, help="Overwrite the file of --out.")
mqtt_option = click.option("--mqtt", metavar="URL", help="Broker to listen to.  [default: the providers' own]")
max_price_option = click.option(
    "--max-price", type=TASK_PRICE, required=True, help="Most you pay for the whole time, such as 2."
)
after_options = add_options(
    click.option("--after-ok", metavar="TASK", help="Wait until TASK succeeds. Submit nothing if it fails."),
    click.option("--after-any", metavar="TASK", help="Wait until TASK ends, with or without success."),
)
"""The options that name a task to wait for. The program waits, not the chain."""
buying_options = add_options(postings_option, again_option, tip_option, yes_option, dry_run_option)
"""The options of a command that buys units or tasks."""
submission_options = add_options(
    checkpoints_option,
    anyway_option,
    click.option(
        "--array", "array_text", metavar="0-9[%4]", help="Submit a task for each index; %4 runs four at once."
    ),
    click.option(
        "--requeue",
        type=click.IntRange(0, limits.REQUEUES_MAX),
        default=0,
        show_default=True,
        metavar="N",
        help="Resubmit after a time limit, up to N times.",
    ),
    after_options,
    buying_options,
)
"""The options of a command that submits a task file, which may become several tasks."""
