"""Commands about the market as it stands: who offers what, and what units cost."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from gpu_tasks.client import market_view
from gpu_tasks.tasks.offer_query import FIELDS, matching, parse_query
from gpu_tasks.tasks.offers import OfferRow
from gpu_tasks.tasks.prices import PriceRow, price_rows
from wallet.client import ChainClient
from wallet.output import Account, Grains
from wallet.session import WalletSession, explained, note

ROWS_SHOWN = 50
ROWS_SHOWN_MAX = 10_000
DEVICE_BYTES_SHOWN = 4
OFFER_COLUMNS = (
    "service", "workload", "class", "price", "state", "bond", "free_bond", "since", "device", "provider",
)  # fmt: skip
PRICE_COLUMNS = (
    "service", "workload", "class", "offers", "free", "lowest", "median", "last_paid", "last_paid_in_block",
)  # fmt: skip


def _complete_condition(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The fields that a condition may begin with."""
    return [CompletionItem(name, help=field.doc) for name, field in FIELDS.items() if name.startswith(begun)]


@click.command()
@click.argument("what", type=click.Choice(["offers"]), expose_value=False)
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...", shell_complete=_complete_condition)
@click.option(
    "--limit", type=click.IntRange(1, ROWS_SHOWN_MAX), default=ROWS_SHOWN, show_default=True, help="Most rows."
)
@click.pass_obj
def search(session: WalletSession, conditions: tuple[str, ...], limit: int) -> None:
    """List the offers for which all CONDITIONS hold, the cheapest first.

    A condition is a field, one of = != < <= > >= and a value: 'class=datacenter,consumer price<0.5 state=free'. Fields:
    class, price, service, workload, state, bond, free_bond, provider, device, since. Quote them: < and > mean something
    to a shell.
    """
    explained(lambda: _search(session, " ".join(conditions), limit))


def _search(session: WalletSession, text: str, limit: int) -> None:
    query = parse_query(text)  # before any node is asked

    async def body(client: ChainClient) -> None:
        found = matching(query, await market_view.offers(client, await client.finalized()))
        session.output.rows(
            "Offers", OFFER_COLUMNS, [_offer(row, is_whole=session.output.as_json) for row in found[:limit]]
        )
        if len(found) > limit:
            note(f"{len(found) - limit} more, dearer ones are not shown: raise --limit, or ask for less")

    session.run(body)


def _offer(row: OfferRow, *, is_whole: bool) -> dict[str, Any]:
    """With the whole of the device's id, or the beginning of it that a condition takes."""
    return {
        "service": row.service,
        "workload": row.workload,
        "class": row.kind.name.lower(),
        "price": Grains(row.price),
        "state": row.state.value,
        "bond": Grains(row.bond),
        "free_bond": Grains(row.free_bond),
        "since": row.since,
        "device": row.device if is_whole else row.device[:DEVICE_BYTES_SHOWN],
        "provider": Account(row.provider),
    }


@click.command()
@click.option("--service", type=click.IntRange(0), help="Of one service alone.")
@click.pass_obj
def price(session: WalletSession, service: int | None) -> None:
    """Say what units cost: by service and class the lowest and the median ask, and what was last paid."""

    async def body(client: ChainClient) -> None:
        final = await client.finalized()
        rows = price_rows(await market_view.offers(client, final), await market_view.settled_of_late(client, final))
        kept = [_price(row) for row in rows if service in (None, row.service)]
        session.output.rows("Prices of a unit", PRICE_COLUMNS, kept)

    session.run(body)


def _price(row: PriceRow) -> dict[str, Any]:
    last = row.last
    return {
        "service": row.service,
        "workload": row.workload,
        "class": row.kind.name.lower(),
        "offers": row.offers,
        "free": row.free,
        "lowest": None if row.lowest is None else Grains(row.lowest),
        "median": None if row.median is None else Grains(row.median),
        "last_paid": None if last is None else Grains(last.price),
        "last_paid_in_block": None if last is None else last.block,
    }
