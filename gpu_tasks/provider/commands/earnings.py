"""`earnings`: the earnings and losses of the daemons of this base path."""

from __future__ import annotations

from typing import Any

import click

from cli.session import note
from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.earnings import (
    LOSS_COLUMNS,
    By,
    EarnedSum,
    as_csv,
    loss_row,
    losses,
    losses_as_csv,
    payments,
    sums,
)
from wallet.amounts import Grains

NO_PAYMENTS = "{} has no payments. Give the daemon's --base-path"
COLUMNS = ("payments", "earned", "tokens", "per_thousand_tokens", "losses", "lost")


def earnings(options: ProviderOptions, by: str, as_text: bool, are_lost: bool) -> None:
    """Print earnings or losses."""
    lost_parts = losses(options.base_path)
    if are_lost:
        if as_text:
            click.echo(losses_as_csv(lost_parts), nl=False)
            return
        if not lost_parts:
            note(f"{options.base_path} has no losses. `run` records one when a bond falls")
        loss_rows = [loss_row(lost_part) | {"grains": Grains(lost_part.grains)} for lost_part in lost_parts]
        options.output.rows("Losses of device bonds", LOSS_COLUMNS, loss_rows)
        return
    earned_sums = sums(payments(options.base_path), By(by), lost_parts)
    if not earned_sums:
        note(NO_PAYMENTS.format(options.base_path))
    if as_text:
        click.echo(as_csv(earned_sums, By(by)), nl=False)
        return
    options.output.rows(
        "Earnings", (by, *COLUMNS), [{by: earned_sum.name, **_earned_row(earned_sum)} for earned_sum in earned_sums]
    )


def _earned_row(earned_sum: EarnedSum) -> dict[str, Any]:
    per_thousand = earned_sum.per_thousand
    return {
        "payments": earned_sum.payments,
        "earned": Grains(earned_sum.grains),
        "tokens": earned_sum.tokens,
        "per_thousand_tokens": None if per_thousand is None else Grains(per_thousand),
        "losses": earned_sum.losses,
        "lost": Grains(earned_sum.lost),
    }
