"""What a command prints: a table for people, or JSON for programs, from the same rows.

Always: a table holds nothing that a terminal would take for a command, since names on the chain are anybody's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from runtime.cryptography import ss58
from wallet.amounts import SYMBOL, format_amount
from wallet.errors import harmless as harmless  # noqa: PLC0414  # part of what prints

WIDTH_WITHOUT_TERMINAL = 180


class Output:
    """Where results go; `as_json` is `--json`."""

    def __init__(self, *, as_json: bool) -> None:
        """Tables are as wide as the terminal, or wide enough when there is none."""
        self.as_json = as_json
        # A name is shown as it is: `:heart:` is not another's heart.
        console = Console(emoji=False)
        self.console = console if console.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL, emoji=False)

    def rows(self, title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """A list: each row maps every column to a value; amounts are `Grains`."""
        if self.as_json:
            found = [{name: plain(row[name]) for name in columns} for row in rows]
            click.echo(json.dumps(found, indent=2))
            return
        table = Table(title=title, title_justify="left")
        for name in columns:
            first = next((row[name] for row in rows if row[name] is not None), None)
            justify: Literal["left", "right"] = (
                "right" if isinstance(first, int) and not isinstance(first, bool) else "left"
            )
            # An address that is broken over two lines cannot be copied, nor an amount be read, nor an id where
            # there is room for it. An amount that has no room all the same is cut so that it is seen.
            is_id = isinstance(first, bytes) and not self.console.is_terminal
            is_whole = isinstance(first, Account | Grains) or is_id
            overflow: Literal["ellipsis", "fold"] = "ellipsis" if isinstance(first, Grains) else "fold"
            table.add_column(name.replace("_", " "), justify=justify, overflow=overflow, no_wrap=is_whole)
        for row in rows:
            table.add_row(*(escape(as_text(row[name])) for name in columns))
        self.console.print(table)

    def facts(self, facts: Mapping[str, Any]) -> None:
        """One thing: names and values."""
        if self.as_json:
            click.echo(json.dumps({name: plain(value) for name, value in facts.items()}, indent=2))
            return
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in facts.items():
            table.add_row(f"[bold]{name.replace('_', ' ')}[/bold]", escape(as_text(value)))
        self.console.print(table)


class Grains(int):
    """An amount of money; shown in oGPU, and as a decimal string in JSON."""


class BareGrains(Grains):
    """An amount in a table whose title names the unit: twelve columns leave no room for it in each line."""


class Account(bytes):
    """An account; shown as its address."""


def as_text(value: Any) -> str:
    """A value as a table shows it."""
    match value:
        case BareGrains():
            return format_amount(value)
        case Grains():
            return f"{format_amount(value)} {SYMBOL}"
        case Account():
            return ss58.encode(value)
        case bytes():
            return "0x" + value.hex()
        case bool():
            return "yes" if value else "no"
        case None:
            return "-"
        case _:
            return harmless(str(value))


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case Grains():
            return {"grains": str(int(value)), "ogpu": format_amount(value)}
        case bytes():
            return as_text(value)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value
