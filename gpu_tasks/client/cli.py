"""`ogpu`: post units of inference, watch them, read the completions.

Exit codes: 0 done, 1 the chain or the node refused, or a unit ended without a result, 2 something to set right in what
was given.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import BinaryIO

import click
from rich.progress import Progress

from gpu_tasks.client.posting import (
    PROMPT_FILE_BYTES_MAX,
    Posted,
    PostError,
    PostingCost,
    Wish,
    cost_of,
    find_service,
    post_all,
    read_prompts,
    requests_of,
    seal_and_store,
)
from gpu_tasks.client.results import ResultError, progress
from gpu_tasks.client.results import completion_of as read_completion
from gpu_tasks.client.watching import UNITS_WATCHED_MAX, follow, harmless, row_of
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState, unit_id_of
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.commands.options import AMOUNT
from wallet.keypair import Keypair
from wallet.keyring import DEFAULT_FOLDER, Keyring
from wallet.output import Account, Grains, Output
from wallet.rpc import DEFAULT_URL
from wallet.session import CallFailedError, WalletSession

PRICE = 5_000_000
UNITS_LISTED_MAX = 500

key_option = click.option("--key", "key_text", required=True, metavar="KEY", help="A stored key, or one like //Bob.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", default=DEFAULT_URL, show_default=True, envvar="OGPU_URL", help="The node's JSON-RPC address.")
@click.option(
    "--keyring", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER, show_default=True,
    envvar="OGPU_KEYRING", help="The folder of the key files.",
)  # fmt: skip
@click.option("--password-file", type=click.Path(path_type=Path), help="Read the password here instead of asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.version_option(package_name="ogpu")
@click.pass_context
def main(context: click.Context, url: str, keyring: Path, password_file: Path | None, as_json: bool) -> None:
    """Have work done on an ogpu chain: post units of inference, watch them, read the completions."""
    context.obj = WalletSession(url, Keyring(keyring), Output(as_json=as_json), password_file)


@main.command()
@click.argument("file", type=click.File("rb"))
@key_option
@click.option("--service", default=0, show_default=True, help="Number of the service: see `ogpu services`.")
@click.option("--max-tokens", default=64, show_default=True, help="Most tokens of each completion.")
@click.option("--temperature", default="0.8", show_default=True, help="0 always takes the likeliest token.")
@click.option("--racers", default=2, show_default=True, type=click.IntRange(1, 8), help="Providers for each unit.")
@click.option("--price", type=AMOUNT, default=PRICE, help="oGPU that the winner gets at most.  [default: 0.05]")
@click.option("--watch", "is_watched", is_flag=True, help="Follow the units until they end.")
@click.option("--dry-run", is_flag=True, help="Show the exact cost and send nothing.")
@click.pass_obj
def post(
    session: WalletSession, file: BinaryIO, key_text: str, service: int, max_tokens: int, temperature: str,
    racers: int, price: int, is_watched: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Post a unit for each line of FILE (- is standard input)."""
    wish = Wish(service, max_tokens, _milli(temperature), racers, price)

    async def body(client: ChainClient) -> None:
        prompts = read_prompts(file.read(PROMPT_FILE_BYTES_MAX + 1))
        requests = requests_of(prompts, wish)
        await find_service(client, wish)
        key = session.key(key_text)
        cost = await cost_of(client, key, wish, len(prompts))
        if dry_run:
            session.output.facts(_cost_facts(cost))
            return
        posted = await _post(session.output, client, key, wish, requests, prompts)
        if is_watched:
            await _watch(session.output, client, key, {one.unit: one.prompt for one in posted})
        else:
            columns = ("unit", "block", "prompt")
            rows = [{"unit": one.unit, "block": one.block, "prompt": one.prompt} for one in posted]
            session.output.rows(
                f"{len(posted)} units posted, for at most {format_amount(cost.most)} oGPU", columns, rows
            )

    session.run(body)


@main.command()
@click.argument("units", nargs=-1)
@key_option
@click.pass_obj
def watch(session: WalletSession, units: tuple[str, ...], key_text: str) -> None:
    """Follow UNITS (0x..), or the open units of the key, until they end."""

    async def body(client: ChainClient) -> None:
        key = session.key(key_text)
        ids = [_unit_id(text) for text in units] or await open_units(client, key.account)
        if not ids:
            raise ResultError("the account has no open unit; name the units, or post some with `ogpu post`")
        await _watch(session.output, client, key, dict.fromkeys(ids[:UNITS_WATCHED_MAX], ""))

    session.run(body)


