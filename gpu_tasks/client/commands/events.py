"""Print the market's final events, as sentences or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext

import click

from cli.output import Output
from cli.session import WalletSession, note
from gpu_tasks.client.commands.id_prefixes import named_task, named_unit
from gpu_tasks.client.units.events import EventFilter, EventStream, ToldEvent, UntoldBlocks
from wallet.trust import hash_typed


def events(
    session: WalletSession, is_followed: bool, key_text: str | None, tasks: tuple[str, ...], units: tuple[str, ...],
    first: int | None,
) -> None:  # fmt: skip
    """Carry out `ogpu events`."""
    streams: list[EventStream] = []

    async def body() -> None:
        account = None if key_text is None else session.account(key_text)
        wanted = EventFilter(account, await _typed_ids(session, key_text, tasks, units))
        streams.append(EventStream(session.connect, wanted, first, is_followed, note))
        is_told = False
        async for told_event in streams[0].told():
            is_told = True
            _print_event(session.output, told_event)
        if not is_told:
            note(f"no such event in these blocks, up to block {streams[0].next_block - 1}")

    try:
        with session.doing(None) if is_followed else nullcontext():  # Hours may pass without an event.
            session.run_connecting(body)
    finally:
        if streams and streams[0].next_block >= 0:
            note(f"continue later with --from {streams[0].next_block}")


async def _typed_ids(
    session: WalletSession, key_text: str | None, tasks: Sequence[str], units: Sequence[str]
) -> list[bytes]:
    """Return the named ids. Whole ids need no node."""
    whole_ids = [hash_typed(id_text) for id_text in (*tasks, *units)]
    if None not in whole_ids:
        return [whole_id for whole_id in whole_ids if whole_id is not None]
    async with await session.connect() as client:
        task_ids = [await named_task(session, client, id_text, key_text) for id_text in tasks]
        return task_ids + [await named_unit(session, client, id_text, key_text) for id_text in units]


def _print_event(output: Output, told: ToldEvent | UntoldBlocks) -> None:
    if output.as_json:
        click.echo(json.dumps(told.row()))
    elif isinstance(told, ToldEvent):
        click.echo(f"{told.block:>8}  {told.says()}")
    else:
        click.echo(f"{'':>8}  {told.says()}")
