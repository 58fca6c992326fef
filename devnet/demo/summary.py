"""The end of the demo: a table of all units, the slashes of the cheat, and the failed requirements."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from devnet.stage.actors.purchase import UnitView, name_of_account
from devnet.stage.measuring.ledger import DevnetLedger
from devnet.stage.network import CHEAT
from devnet.stage.report import Narrator
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.inference.events import ProviderSlashed
from wallet.amounts import format_amount


def slash_rows_of(ledger: DevnetLedger) -> list[dict[str, Any]]:
    """Return every slash of a provider, for the report."""
    return [
        {
            "block": height,
            "unit": "0x" + slash.unit.hex(),
            "provider": name_of_account(slash.provider),
            "grains": str(slash.amount),
        }
        for height, slash in ledger.all(ProviderSlashed)
    ]


def failures_of(
    views: list[UnitView], slashes: list[dict[str, Any]], unit_count: int, wrong_sums: list[str]
) -> list[str]:
    """Return a sentence for each failed requirement."""
    problems = list(wrong_sums)
    if len(views) != unit_count:
        problems.append(f"{len(views)} units instead of {unit_count}")
    for view in views:
        problems += unit_failures(view)
    if not any(row["provider"] == CHEAT for row in slashes):
        problems.append("the cheat was not slashed")
    problems += [f"{row['provider']} is honest and was slashed" for row in slashes if row["provider"] != CHEAT]
    return problems


def unit_failures(view: UnitView) -> list[str]:
    """Return a sentence for the first requirement that a unit fails."""
    if view["times_paid"] != 1 or view["state"] != "settled":
        return [f"unit {view['unit']} is {view['state']} and was paid {view['times_paid']} times"]
    if view["completion"] is None or view["attestation"] is None:
        return [f"unit {view['unit']} has no completion or no attestation"]
    return [f"unit {view['unit']} paid the cheat"] if view["payee"] == CHEAT else []


def show_units(views: list[UnitView], narrator: Narrator) -> None:
    """Print the table of all units."""
    table = Table("#", "unit", "block", "attestation", "payee", "witness", "cost", "voted", "prompt → completion")
    for number, view in enumerate(views, 1):
        # A provider writes the completion, which can hold commands for the terminal.
        text = "".join(
            character if character.isprintable() else " " for character in f"{view['prompt']} → {view['completion']}"
        )
        table.add_row(
            str(number),
            view["unit"][:10],
            str(view.get("block", "-")),
            (view.get("attestation") or "-")[:10],
            view.get("payee", "-"),
            view.get("witness") or "-",
            view.get("cost", "-"),
            "voters" if view["is_disputed"] else "",
            text[:60],
        )
    narrator.console.print(table)


def show_slashes(slashes: list[dict[str, Any]], ledger: DevnetLedger, narrator: Narrator) -> None:
    """Print the slashes of the cheat."""
    for row in slashes:
        decisions = ledger.unit(bytes.fromhex(row["unit"][2:])).all(DisputeEnded)
        voted = ", after validators had executed the unit again and voted" if decisions else ""
        loss = f"{row['provider']} lost {format_amount(int(row['grains']))} oGPU for unit {row['unit'][:10]}"
        narrator.line(f"block {row['block']}: {loss}{voted}")
