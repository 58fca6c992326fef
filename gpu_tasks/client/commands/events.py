"""`events`: what happens on the market, as it becomes final, in sentences or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext

import click

from cli.output import Output
from cli.session import WalletSession, note
from gpu_tasks.client.commands.id_prefixes import named_id
from gpu_tasks.client.units.events import BLOCKS_PROVED, EventFilter, EventStream, ToldEvent, UntoldBlocks
from wallet.trust import hash_typed

BLOCK_MAX = 2**32 - 1


@click.command()
@click.option("-w", "--watch", "is_followed", is_flag=True, help="Go on with what comes, until it is interrupted.")
@click.option(
    "--key", "key_text", metavar="KEY", help="Events of this account alone: a stored key, //Alice or an address."
)
@click.option(
    "--task", "--unit", "about", multiple=True, metavar="ID", help="Events about a task or a unit (0x..) and its cases."
)
@click.option(
    "--from",
    "first",
    type=click.IntRange(0, BLOCK_MAX),
    metavar="BLOCK",
    help=f"The first block.  [default: the newest {BLOCKS_PROVED}; with -w what comes from now on]",
)
@click.pass_obj
def events(
    session: WalletSession, is_followed: bool, key_text: str | None, about: tuple[str, ...], first: int | None
) -> None:
    """Tell the market's events as they become final.

    Of everybody, of a key, or of a task or a unit. Every event is told once, also over connections that break.
    `--from` goes on where an earlier run ended.
    """
    streams: list[EventStream] = []

    async def body() -> None:
        account = None if key_text is None else session.account(key_text)
        wanted = EventFilter(account, await _ids(session, about, key_text))
        streams.append(EventStream(session.connect, wanted, first, is_followed, note))
        is_told = False
        async for each in streams[0].told():
            is_told = True
            _print(session.output, each)
        if not is_told:
            note(f"nothing of the kind has happened in these blocks, up to {streams[0].next_block - 1}")

    try:
        with session.doing(None) if is_followed else nullcontext():  # for hours nothing may happen
            session.run_connecting(body)
    finally:
        if streams and streams[0].next_block >= 0:
            note(f"--from {streams[0].next_block} goes on here")


async def _ids(session: WalletSession, texts: Sequence[str], key_text: str | None) -> list[bytes]:
    """Resolve the named ids; whole ids need no node."""
    whole = [hash_typed(text) for text in texts]
    if None not in whole:
        return [each for each in whole if each is not None]
    async with await session.connect() as client:
        return [await named_id(session, client, text, key_text) for text in texts]


def _print(output: Output, told: ToldEvent | UntoldBlocks) -> None:
    if output.as_json:
        click.echo(json.dumps(told.row()))
    elif isinstance(told, ToldEvent):
        click.echo(f"{told.block:>8}  {told.says()}")
    else:
        click.echo(f"{'':>8}  {told.says()}")
