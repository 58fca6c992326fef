"""What a long run prints as it goes: lines with the seconds since it began, on a terminal or in a file."""

from __future__ import annotations

import time

from rich.markup import escape

from wallet.tables import console_for


class Timeline:
    """A console, and when the run began."""

    def __init__(self, width_without_terminal: int) -> None:
        """The clock starts."""
        self.console = console_for(width_without_terminal, highlight=False)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def line(self, text: str) -> None:
        """Something happened."""
        self.console.print(f"[dim]{self.seconds:5.0f} s[/dim] {escape(text)}", soft_wrap=True)
