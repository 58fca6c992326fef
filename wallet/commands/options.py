"""Options and parameter types that several commands share."""

from __future__ import annotations

import click

from wallet.amounts import parse_amount
from wallet.errors import AmountError


class Amount(click.ParamType[int]):
    """An amount in oGPU on the command line, grains in the program."""

    name = "oGPU"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Grains."""
        if isinstance(value, int):
            return value
        try:
            return parse_amount(value)
        except AmountError as error:
            self.fail(str(error), param, ctx)


AMOUNT = Amount()
from_option = click.option(
    "--from", "sender", required=True, metavar="KEY", help="Name of a stored key, or a development key like //Alice."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the exact cost and send nothing.")
tip_option = click.option(
    "--tip", type=AMOUNT, default=0, help="oGPU for the author of the block, to come before others.  [default: 0]"
)
yes_option = click.option("--yes", is_flag=True, help="Send without asking.")
