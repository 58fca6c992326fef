"""`ogpu session` and `ogpu chat`: reserved places at providers, and chats in them."""

from __future__ import annotations

import time
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cli.deferred import runs
from cli.options import AMOUNT, Decorator, add_options, key_option, sending_options
from cli.program import CommandGroup
from gpu_tasks.client.groups.declared import BLOCKS_OR_TIME, account_option, budget_option
from gpu_tasks.client.groups.model import model_argument

MAX_TOKENS = 512
HOUR = "1h"
RECENT_SECONDS = 2 * 24 * 3_600.0
"""A session takes at most a day."""
SEED_BITS = 63


@click.group(cls=CommandGroup)
def session() -> None:
    """Reserved places at providers, paid by their tokens."""


def _opening_options(*, term: str) -> Decorator:
    return add_options(
        click.option("--service", type=click.IntRange(0), help="Service number, if several sell MODEL."),
        click.option("--deposit", type=AMOUNT, help="Most that it may cost.  [default: 20,000 tokens and the place]"),
        click.option("--term", type=BLOCKS_OR_TIME, default=term, show_default=True, help="Longest time."),
        click.option(
            "--rate", type=AMOUNT, help="Price per thousand output tokens.  [default: two owners serve at it]"
        ),
        budget_option,
    )


def _complete_session(context: click.Context, _parameter: click.Parameter, typed_begin: str) -> list[CompletionItem]:
    """Return the ids of the sessions with a file on this machine that may be open still."""
    folder = Path(context.find_root().params["keyring"]).expanduser() / "sessions"
    # The file of an open session is not older than its term.
    changed_since = time.time() - RECENT_SECONDS
    files = (path for path in folder.glob("*/*.db") if path.stat().st_mtime >= changed_since)
    ids = [f"0x{path.stem}" for path in files]
    return [CompletionItem(each) for each in ids if each.startswith(typed_begin)]


session_ids = click.argument(
    "sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=_complete_session
)


@session.command("open")
@model_argument
@_opening_options(term=HOUR)
@click.option("--signer", "signer_text", metavar="KEY", help="Key that signs vouchers.  [default: --key]")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.sessions:open_session")
def open_() -> None:
    """Open a session of MODEL, and wait for its provider.

    MODEL is a name of `ogpu model list`, or the name of a service. The chain holds the deposit, pays the provider from
    it, and returns the rest.
    """


@session.command()
@account_option
@runs("gpu_tasks.client.commands.sessions:ps")
def ps() -> None:
    """List your open and closing sessions.

    Sessions of your budgets whose vouchers you sign are among them.

    `unclaimed`: the grains that the vouchers on this machine promise beyond the provider's claims.
    """


@session.command()
@session_ids
@key_option
@sending_options
@runs("gpu_tasks.client.commands.sessions:close")
def close() -> None:
    """Close sessions. The rest of the deposit returns later.

    SESSION is an id, or its first digits such as 0x8a61. The provider may claim its last voucher for a while.
    """


@click.command()
@model_argument
@click.argument("question", metavar="[QUESTION]", required=False)
@key_option
@click.option(
    "--session",
    "session_text",
    metavar="SESSION",
    shell_complete=_complete_session,
    help="Continue in this session.",
)
@click.option("--system", "system_text", metavar="TEXT", help="Instructions to the model, before the chat.")
@click.option("--temperature", default="0.7", show_default=True, help="0 always takes the most likely token.")
@click.option(
    "--max-tokens",
    type=click.IntRange(1, 65_535),
    default=MAX_TOKENS,
    show_default=True,
    help="Most tokens of an answer.",
)
@click.option(
    "--seed",
    type=click.IntRange(-(2**SEED_BITS), 2**SEED_BITS - 1),
    metavar="N",
    help="Repeat the draws of another chat with this seed.",
)
@_opening_options(term=HOUR)
@click.option("--keep", "is_kept", is_flag=True, help="Leave the session open at the end.")
@click.option("--yes", "is_agreed", is_flag=True, help="Open and close the session without asking.")
@runs("gpu_tasks.client.commands.chat:chat")
def chat() -> None:
    """Chat with MODEL at a provider of its own.

    The command continues your open session of MODEL, or shows the cost of a new one and asks. Answers appear as they
    are computed. Ctrl-C cuts an answer, and a second one leaves. /cost shows the cost, /quit leaves.

    With QUESTION, the command answers it and ends. With a pipe, standard input is the question, or follows QUESTION.
    Standard output is the answer alone.
    """
