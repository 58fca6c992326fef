"""Commands about what is sold: services and who offers them, a service of one's own and its end."""

from __future__ import annotations

from typing import Any

import click

from gpu_tasks.client.commands.sending import key_option, planned
from gpu_tasks.client.offers import ServiceError, form_named
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.events import ServiceCreated
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import (
    LEASE_BLOCKS_MAX,
    PACE_MAX,
    PRICE_MAX,
    RAMP_BLOCKS_MAX,
    SERVICE_NAME_BYTES_MAX,
    Service,
    ServiceTerms,
    has_sound_paces,
)
from gpu_tasks.workloads import registry
from runtime.cryptography import ss58
from wallet.amounts import format_amount, format_percent
from wallet.client import ChainClient, Outcome, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make, sending_options
from wallet.commands.options import AMOUNT, PERCENT
from wallet.output import Account, Grains
from wallet.session import WalletSession

ID_BYTES_SHOWN = 4
TOKENS_MAX = 2**32 - 1


@click.command()
@click.pass_obj
def services(session: WalletSession) -> None:
    """List what can be bought."""

    async def body(client: ChainClient) -> None:
        rows = [
            _service_row(number, found, as_json=session.output.as_json)
            for number, found in (await market_reads.services(client)).items()
        ]
        faster = ("consumer_pace", "datacenter_pace") if session.output.as_json else ()  # else they stand in `pace`
        columns = (
            "service", "name", "workload", "price_min", "price_max", "tokens_max", "input_share_percent",
            "unit_of_cost", "options", "ramp_blocks", "lease_blocks", "pace", *faster, "open", "model",
        )  # fmt: skip
        session.output.rows("Services", columns, rows)

    session.run(body)


def _service_row(number: int, service: Service, *, as_json: bool) -> dict[str, Any]:
    terms, form = service.terms, registry.form_of(service.terms.workload)
    return {
        "service": number,
        "name": terms.name.decode("utf-8", errors="replace"),
        "workload": form.name if form else "0x" + terms.workload.hex(),
        "price_min": Grains(terms.price_min),
        "price_max": Grains(terms.price_max),
        "tokens_max": terms.tokens_max,
        "input_share_percent": format_percent(terms.input_share),
        "unit_of_cost": form.cost_unit if form else None,
        "options": ", ".join(f"{option.name}={option.default}" for option in form.options) if form else None,
        "ramp_blocks": terms.ramp,
        "lease_blocks": terms.lease,
        "pace": (terms.pace or None) if as_json else _paces(terms),
        "consumer_pace": terms.consumer_pace or None,
        "datacenter_pace": terms.datacenter_pace or None,
        "open": service.is_open,
        "model": terms.model if as_json else terms.model[:ID_BYTES_SHOWN],  # whole it leaves the others no room
    }


def _paces(terms: ServiceTerms) -> str | None:
    """Output tokens a block, of the slowest device of each class that differs from the one below."""
    named = {"": terms.pace, "consumer ": terms.consumer_pace, "datacenter ": terms.datacenter_pace}
    return ", ".join(f"{kind}{pace}" for kind, pace in named.items() if pace) or None


@click.command()
@click.pass_obj
def providers(session: WalletSession) -> None:
    """List devices and what they ask."""

    async def body(client: ChainClient) -> None:
        endpoints = {
            stash: provider.endpoint.decode("ascii", errors="replace")
            for stash, provider in (await market_reads.providers(client)).items()
        }
        rows = []
        for status in await market_reads.devices(client):
            device = status.device
            asks = [f"service {number}: {format_amount(offer.ask)} oGPU" for number, offer in status.offers]
            at_work = "working" if device.assignment else "free"
            rows.append(
                {
                    "provider": Account(device.owner),
                    "device": status.id if session.output.as_json else status.id[:ID_BYTES_SHOWN],
                    "class": device.kind.name.lower(),
                    "bond": Grains(device.bond),
                    "state": "paused" if device.is_paused else at_work,
                    "asks": ", ".join(asks),
                    "endpoint": endpoints.get(device.owner),
                }
            )
        columns = ("provider", "device", "class", "bond", "state", "asks", "endpoint")
        session.output.rows("Providers", columns, rows)

    session.run(body)


