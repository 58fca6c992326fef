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


def report_error(text: str, exit_code: int, code: str) -> int:
    """Report why the program ends, and return `exit_code`."""
    _write("error", text, code=code, exit_code=exit_code)
    return exit_code


def note(text: str) -> None:
    """Print a remark beside the result."""
    _write("note", text)


def is_json_asked() -> bool:
    """Return True if the running program has `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().meta.get(JSON_MARK, False))


def _write(kind: str, text: str, **more: Any) -> None:
    write(kind, text, is_json=is_json_asked(), **more)


def write(kind: str, text: str, *, is_json: bool, **more: Any) -> None:
    """Print a line on standard error: `kind: text`, or an object with the other fields."""
    shown = harmless(text)
    click.echo(json.dumps({kind: shown, **more}, ensure_ascii=False) if is_json else f"{kind}: {shown}", err=True)
