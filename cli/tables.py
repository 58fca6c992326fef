"""Tables that fit the terminal.

Columns are side by side if every word has room. Otherwise records are one below the other. Invariants: no cell is left
out or cut, no header is broken, and only a word longer than a line is broken.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

BORDER = 3
"""A column's line and the blanks at its sides."""
NAME_GAP = 2


def console_for(width_without_terminal: int, **options: Any) -> Console:
    """Return a console as wide as the terminal; without one, as wide as `COLUMNS` says, or else this wide."""
    console = Console(**options)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():  # which rich honours by itself
        return console
    return Console(width=width_without_terminal, **options)


class FittedTable:
    """Rows of plain text, a cell for each column; the columns `at_right` are numbers."""

    def __init__(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], at_right: Collection[int] = ()
    ) -> None:
        self._title = title
        self._columns = columns
        self._rows = [list(map(_trimmed, row)) for row in rows]
        self._at_right = at_right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is not None:
            yield self._side_by_side(widths)
            return
        yield Text(self._title, style="italic")
        for row in self._rows:
            yield Text("")
            yield Record(self._columns, row)

    def _side_by_side(self, widths: Sequence[int]) -> Table:
        table = Table(title=Text(self._title), title_justify="left")
        for place, (name, width) in enumerate(zip(self._columns, widths, strict=True)):
            justify: Literal["left", "right"] = "right" if place in self._at_right else "left"
            table.add_column(Text(name), justify=justify, width=width, overflow="fold")
        for row in self._rows:
            table.add_row(*map(Text, row))
        return table

    def _widths(self, line: int) -> list[int] | None:
        """Return a width for each column, at least that of its longest word; None if a line has no room for those."""
        columns = list(zip_longest(*self._rows, fillvalue="")) or [()] * len(self._columns)
        cells = [(name, *column) for name, column in zip(self._columns, columns, strict=True)]
        widths = [max(map(_word_width, column)) for column in cells]
        left = line - BORDER * len(cells) - 1 - sum(widths)
        if left < 0:
            return None
        for place in sorted(range(len(cells)), key=lambda place: max(map(_line_width, cells[place]))):
            more = min(left, max(map(_line_width, cells[place])) - widths[place])
            widths[place] += more
            left -= more
        return widths


class Record:
    """Names and values of one record, a pair on each line; a value that needs the whole line stands below its name."""

    def __init__(self, names: Sequence[str], values: Sequence[str]) -> None:
        self._names = names
        self._values = list(map(_trimmed, values))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = max(map(cell_len, self._names), default=0) + NAME_GAP
        if indent + max(map(_word_width, self._values), default=0) <= options.max_width:
            yield self._beside(options.max_width - indent)
        else:
            yield from self._below()

    def _beside(self, width: int) -> Table:
        table = Table(show_header=False, box=None, padding=(0, NAME_GAP, 0, 0), pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(max_width=width, overflow="fold")
        for name, value in zip(self._names, self._values, strict=True):
            table.add_row(Text(name), Text(value))
        return table

    def _below(self) -> Iterator[Text | Padding]:
        for name, value in zip(self._names, self._values, strict=True):
            yield Text(name, style="bold")
            yield Padding(Text(value), (0, 0, 0, NAME_GAP))


def _trimmed(text: str) -> str:
    """Strip the blanks at the ends of a text's lines."""
    return "\n".join(line.strip() for line in text.splitlines())


def _word_width(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _line_width(text: str) -> int:
    return max(map(cell_len, text.splitlines()), default=0)
