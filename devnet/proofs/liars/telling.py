"""What the run prints: a bar with how many lies were told, a line for each that missed a bar, one line of figures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from devnet.proofs.liars.judging import Hearing

WIDTH_WITHOUT_TERMINAL = 160


class LiarsTeller:
    """Use `with LiarsTeller(...) as tell`."""

    def __init__(self, what: str, total: int) -> None:
        """The clock starts."""
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(width=WIDTH_WITHOUT_TERMINAL, highlight=False)
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(what, total=total)
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it away."""
        self._bar.stop()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def line(self, text: str) -> None:
        """Something happened."""
        self._bar.console.print(f"[dim]{self.seconds:5.0f} s[/dim] {escape(text)}", soft_wrap=True)

    def count_up(self) -> Callable[[int], None]:
        """What moves the bar by so many."""
        return lambda number: self._bar.advance(self._task, number)

    def heard(self, hearing: Hearing) -> None:
        """A lie was told, and the program has said what it says."""
        self._bar.advance(self._task)
        statuses = ", ".join(str(said.status) for said in (*hearing.under_lie, *hearing.repeats))
        seconds = sum(said.seconds for said in hearing.under_lie)
        self.line(f"{hearing.lie}: {hearing.program} ({hearing.who}) in {seconds:.0f} s, exit {statuses or '-'}")


def figures(hearings: Sequence[Hearing], failures: Sequence[str]) -> dict[str, int]:
    """What it came to."""
    verdicts = Counter(hearing.verdict for hearing in hearings)
    kinds = Counter(miss.partition(":")[0].split(",")[0] for hearing in hearings for miss in hearing.misses)
    return {
        "lies": len({hearing.lie for hearing in hearings}),
        "tellings": len(hearings),
        "named": verdicts["named"],
        "harmless": verdicts["harmless"],
        "unnoticed_without_proof": verdicts["unnoticed"],
        "deceived_without_proof": sum(hearing.is_deceived for hearing in hearings),
        "moved_uncommanded": kinds["moved"],
        "posted_twice": kinds["posted twice"],
        "programs_dead": kinds["dead"]
        + sum(miss.startswith("hung") for hearing in hearings for miss in hearing.misses),
        "missed": verdicts["missed"],
        "failures": len(failures),
    }


def last_line(count: dict[str, int], bonds_touched: int, seconds: float) -> str:
    """The figures of the run."""
    return (
        f"liars: {count['lies']} lies told {count['tellings']} times in {seconds:.0f} s: {count['named']} named, "
        f"{count['harmless']} cannot matter, {count['unnoticed_without_proof']} need a proof "
        f"({count['deceived_without_proof']} believed); {count['moved_uncommanded']} moved grains that no command "
        f"said, {bonds_touched} honest bonds touched, {count['posted_twice']} posted twice, "
        f"{count['programs_dead']} programs dead, {count['missed']} missed, {count['failures']} failures"
    )