@click.command()
@key_option
@click.option("--workload", required=True, help="What a unit computes, by name.")
@click.option("--name", required=True, help=f"What it is called, at most {SERVICE_NAME_BYTES_MAX} bytes.")
@click.option("--price-min", type=AMOUNT, required=True, help="oGPU per thousand tokens that a unit offers first.")
@click.option("--price-max", type=AMOUNT, required=True, help="oGPU per thousand tokens that it offers at last.")
@click.option(
    "--ramp", type=click.IntRange(0, RAMP_BLOCKS_MAX), required=True, help="Blocks in which an unmatched price rises."
)
@click.option(
    "--lease", type=click.IntRange(1, LEASE_BLOCKS_MAX), required=True, help="Blocks that racers have for a unit."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1, TOKENS_MAX),
    required=True,
    help="Most that a request may cost, in its workload's unit.",
)
@click.option("--input-share", type=PERCENT, default=0, help="Per cent of an output token that an input token counts.")
@click.option(
    "--pace",
    type=click.IntRange(0, PACE_MAX),
    default=0,
    help="Output tokens that the slowest racer computes in a block: large units have more blocks; 0 for no more.",
)
@click.option(
    "--consumer-pace",
    type=click.IntRange(0, PACE_MAX),
    default=0,
    help="The same of the slowest device of class consumer.  [default: as --pace]",
)
@click.option(
    "--datacenter-pace",
    type=click.IntRange(0, PACE_MAX),
    default=0,
    help="The same of the slowest device of class datacenter.  [default: as --consumer-pace]",
)
@sending_options
@click.pass_obj
def create_service(
    session: WalletSession, key_text: str, workload: str, name: str, price_min: int, price_max: int, ramp: int,
    lease: int, max_tokens: int, input_share: int, pace: int, consumer_pace: int, datacenter_pace: int,
    sending: SendingOptions,
) -> None:  # fmt: skip
    """Offer a new kind of unit; a deposit is locked until the service is closed."""

    async def plan(client: ChainClient, _payer: Payer) -> PlannedCall:
        form = form_named(workload)
        terms = ServiceTerms(
            name=name.encode(),
            workload=form.workload_id,
            model=form.model_id,
            price_min=price_min,
            price_max=price_max,
            ramp=ramp,
            lease=lease,
            tokens_max=max_tokens,
            input_share=input_share,
            pace=pace,
            consumer_pace=consumer_pace,
            datacenter_pace=datacenter_pace,
        )
        _check(terms)
        deposit = await client.read(InferenceMarket.service_deposit.item)
        facts = {
            "name": name,
            "workload": form.name,
            "price_min": Grains(price_min),
            "price_max": Grains(price_max),
            "ramp_blocks": ramp,
            "lease_blocks": lease,
            "pace": pace or None,
            "consumer_pace": consumer_pace or None,
            "datacenter_pace": datacenter_pace or None,
            "tokens_max": max_tokens,
            "input_share_percent": format_percent(input_share),
            "unit_of_cost": form.cost_unit,
            "deposit": Grains(deposit),
        }
        call = InferenceMarket.create_service(terms=terms)
        return planned(session.output, call, facts, locks=deposit, result=_created)

    make(session, key_text, sending, plan)


def _check(terms: ServiceTerms) -> None:
    """ServiceError for what the chain would refuse as unsound; the other limits are in the options."""
    if not 1 <= len(terms.name) <= SERVICE_NAME_BYTES_MAX:
        raise ServiceError(f"--name has {len(terms.name)} bytes: 1 to {SERVICE_NAME_BYTES_MAX}")
    if not 0 < terms.price_min <= terms.price_max <= PRICE_MAX:
        raise ServiceError(
            f"prices rise from --price-min, above 0, to --price-max, at most {format_amount(PRICE_MAX)} oGPU; "
            f"not from {format_amount(terms.price_min)} to {format_amount(terms.price_max)}"
        )
    if not has_sound_paces(terms):
        said = zip(
            ("--pace", "--consumer-pace", "--datacenter-pace"),
            (terms.pace, terms.consumer_pace, terms.datacenter_pace),
            strict=True,
        )
        given = ", ".join(f"{name} {pace}" for name, pace in said if pace)
        if not terms.pace:
            raise ServiceError(f"{given} needs a --pace too: how fast the slowest racer of all is, one of class cpu")
        raise ServiceError(f"{given}: no class may be slower than the one before it, of cpu, consumer, datacenter")


def _created(outcome: Outcome) -> dict[str, Any]:
    return {"service": next((event.service for event in outcome.events if isinstance(event, ServiceCreated)), None)}


@click.command()
@click.argument("number", type=int, metavar="SERVICE")
@key_option
@sending_options
@click.pass_obj
def close_service(session: WalletSession, number: int, key_text: str, sending: SendingOptions) -> None:
    """Let no more units of SERVICE be posted, and take its deposit back; open units go on."""

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        service = await market_reads.service(client, number)
        if service is None or not service.is_open:
            raise ServiceError(f"there is no open service {number}: see `ogpu services`")
        if service.owner != payer.account:
            raise ServiceError(f"service {number} is {ss58.encode(service.owner)}'s: only its owner can close it")
        facts = {
            "service": number,
            "name": service.terms.name.decode("utf-8", errors="replace"),
            "comes_back": Grains(service.deposit),
            "open_units": service.open_units,
        }
        return planned(session.output, InferenceMarket.close_service(service=number), facts)

    make(session, key_text, sending, plan)
