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
        self, title: str, texts_by_column: Sequence[str], rows: Sequence[Sequence[str]], at_right: Collection[int] = ()
    ) -> None:
        self._title = title
        self._columns = texts_by_column
        self._rows = [list(map(_trimmed_lines, row)) for row in rows]
        self._at_right = at_right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        column_widths = self._column_widths(options.max_width)
        if column_widths is not None:
            yield self._side_by_side(column_widths)
            return
        yield Text(self._title, style="italic")
        for row in self._rows:
            yield Text("")
            yield Record(self._columns, row)

    def _side_by_side(self, column_widths: Sequence[int]) -> Table:
        table = Table(title=Text(self._title), title_justify="left")
        for column_index, (column_name, width) in enumerate(zip(self._columns, column_widths, strict=True)):
            justify: Literal["left", "right"] = "right" if column_index in self._at_right else "left"
            # Folded, not cut: two different accounts can have the same beginning.
            table.add_column(Text(column_name), justify=justify, width=width, overflow="fold")
        for row in self._rows:
            # `Text` reads no markup: anyone can put a name on the chain.
            table.add_row(*map(Text, row))
        return table

    def _column_widths(self, line_width: int) -> list[int] | None:
        """Return a width for each column, at least that of its longest word; None if a line has no room for those."""
        cells = list(zip_longest(*self._rows, fillvalue="")) or [()] * len(self._columns)
        texts_by_column = [
            (column_name, *cell_texts) for column_name, cell_texts in zip(self._columns, cells, strict=True)
        ]
        column_widths = [max(map(_word_width, cell_texts)) for cell_texts in texts_by_column]
        spare = line_width - BORDER * len(texts_by_column) - 1 - sum(column_widths)
        if spare < 0:
            return None
        # Narrow columns get all that they need first, and wide ones share the rest.
        for column_index in sorted(
            range(len(texts_by_column)), key=lambda column_index: max(map(_line_width, texts_by_column[column_index]))
        ):
            more = min(spare, max(map(_line_width, texts_by_column[column_index])) - column_widths[column_index])
            column_widths[column_index] += more
            spare -= more
        return column_widths


class Record:
    """Names and values of one record, a pair on each line; a value that needs the whole line stands below its name."""

    def __init__(self, names: Sequence[str], values: Sequence[str]) -> None:
        self._names = names
        self._values = list(map(_trimmed_lines, values))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = max(map(cell_len, self._names), default=0) + NAME_GAP
        if indent + max(map(_word_width, self._values), default=0) <= options.max_width:
            yield self._values_beside(options.max_width - indent)
        else:
            yield from self._values_below()

    def _values_beside(self, value_width: int) -> Table:
        table = Table(show_header=False, box=None, padding=(0, NAME_GAP, 0, 0), pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(max_width=value_width, overflow="fold")
        for name, value in zip(self._names, self._values, strict=True):
            table.add_row(Text(name), Text(value))
        return table

    def _values_below(self) -> Iterator[Text | Padding]:
        for name, value in zip(self._names, self._values, strict=True):
            yield Text(name, style="bold")
            yield Padding(Text(value), (0, 0, 0, NAME_GAP))


def _trimmed_lines(text: str) -> str:
    """Strip the blanks at the ends of a text's lines."""
    return "\n".join(line.strip() for line in text.splitlines())


def _word_width(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _line_width(text: str) -> int:
    return max(map(cell_len, text.splitlines()), default=0)
