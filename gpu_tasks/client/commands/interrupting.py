"""Handle an interrupt while a task continues: name the task and the next command, and offer to end the task.

Always: without an answer, or without a terminal, the task stays as it is; it is ended by a call whose cost was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from gpu_tasks.client.commands.deciding import ended_early
from gpu_tasks.client.commands.naming import known_task
from gpu_tasks.client.commands.sending import other_command, this_command
from gpu_tasks.client.posting_record import PostedPart
from wallet.client import ChainClient, Payer
from wallet.commands import making
from wallet.complaints import EXIT_ABORTED, complain
from wallet.session import WalletSession, note

GOES_ON = "it goes on without this program, and you pay for it"


@contextmanager
def asked_when_interrupted(
    session: WalletSession, key_text: str, submitted: Callable[[], PostedPart | None]
) -> Iterator[None]:
    """On an interrupt: name the task that was submitted, offer to end it, and end the program."""
    try:
        yield
    except KeyboardInterrupt:
        part = submitted()
        complain(f"interrupted: {_how_it_stands(part, key_text)}", EXIT_ABORTED)
        if part is not None and part.block is not None and making.is_attended():
            _offer_to_end(session, key_text, bytes.fromhex(part.units[0]))
        raise click.exceptions.Exit(EXIT_ABORTED) from None


def _how_it_stands(part: PostedPart | None, key_text: str) -> str:
    if part is None:
        return f"nothing was submitted. Go on with `{this_command()}`"
    name = f"0x{part.units[0]}"
    if part.block is None:
        return (
            f"task {name} may be submitted. Nothing is lost: repeat the same command, which buys nothing twice: "
            f"`{this_command()}`"
        )
    keyed = ("--key", key_text)
    watch, logs = other_command("watch", name, *keyed), other_command("logs", "-f", name, *keyed)
    stop = other_command("stop", name, *keyed)
    return f"task {name}: {GOES_ON}. Follow it with `{watch}` or `{logs}`; `{stop}` ends it once it runs"


def _offer_to_end(session: WalletSession, key_text: str, task_id: bytes) -> None:
    """Show the cost of ending the task, and end it if the user agrees."""

    async def plan(client: ChainClient, payer: Payer) -> making.PlannedCall | making.NothingToSend:
        found = await known_task(client, task_id, await client.finalized())
        return await ended_early(session, client, payer, task_id, found)

    unasked = making.SendingOptions(dry_run=False, is_agreed=False, is_forced=False, tip=0)
    try:
        making.make(session, key_text, unasked, plan)
    except (click.Abort, KeyboardInterrupt):
        note(GOES_ON)
