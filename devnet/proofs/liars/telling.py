"""What the run prints: a bar with how many lies were told, a line for each that missed a bar, one line of figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from devnet.proofs.liars.judging import Hearing
from devnet.stage.report import Timeline

WIDTH_WITHOUT_TERMINAL = 160


class LiarsTeller(Timeline):
    """Use `with LiarsTeller(...) as tell`."""

    def __init__(self, what: str, total: int) -> None:
        """The clock starts."""
        super().__init__(WIDTH_WITHOUT_TERMINAL)
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=self.console, transient=True)
        self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it away."""
        self._bar.stop()

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
        "unnoticed_unprovable": verdicts["unnoticed"],
        "deceived_unprovable": sum(hearing.is_deceived for hearing in hearings),
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
        f"{count['harmless']} cannot matter, {count['unnoticed_unprovable']} without any proof "
        f"({count['deceived_unprovable']} believed); {count['moved_uncommanded']} moved grains that no command "
        f"said, {bonds_touched} honest bonds touched, {count['posted_twice']} posted twice, "
        f"{count['programs_dead']} programs dead, {count['missed']} missed, {count['failures']} failures"
    )
