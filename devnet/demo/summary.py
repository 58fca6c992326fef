"""The end of the demo: a table of all units, the slashes of the cheat, and the failed requirements."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from devnet.stage.actors.purchase import UnitView, name_of_account
from devnet.stage.measuring.ledger import DevnetLedger
from devnet.stage.network import CHEAT
from devnet.stage.report import Narrator
from gpu_tasks.market.courts.events import CaseDecided
from gpu_tasks.market.inference.events import ProviderSlashed
from wallet.amounts import format_amount


def slash_rows_of(ledger: DevnetLedger) -> list[dict[str, Any]]:
    """Return every slash of a provider, for the report."""
    return [
        {
            "block": slash_height,
            "unit": "0x" + slash.unit.hex(),
            "provider": name_of_account(slash.provider),
            "fault": slash.fault.name.lower(),
            "grains": str(slash.amount),
        }
        for slash_height, slash in ledger.all(ProviderSlashed)
    ]


def failures_of(
    views: list[UnitView], slash_rows: list[dict[str, Any]], unit_count: int, wrong_sums: list[str]
) -> list[str]:
    """Return a sentence for each failed requirement."""
    problems = list(wrong_sums)
    if len(views) != unit_count:
        problems.append(f"{len(views)} units instead of {unit_count}")
    for unit_view in views:
        if unit_view["times_paid"] != 1 or unit_view["state"] != "settled":
            problems.append(
                f"unit {unit_view['unit']} is {unit_view['state']} and was paid {unit_view['times_paid']} times"
            )
        elif unit_view["completion"] is None or unit_view["attestation"] is None:
            problems.append(f"unit {unit_view['unit']} has no completion or no attestation")
        elif unit_view["payee"] == CHEAT:
            problems.append(f"unit {unit_view['unit']} paid the cheat")
    if not any(row["provider"] == CHEAT for row in slash_rows):
        problems.append("the cheat was not slashed")
    problems += [f"{row['provider']} is honest and was slashed" for row in slash_rows if row["provider"] != CHEAT]
    return problems


def show_units(views: list[UnitView], narrator: Narrator) -> None:
    """Print the table of all units."""
    units_table = Table(
        "#", "unit", "block", "attestation", "payee", "witness", "cost", "judged", "prompt → completion"
    )
    for unit_number, unit_view in enumerate(views, 1):
        prompt_line = "".join(
            character if character.isprintable() else " "
            for character in f"{unit_view['prompt']} → {unit_view['completion']}"
        )
        units_table.add_row(
            str(unit_number),
            unit_view["unit"][:10],
            str(unit_view.get("block", "-")),
            (unit_view.get("attestation") or "-")[:10],
            unit_view.get("payee", "-"),
            unit_view.get("witness") or "-",
            unit_view.get("cost", "-"),
            "committee" if unit_view["is_disputed"] else "",
            prompt_line[:60],
        )
    narrator.console.print(units_table)


def show_slashes(slash_rows: list[dict[str, Any]], ledger: DevnetLedger, narrator: Narrator) -> None:
    """Print the slashes of the cheat."""
    for slash_row in slash_rows:
        verdicts = ledger.unit(bytes.fromhex(slash_row["unit"][2:])).all(CaseDecided)
        judged_text = ", after a committee had executed the unit again" if verdicts else ""
        loss_text = (
            f"{slash_row['provider']} lost {format_amount(int(slash_row['grains']))} oGPU for unit "
            f"{slash_row['unit'][:10]}"
        )
        narrator.line(f"block {slash_row['block']}: {loss_text}{judged_text}")
