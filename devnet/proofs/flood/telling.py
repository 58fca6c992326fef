"""What the run prints: a line for the quiet stretch and for each attack, a table, and one line of figures."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from devnet.proofs.flood.judging import AttackFigures, BarResult
from devnet.stage.report import Timeline

WIDTH_WITHOUT_TERMINAL = 200


class Teller(Timeline):
    """Prints as things happen."""

    def __init__(self) -> None:
        """The clock starts."""
        super().__init__(WIDTH_WITHOUT_TERMINAL)

    def quiet(self, intervals: AttackFigures, doors: dict[str, AttackFigures]) -> None:
        """The stretch that all is compared with."""
        seen = ", ".join(f"{door} p99 {figures.p99_ms} ms" for door, figures in doors.items())
        self.line(f"quiet: final blocks every {intervals.p50_ms} ms, p99 {intervals.p99_ms} ms; {seen}")

    def finding(self, finding: BarResult, label: str) -> None:
        """An attack is over."""
        verdict = "holds" if not finding.misses else "MISSED"
        self.line(f"{label} {finding.attack} ({finding.finding}): {verdict}")
        for number, earlier in enumerate(finding.earlier_misses, 1):
            for miss in earlier:
                self.line(f"    try {number}: {miss}")
        for miss in finding.misses:
            self.line(f"    {miss}")

    def table(self, findings: Sequence[BarResult]) -> None:
        """All of them, side by side."""
        table = Table(title="floods", title_justify="left")
        table.add_column("attack", no_wrap=True)
        for name in (
            "finding",
            "sent",
            "MB",
            "interval p99 (quiet)",
            "rpc p99 (quiet)",
            "CPU s/s",
            "worst node",
            "us each",
        ):
            table.add_column(name, justify="right", no_wrap=True)
        for name in ("memory MB, worst", "cut s", "well s", "misses"):
            table.add_column(name, justify="right", no_wrap=True)
        for finding in findings:
            table.add_row(*_row(finding), style="red" if finding.misses else "")
        self.console.print(table)


def _row(finding: BarResult) -> list[str]:
    rpc, quiet = finding.doors["rpc"], finding.quiet_doors["rpc"]
    worst = max(finding.memory.values(), key=lambda memory: memory.after - memory.before, default=None)
    cut = "-" if not finding.cut_seconds else f"{finding.last_cut:.1f}" if finding.last_cut is not None else "stays"
    kinds = dict.fromkeys(miss.partition(":")[0] for miss in finding.misses)
    return [
        finding.attack,
        finding.finding,
        str(finding.messages),
        f"{finding.sent_bytes / 1e6:.1f}",
        f"{finding.intervals.p99_ms} ({finding.quiet_intervals.p99_ms})",
        f"{rpc.p99_ms} ({quiet.p99_ms})",
        f"{sum(finding.cpu_per_second.values()):.2f}",
        f"{max(finding.cpu_by_node.values(), default=0.0):.2f}",
        "-" if finding.cpu_us_per_message is None else f"{finding.cpu_us_per_message:.0f}",
        "-" if worst is None else f"{worst.before / 1e6:.0f}>{worst.peak / 1e6:.0f}>{worst.after / 1e6:.0f}",
        cut,
        "-" if finding.recovered_seconds is None else f"{finding.recovered_seconds:.1f}",
        ", ".join(name if len(name) < 20 else "broken" for name in kinds),
    ]


def last_line(findings: Sequence[BarResult], seconds: float, took: float) -> str:
    """The figures of the run."""
    missed = [finding.attack for finding in findings if finding.misses]
    intervals = [finding.intervals.p99_ms or 0 for finding in findings]
    rpc = [finding.doors["rpc"].p99_ms or 0 for finding in findings]
    cuts = [finding.last_cut for finding in findings if finding.rule and finding.last_cut is not None]
    text = (
        f"flood: {len(findings)} attacks of {seconds:.0f} s in {took:.0f} s, {len(findings) - len(missed)} hold; "
        f"worst interval p99 {max(intervals, default=0)} ms, worst honest RPC p99 {max(rpc, default=0)} ms, "
        f"{len(cuts)} of {sum(bool(finding.rule) for finding in findings)} rule breakers cut off"
    )
    again = [finding.attack for finding in findings if finding.earlier_misses]
    text += f"; tried again, as the disk had stood still: {', '.join(again)}" if again else ""
    return text + (f"; missed: {', '.join(missed)}" if missed else "")
