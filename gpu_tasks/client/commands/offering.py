"""Commands about the market as it stands: who offers what, and what units cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from click.shell_completion import CompletionItem

from gpu_tasks.client import market_view
from gpu_tasks.market.training.reputation import PPM
from gpu_tasks.tasks.offer_query import FIELDS, asks_for_claims, matching, parse_query
from gpu_tasks.tasks.offers import OfferRow
from gpu_tasks.tasks.prices import PriceRow, price_rows
from runtime.cryptography import ss58
from wallet.client import ChainClient
from wallet.output import Account, Grains, Output
from wallet.session import WalletSession, explained, note

ROWS_SHOWN = 50
ROWS_SHOWN_MAX = 10_000
DEVICE_BYTES_SHOWN = 4
OFFER_COLUMNS = (
    "service", "workload", "class", "price", "state", "bond", "free_bond", "since", "reliability", "proven", "device",
    "provider",
)  # fmt: skip
CLAIM_COLUMNS = (
    "vendor", "model", "vram_mib", "driver", "platform", "processor", "cores", "memory_mib", "disk_free_mib",
    "down_kbit", "up_kbit",
)  # fmt: skip
SHOWN_WITH_CLAIMS = ("service", "class", "price", "state", "reliability", "proven", "device", "provider")
LEFT_OUT_SHOWN = 16
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
@click.option("--inventory", is_flag=True, help="Ask providers what their machines have, also where no condition does.")
@click.pass_obj
def search(session: WalletSession, conditions: tuple[str, ...], limit: int, inventory: bool) -> None:
    """List the offers for which all CONDITIONS hold, the cheapest first.

    A condition is a field, one of = != < <= > >= and a value: 'class=datacenter,consumer price<0.5 state=free'. Fields:
    class, price, service, workload, state, bond, free_bond, provider, device, since, reliability by the chain; and what
    providers claim of their machines: vram, vendor, model, driver, cuda, rocm, cpu, cores, memory, disk, down, up
    ('vram>=24Gi model=4090 driver>=535'). Quote them: < and > mean something to a shell.
    """
    explained(lambda: _search(session, " ".join(conditions), limit, is_asked=inventory))


def _search(session: WalletSession, text: str, limit: int, *, is_asked: bool) -> None:
    query = parse_query(text)  # before any node is asked

    async def body(client: ChainClient) -> None:
        final = await client.finalized()
        by_chain = [condition for condition in query if not condition.field.is_claimed]
        offers = await market_view.offers(client, final)
        found = matching(by_chain, offers)
        has_claims = is_asked or asks_for_claims(query)
        if has_claims:
            # who the chain's own facts rule out is not asked
            found, left_out = await market_view.claimed(client, found, final)
            found = matching(query, found)
            _name_left_out(left_out)
        _show_offers(session.output, found[:limit], has_claims=has_claims)
        if not found:
            note(
                f"none of the {len(offers)} offers of now suits; `ogpu search offers` without conditions shows them all"
            )
        if len(found) > limit:
            note(f"{len(found) - limit} more, dearer ones are not shown: raise --limit, or ask for less")

    session.run(body)


def _name_left_out(left_out: dict[bytes, str]) -> None:
    """Whose word does not count, and why."""
    for owner, why in list(left_out.items())[:LEFT_OUT_SHOWN]:
        note(f"{ss58.encode(owner)} is left out of what is claimed: it {why}")
    if len(left_out) > LEFT_OUT_SHOWN:
        note(f"{len(left_out) - LEFT_OUT_SHOWN} more providers are left out of what is claimed")


def _show_offers(output: Output, found: Sequence[OfferRow], *, has_claims: bool) -> None:
    """Facts of the chain, and what is claimed under a name that says so."""
    rows = [_offer(row, is_whole=output.as_json) for row in found]
    if not has_claims:
        output.rows("Offers", OFFER_COLUMNS, rows)
        return
    if output.as_json:
        whole = [row | {"claimed": _claimed(offer)} for row, offer in zip(rows, found, strict=True)]
        output.rows("Offers", (*OFFER_COLUMNS, "claimed"), whole)
        return
    output.rows("Offers, by the chain", SHOWN_WITH_CLAIMS, rows)
    nothing: dict[str, Any] = dict.fromkeys(CLAIM_COLUMNS)
    said = [{"device": row["device"]} | (_claimed(offer) or nothing) for row, offer in zip(rows, found, strict=True)]
    output.rows("Claimed by their providers: their word, which nothing proves", ("device", *CLAIM_COLUMNS), said)


def _claimed(row: OfferRow) -> dict[str, Any] | None:
    """What its provider says of it; None of what it does not say."""
    said = row.claims
    if said is None:
        return None
    values = asdict(said) | {"platform": f"{said.platform} {said.platform_version}".strip()}
    return {name: values[name] or None for name in CLAIM_COLUMNS}


def _offer(row: OfferRow, *, is_whole: bool) -> dict[str, Any]:
    """With the whole of the device's id, or the beginning of it that a condition takes."""
    ppm = row.reliability_ppm
    return {
        "service": row.service,
        "workload": row.workload,
        "class": row.kind.name.lower(),
        "price": Grains(row.price),
        "state": row.state.value,
        "bond": Grains(row.bond),
        "free_bond": Grains(row.free_bond),
        "since": row.since,
        "reliability": None if ppm is None else f"{ppm // PPM}.{ppm % PPM // 1_000:03}",
        "proven": row.proven,
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
        session.output.rows("Prices of a thousand output tokens", PRICE_COLUMNS, kept)

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
