"""The output of commands: a table for people, or JSON for programs, from the same rows.

Invariant: a table holds no control character of a terminal, because anyone can put names on the chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from cli.tables import FittedTable, Record, console_for
from runtime.cryptography import ss58
from wallet.amounts import SYMBOL, BareGrains, Grains, format_amount
from wallet.errors import harmless

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WIDTH_WITHOUT_TERMINAL = 180


class Output:
    """The output of one command; `as_json` is `--json`."""

    def __init__(self, *, as_json: bool) -> None:
        """Make a console as wide as the terminal, as `COLUMNS` says, or wide enough."""
        self.as_json = as_json
        # A name is shown as it is: `:heart:` is not another's heart.
        self.console = console_for(WIDTH_WITHOUT_TERMINAL, emoji=False)

    def rows(self, title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print a list. Each row maps every column to a value; amounts are `Grains`."""
        if self.as_json:
            json_rows = [{column_name: plain(row[column_name]) for column_name in columns} for row in rows]
            click.echo(json.dumps(json_rows, indent=2))
            return
        at_right = [
            column_index
            for column_index, column_name in enumerate(columns)
            if _is_number(row[column_name] for row in rows)
        ]
        cells = [[as_text(row[column_name]) for column_name in columns] for row in rows]
        self.console.print(
            FittedTable(title, [column_name.replace("_", " ") for column_name in columns], cells, at_right)
        )

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Print one record of names and values."""
        if self.as_json:
            click.echo(json.dumps({name: plain(value) for name, value in facts.items()}, indent=2))
            return
        self.console.print(Record([name.replace("_", " ") for name in facts], list(map(as_text, facts.values()))))


class Account(bytes):
    """An account; shown as its address."""


def fields_of(view: DataclassInstance) -> dict[str, Any]:
    """Return a view as a row: its fields by their names. `class_` is named `class`, which no field can be called."""
    return {field.name.removesuffix("_"): getattr(view, field.name) for field in fields(view)}


def _is_number(values: Iterable[Any]) -> bool:
    """Return True if the first value of a column is a number."""
    first = next((value for value in values if value is not None), None)
    # In Python, True is a number.
    return isinstance(first, int) and not isinstance(first, bool)


def as_text(value: Any) -> str:
    """Return a value as a table shows it."""
    match value:
        # The subclass comes first: `Grains` matches both.
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
    """Return a value as JSON has it."""
    match value:
        case Grains():
            # Text, because many JSON readers round numbers above 2**53.
            return {"grains": str(int(value)), "ogpu": format_amount(value)}
        case bytes():
            return as_text(value)
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value
