"""`earnings`: what the daemons of this base path have earned."""

from __future__ import annotations

import click

from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.earnings import EARNINGS_FILE, By, as_csv, payments, sums
from wallet.output import Grains
from wallet.session import explained, note


@click.command()
@click.option(
    "--by", type=click.Choice([by.value for by in By]), default=By.DAY.value, show_default=True,
    help="What payments are added up by; days are UTC.",
)  # fmt: skip
@click.option("--csv", "as_text", is_flag=True, help="Lines for a spreadsheet, amounts in grains.")
@click.pass_obj
def earnings(options: ProviderOptions, by: str, as_text: bool) -> None:
    """Show what units, tasks, judging and standing by have paid, after fees, as far as a daemon ran when it ended."""

    def show() -> None:
        found = sums(payments(options.base_path / EARNINGS_FILE), By(by))
        if not found:
            note(f"no payment is noted in {options.base_path}: --base-path is that of the daemon")
        if as_text:
            click.echo(as_csv(found, By(by)), nl=False)
            return
        rows = [{by: each.name, "payments": each.payments, "earned": Grains(each.grains)} for each in found]
        options.output.rows("Earnings", (by, "payments", "earned"), rows)

    explained(show)
