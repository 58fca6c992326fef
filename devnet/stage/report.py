"""The output of a run: lines as it proceeds, then a table and JSON in `out/`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rich.markup import escape

from cli.tables import console_for

REPORT_FOLDER = Path("out")
WIDTH_WITHOUT_TERMINAL = 160
# JSON readers that use doubles keep no larger integer exactly, so larger amounts are written as texts.
INTEGER_MAX = 2**53

Report = dict[str, Any]


class Narrator:
    """Prints numbered steps, the commands of each, and their outcomes."""

    def __init__(self, steps: int) -> None:
        """Start the clock."""
        self.console = console_for(WIDTH_WITHOUT_TERMINAL, highlight=False)
        self._start_time = time.monotonic()
        self._step_count, self._step_number = steps, 0

    @property
    def seconds(self) -> float:
        """The seconds since the run began."""
        return time.monotonic() - self._start_time

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._step_number += 1
        self.console.print(
            f"\n[bold][{self._step_number}/{self._step_count}] {escape(title)}[/bold]  [dim]{self.seconds:.0f} s"
        )

    def line(self, message: str) -> None:
        """Print a line about an outcome."""
        # Rich would read an argument in brackets as a style, and break a long command that a reader wants to paste.
        self.console.print("  " + escape(message), soft_wrap=True)

    def command(self, message: str) -> None:
        """Print a command before it runs."""
        self.console.print("  " + escape(message), style="cyan", soft_wrap=True)


def write_report(name: str, report: Report | list[Report]) -> Path:
    """Write `out/NAME.json`, and return its path."""
    path = REPORT_FOLDER / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(as_json(report), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def as_json(value: Any) -> Any:
    """Return the value in JSON types: dataclasses as objects, bytes as hexadecimal text, enumerations by name."""
    match value:
        # This case and the next come before `int`, because members of an IntEnum and bools are ints.
        case Enum():
            return value.name.lower()
        case bool() | float() | str() | None:
            return value
        case int():
            return value if abs(value) < INTEGER_MAX else str(value)
        case bytes():
            return "0x" + value.hex()
        case Path():
            return str(value)
        case Mapping():
            return {
                mapping_key if isinstance(mapping_key, str) else str(as_json(mapping_key)): as_json(element)
                for mapping_key, element in value.items()
            }
        case list() | tuple():
            return [as_json(element) for element in value]
        case set() | frozenset():
            # Python orders a set of texts by hashes that differ in each run, so two reports could not be compared.
            return sorted(map(as_json, value))
        case _ if is_dataclass(value):
            return {
                dataclass_field.name: as_json(getattr(value, dataclass_field.name)) for dataclass_field in fields(value)
            }
        case _:
            return str(value)


def figures_of(facts: Any) -> str:
    """Return the scalar figures among some facts, as text for a table."""
    json_facts = as_json(facts)
    json_items = json_facts.items() if isinstance(json_facts, dict) else ()
    # Hashes and keys are longer. They would fill the column that shows the figures.
    short_items = [
        (name, element)
        for name, element in json_items
        if isinstance(element, int | float | str) and len(str(element)) < len("0x") + 32
    ]
    return ", ".join(f"{name.replace('_', ' ')} {element}" for name, element in short_items)
