"""What the demo says while it runs: numbered steps, with the seconds since it began, and the commands that it runs."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape

WIDTH_WITHOUT_TERMINAL = 160


class Narrator:
    """Prints; a line for each thing that happened, at once."""

    def __init__(self, steps: int) -> None:
        """The clock starts."""
        console = Console(highlight=False)
        self.console = console if console.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL, highlight=False)
        self._steps = steps
        self._step = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def step(self, title: str) -> None:
        """The next step begins."""
        self._step += 1
        self.console.print(f"\n[bold][{self._step}/{self._steps}] {escape(title)}[/bold]  [dim]{self.seconds:.0f} s")

    def line(self, text: str) -> None:
        """Something happened."""
        self.console.print("  " + escape(text), soft_wrap=True)

    def command(self, text: str) -> None:
        """A command is run."""
        self.console.print("  " + escape(text), style="cyan", soft_wrap=True)
