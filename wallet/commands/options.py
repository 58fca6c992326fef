"""Options and parameter types that several commands share."""

from __future__ import annotations

import re

import click

from wallet.amounts import SYMBOL, parse_amount, parse_percent
from wallet.errors import AmountError

_UNIT = re.compile(rf"\s*{SYMBOL}$", re.IGNORECASE)
"""Amounts of options are in oGPU: whoever writes the unit says nothing else."""
ALL = -1
"""What an amount is that was given as `all`."""


class Amount(click.ParamType[int]):
    """An amount in oGPU on the command line, grains in the program."""

    name = "oGPU"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Grains."""
        if isinstance(value, int):
            return value
        try:
            return parse_amount(_UNIT.sub("", value))
        except AmountError as error:
            self.fail(str(error), param, ctx)


class AmountOrAll(Amount):
    """An amount, or `all` of what there is."""

    name = "oGPU|all"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Grains, or `ALL`."""
        return ALL if value == "all" else super().convert(value, param, ctx)


class Percent(click.ParamType[int]):
    """A part in per cent on the command line, in millionths in the program, exactly."""

    name = "%"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Millionths."""
        if isinstance(value, int):
            return value
        try:
            return parse_percent(value)
        except AmountError as error:
            self.fail(str(error), param, ctx)


AMOUNT = Amount()
AMOUNT_OR_ALL = AmountOrAll()
PERCENT = Percent()
from_option = click.option(
    "--from", "sender", required=True, metavar="KEY", help="Name of a stored key, or a development key like //Alice."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the exact cost and send nothing.")
tip_option = click.option(
    "--tip", type=AMOUNT, default=0, help="oGPU for the author of the block, to come before others.  [default: 0]"
)
yes_option = click.option("--yes", is_flag=True, help="Send without asking.")
