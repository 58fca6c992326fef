"""The end of the proof: its table, its JSON, its line of figures."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from devnet.demo.telling import Narrator
from devnet.measuring.report import Report, write
from devnet.proofs.auction.judging import RUNNING_SLOTS_GOAL, TaskFinding
from wallet.amounts import format_amount

COLUMNS = ("scene", "killed", "auctions", "milestones", "ended", "runs after", "paid after", "customer", "outcome")


def finish(findings: list[TaskFinding], refusal: dict[str, Any], validators: int, tell: Narrator) -> int:
    """Show and write everything; the exit status."""
    table = Table(*COLUMNS)
    for finding in findings:
        table.add_row(*_row(finding))
    tell.console.print(table)
    failures = [f"{finding.scene}: {failure}" for finding in findings for failure in finding.failures]
    failures += [f"plan: {failure}" for failure in refusal["failures"]]
    for failure in failures:
        print(f"FAILED {failure}")
    report: Report = {"scenes": [finding.as_json() for finding in findings], "refused": refusal, "failures": failures}
    report |= {"validators": validators, "seconds": round(tell.seconds), "running_slots_goal": RUNNING_SLOTS_GOAL}
    path = write("auction", report)
    print(f"auction: {validators} validators, {_figures(findings)}; {len(failures)} failures; ", end="")
    print(f"{report['seconds']} s; {path}")
    return 1 if failures else 0


def _row(finding: TaskFinding) -> tuple[str, ...]:
    customer = next(iter(finding.grains.values()), 0)
    return (
        finding.scene,
        ", ".join(finding.killed) or "-",
        str(finding.auctions),
        str(finding.milestones_counted),
        ", ".join(name.lower().replace("_", " ") for name in finding.outcomes),
        f"{finding.slots_after_reveals} slots, {finding.seconds_until_running} s",
        f"{finding.seconds_until_paid} s",
        f"{'-' if customer < 0 else ''}{format_amount(abs(customer))} oGPU",
        "held" if not finding.failures else "FAILED",
    )


def _figures(findings: list[TaskFinding]) -> str:
    if not findings:
        return "no scene"
    slots = [finding.slots_after_reveals for finding in findings]
    running = [finding.seconds_until_running for finding in findings]
    met = f"{sum(0 < each <= RUNNING_SLOTS_GOAL for each in slots)} of {len(slots)} within {RUNNING_SLOTS_GOAL}"
    roots = len({finding.root for finding in findings if finding.scene != "gang"})
    return (
        f"{len(findings)} tasks, {sum(len(finding.killed) for finding in findings)} providers killed, "
        f"{roots} root for the same file; running {max(slots)} slots after the reveals at most ({met}), "
        f"{max(running)} s after submission at most; paid {findings[0].seconds_until_paid} s after it undisturbed, "
        f"{max(finding.seconds_until_paid for finding in findings)} s at most"
    )
