"""`earnings`: the earnings and losses of the daemons of this base path."""

from __future__ import annotations

from typing import Any

import click

from cli.session import note
from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.earnings import (
    EARNINGS_FILE,
    LOSS_COLUMNS,
    LOSSES_FILE,
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


def earnings(provider_options: ProviderOptions, by: str, as_text: bool, are_lost: bool) -> None:
    """Print earnings or losses."""
    lost = list(losses(provider_options.base_path / LOSSES_FILE))
    if are_lost:
        if as_text:
            click.echo(losses_as_csv(lost), nl=False)
            return
        if not lost:
            note(f"{provider_options.base_path} has no losses. `run` records one when a bond falls")
        rows = [loss_row(part) | {"grains": Grains(part.grains)} for part in lost]
        provider_options.output.rows("Losses of device bonds", LOSS_COLUMNS, rows)
        return
    found = sums(payments(provider_options.base_path / EARNINGS_FILE), By(by), lost)
    if not found:
        note(NO_PAYMENTS.format(provider_options.base_path))
    if as_text:
        click.echo(as_csv(found, By(by)), nl=False)
        return
    provider_options.output.rows("Earnings", (by, *COLUMNS), [{by: each.name, **_row(each)} for each in found])


def _row(each: EarnedSum) -> dict[str, Any]:
    per_thousand = each.per_thousand
    return {
        "payments": each.payments,
        "earned": Grains(each.grains),
        "tokens": each.tokens,
        "per_thousand_tokens": None if per_thousand is None else Grains(per_thousand),
        "losses": each.losses,
        "lost": Grains(each.lost),
    }
