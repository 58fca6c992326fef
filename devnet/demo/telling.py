"""What the demo says while it runs: numbered steps, with the seconds since it began, and the commands that it runs."""

from __future__ import annotations

from rich.markup import escape

from devnet.measuring.timeline import Timeline

WIDTH_WITHOUT_TERMINAL = 160


class Narrator(Timeline):
    """Prints; a line for each thing that happened, at once."""

    def __init__(self, steps: int) -> None:
        """The clock starts."""
        super().__init__(WIDTH_WITHOUT_TERMINAL)
        self._steps = steps
        self._step = 0

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
