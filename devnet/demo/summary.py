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


def slashes(book: DevnetLedger) -> list[dict[str, Any]]:
    """Return every slash of a provider, for the report."""
    return [
        {
            "block": height,
            "unit": "0x" + slash.unit.hex(),
            "provider": name_of_account(slash.provider),
            "fault": slash.fault.name.lower(),
            "grains": str(slash.amount),
        }
        for height, slash in book.all(ProviderSlashed)
    ]


def failures(units: list[UnitView], slashed: list[dict[str, Any]], wanted: int, wrong_sums: list[str]) -> list[str]:
    """Return a sentence for each failed requirement."""
    found = list(wrong_sums)
    if len(units) != wanted:
        found.append(f"{len(units)} units instead of {wanted}")
    for unit in units:
        if unit["times_paid"] != 1 or unit["state"] != "settled":
            found.append(f"unit {unit['unit']} is {unit['state']} and was paid {unit['times_paid']} times")
        elif unit["completion"] is None or unit["attestation"] is None:
            found.append(f"unit {unit['unit']} has no completion or no attestation")
        elif unit["payee"] == CHEAT:
            found.append(f"unit {unit['unit']} paid the cheat")
    if not any(slash["provider"] == CHEAT for slash in slashed):
        found.append("the cheat was not slashed")
    found += [f"{slash['provider']} is honest and was slashed" for slash in slashed if slash["provider"] != CHEAT]
    return found


def show_units(units: list[UnitView], narrator: Narrator) -> None:
    """Print the table of all units."""
    table = Table("#", "unit", "block", "attestation", "payee", "witness", "cost", "judged", "prompt → completion")
    for number, unit in enumerate(units, 1):
        line = "".join(letter if letter.isprintable() else " " for letter in f"{unit['prompt']} → {unit['completion']}")
        table.add_row(
            str(number),
            unit["unit"][:10],
            str(unit.get("block", "-")),
            (unit.get("attestation") or "-")[:10],
            unit.get("payee", "-"),
            unit.get("witness") or "-",
            unit.get("cost", "-"),
            "committee" if unit["is_disputed"] else "",
            line[:60],
        )
    narrator.console.print(table)


def show_slashes(found: list[dict[str, Any]], book: DevnetLedger, narrator: Narrator) -> None:
    """Print the slashes of the cheat."""
    for slash in found:
        verdicts = book.unit(bytes.fromhex(slash["unit"][2:])).all(CaseDecided)
        judged = ", after a committee had executed the unit again" if verdicts else ""
        what = f"{slash['provider']} lost {format_amount(int(slash['grains']))} oGPU for unit {slash['unit'][:10]}"
        narrator.line(f"block {slash['block']}: {what}{judged}")