@main.command()
@click.argument("unit")
@key_option
@click.pass_obj
def result(session: WalletSession, unit: str, key_text: str) -> None:
    """Print the completion of a settled UNIT (0x..); with --json all about it."""

    async def body(client: ChainClient) -> None:
        key, unit_id = session.key(key_text), _unit_id(unit)
        status = await market_reads.unit(client, unit_id, await client.finalized())
        if status is None:
            raise ResultError("the final chain knows no such unit: it is too new, too old, or of another chain")
        async with BlobClient() as blobs:
            if session.output.as_json:
                session.output.facts(await row_of(client, blobs, key, unit_id, status.unit, None))
                return
            if status.unit.state is not UnitState.SETTLED:
                raise ResultError(f"the unit is {progress(status.unit)}: follow it with `ogpu watch {unit}`")
            found = await read_completion(client, blobs, key, unit_id, status.unit)
        text = (found.prompt + found.output).decode("utf-8", errors="replace")
        click.echo(harmless(text) if sys.stdout.isatty() else text)

    session.run(body)


@main.command()
@click.pass_obj
def services(session: WalletSession) -> None:
    """List what can be bought."""

    async def body(client: ChainClient) -> None:
        rows = [
            {
                "service": number,
                "name": one.terms.name.decode("utf-8", errors="replace"),
                "price_min": Grains(one.terms.price_min),
                "price_max": Grains(one.terms.price_max),
                "tokens_max": one.terms.tokens_max,
                "lease_blocks": one.terms.lease,
                "open": one.is_open,
                "model": one.terms.model,
            }
            for number, one in (await market_reads.services(client)).items()
        ]
        columns = ("service", "name", "price_min", "price_max", "tokens_max", "lease_blocks", "open", "model")
        session.output.rows("Services", columns, rows)

    session.run(body)


@main.command()
@click.pass_obj
def providers(session: WalletSession) -> None:
    """List devices and what they ask."""

    async def body(client: ChainClient) -> None:
        known = await market_reads.providers(client)
        rows = [
            {
                "provider": Account(one.device.owner),
                "device": "0x" + one.id.hex()[:8],
                "class": one.device.kind.name.lower(),
                "bond": Grains(one.device.bond),
                "state": "paused" if one.device.is_paused else "working" if one.device.assignment else "free",
                "asks": ", ".join(f"service {number}: {format_amount(offer.ask)} oGPU" for number, offer in one.offers),
                "endpoint": known[one.device.owner].endpoint.decode("ascii") if one.device.owner in known else None,
            }
            for one in await market_reads.devices(client)
        ]
        columns = ("provider", "device", "class", "bond", "state", "asks", "endpoint")
        session.output.rows("Providers", columns, rows)

    session.run(body)


async def open_units(client: ChainClient, account: bytes) -> list[bytes]:
    """The account's units that have not ended, among its newest."""
    count = await client.read(InferenceMarket.posted, account)
    numbers = range(max(0, count - UNITS_LISTED_MAX), count)
    ids = [unit_id_of(client.genesis_hash, account, number) for number in numbers]
    found = await market_reads.units(client, ids)
    return [one for one, unit in zip(ids, found, strict=True) if unit and not unit.ended_at]


async def _post(
    output: Output, client: ChainClient, key: Keypair, wish: Wish, requests: list[bytes], prompts: list[str]
) -> list[Posted]:
    with Progress(console=output.console, disable=output.as_json, transient=True) as bar:
        task = bar.add_task("sealing and storing inputs", total=len(requests))
        async with BlobClient() as blobs:
            try:
                terms = await seal_and_store(client, blobs, key, wish, requests, lambda: bar.advance(task))
            except BlobError as error:
                raise PostError(f"an input could not be stored, so nothing was posted: {error}") from error
        bar.update(task, description="posting, waiting for finality", completed=0, total=None)
        return await post_all(client, key, wish, terms, prompts)


async def _watch(output: Output, client: ChainClient, key: Keypair, prompts: dict[bytes, str]) -> None:
    rows = await follow(client, key, list(prompts), output, {unit: text for unit, text in prompts.items() if text})
    failed = [row["unit"] for row in rows.values() if row["state"] != "settled"]
    if failed:
        raise CallFailedError(f"{len(failed)} of {len(rows)} units ended without a result: {', '.join(failed[:3])}")


def _cost_facts(cost: PostingCost) -> dict[str, object]:
    facts = {name: Grains(value) for name, value in asdict(cost).items() if name != "units"}
    return {"units": cost.units, **facts, "sent": False}


def _milli(text: str) -> int:
    """Thousandths of a decimal number, exactly."""
    try:
        value = Decimal(text) * 1000
    except InvalidOperation:
        raise click.BadParameter(f"{text!r} is no number", param_hint="--temperature") from None
    if value != value.to_integral_value() or value < 0:
        raise click.BadParameter("at most three decimals, not below 0", param_hint="--temperature")
    return int(value)


def _unit_id(text: str) -> bytes:
    try:
        unit_id = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        unit_id = b""
    if len(unit_id) != 32:
        raise ResultError(f"{text!r} is no unit: a unit is 0x and 64 hexadecimal digits")
    return unit_id


if __name__ == "__main__":
    main()
