"""Questions to the person at the terminal.

Invariants: without a terminal, the program ends with a message that names an option instead. A secret is never an
argument, because other users of the machine see arguments.
"""

from __future__ import annotations

import os
import sys

import click

from wallet.errors import CodedError, WalletError

SECRET_CHARACTERS_MAX = 4096


def has_terminal() -> bool:
    """Return True if a person can answer, even if standard input is a pipe."""
    try:
        # ssh and sudo ask here too: a pipe can bring data while a person answers.
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True


def typed_secret(prompt: str, alternative: str, *, confirm: bool = False, is_last: bool = False) -> str:
    """Return a text that is typed without echo; without a terminal, the next line of standard input.

    `is_last`: the secret is all the rest of standard input. Raise WalletError if there is no line.
    """
    if has_terminal():
        # On standard error, because a script may read the result from standard output.
        typed: str = click.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True)
        return typed
    first_line = sys.stdin.readline(SECRET_CHARACTERS_MAX + 1)
    if len(first_line) > SECRET_CHARACTERS_MAX:
        raise WalletError(f"a secret has at most {SECRET_CHARACTERS_MAX:,} characters", code="secret_too_long")
    if not first_line:
        raise WalletError(
            f"there is no terminal to ask for: {prompt}. To run without one, {alternative}", code="no_terminal"
        )
    rest = sys.stdin.read(SECRET_CHARACTERS_MAX) if is_last else ""
    return (first_line + rest).rstrip("\n")


def require_agreement(question: str, alternative: str, error_class: type[CodedError] = WalletError) -> None:
    """Ask a question. Raise click.Abort unless the answer is yes, and `error_class` if there is no terminal."""
    try:
        is_agreed = click.confirm(question, err=True)
    except click.Abort:
        if has_terminal():
            raise
        click.echo(err=True)  # ends the line of the question
        raise error_class(f"there is no terminal to ask for confirmation: {alternative}", code="no_terminal") from None
    if not is_agreed:
        raise click.Abort
