"""Errors and notes on standard error: one line each, or one JSON object each under `--json`.

Invariant: a line holds no control character of a terminal, even if a node sent the text.
"""

from __future__ import annotations

import json
from typing import Any

import click

from wallet.errors import harmless

JSON_MARK = "cli.messages.json"
"""The key in a program's context that is True under `--json`."""


def report_error(message: str, exit_code: int, error_code: str) -> int:
    """Report why the program ends, and return `exit_code`."""
    _write("error", message, code=error_code, exit_code=exit_code)
    return exit_code


def note(message: str) -> None:
    """Print a remark beside the result."""
    _write("note", message)


def is_json_asked() -> bool:
    """Return True if the running program has `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().meta.get(JSON_MARK, False))


def _write(kind: str, message: str, **fields: Any) -> None:
    write(kind, message, is_json=is_json_asked(), **fields)


def write(kind: str, message: str, *, is_json: bool, **fields: Any) -> None:
    """Print a line on standard error: `kind: text`, or an object with the other fields."""
    shown = harmless(message)
    click.echo(json.dumps({kind: shown, **fields}, ensure_ascii=False) if is_json else f"{kind}: {shown}", err=True)
