"""Questions to whoever sits at the terminal.

What always holds: where nobody can answer, the program ends with a sentence that names what a program gives instead; a
secret is never an argument, since other users of the machine see arguments.
"""

from __future__ import annotations

import os
import sys

import click

from wallet.errors import WalletError

SECRET_CHARACTERS_MAX = 4096


def has_terminal() -> bool:
    """Whether somebody can be asked, though standard input may be a pipe."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True


def typed_secret(prompt: str, instead: str, *, confirm: bool = False, is_last: bool = False) -> str:
    """Return the text that is typed unseen; without a terminal the next line of standard input.

    `is_last`: nothing else is read of standard input, so all its lines are the secret. WalletError without a line.
    """
    if has_terminal():
        secret: str = click.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True)
        return secret
    line = sys.stdin.readline()
    if not line:
        raise WalletError(
            f"there is no terminal to ask for: {prompt}. To run without one, {instead}", code="no_terminal"
        )
    rest = sys.stdin.read(SECRET_CHARACTERS_MAX) if is_last else ""
    return (line + rest).rstrip("\n")


def require_agreement(question: str, instead: str, error: type[Exception] = WalletError) -> None:
    """click.Abort unless the answer is yes; `error` where nobody answers."""
    try:
        is_agreed = click.confirm(question, err=True)
    except click.Abort:
        if has_terminal():
            raise
        click.echo(err=True)  # the question stands on the line
        raise error(f"there is no terminal to ask for confirmation: {instead}") from None
    if not is_agreed:
        raise click.Abort
