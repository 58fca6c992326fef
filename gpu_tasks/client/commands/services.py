"""Commands about offers: services, providers, prices, a search, and services of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cli.calls import PlannedCall, Planning, sends
from cli.output import Account, Output, fields_of
from cli.session import WalletSession, note, reads
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.offers.listing import (
    DEVICE_COLUMNS,
    SERVICE_COLUMNS,
    ServiceError,
    ServiceView,
    form_named,
    heard_inventories,
    read_devices,
    reliability_of,
    service_view,
    with_claims,
)
from gpu_tasks.client.offers.outlook import grains_of, slot_ms
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.proven_rates import proven_rates
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.events import ServiceCreated, UnitSettled
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import (
    COMMIT_WINDOW_MAX,
    PRICE_MAX,
    RAMP_BLOCKS_MAX,
    SERVICE_NAME_BYTES_MAX,
    ServiceTerms,
    has_sound_paces,
)
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.training.reputation import PPM
from gpu_tasks.tasks.offer_query import asks_for_claims, matching, parse_query
from gpu_tasks.tasks.offers import DeviceState, OfferRow, rows_of
from gpu_tasks.tasks.quantities import TimeSpan, written_span
from runtime.cryptography import ss58
from wallet.amounts import Grains, counted, format_amount
from wallet.client import ChainClient, Outcome
from wallet.rpc import OddAnswerError, RpcError

ID_BYTES_SHOWN = 4
CREATED = (
    "name", "workload", "price_min", "price_max", "ramp_blocks", "commit_window_blocks", "pace", "consumer_pace",
    "datacenter_pace", "tokens_max", "input_share_percent", "check_percent", "unit_of_cost",
)  # fmt: skip
"""Facts about a new service, in the order of the output."""


# Prices of units: for each service and class the lowest ask, the median and the last paid price.
#
# Invariant: asks of paused devices do not count. A median is an existing ask; of an even number it is the lower of the
# two in the middle, so nothing is averaged or rounded.
@dataclass(frozen=True, slots=True)
class SettledUnit:
    """A paid unit: the class of its device, its price and its block."""

    service: int
    kind: DeviceClass
    price: int
    block: int


@dataclass(frozen=True, slots=True)
class PriceRow:
    """Prices of a service's units on a class of devices, in grains."""

    service: int
    workload: str | None
    kind: DeviceClass
    offers: int
    """Devices that are neither paused nor unproven."""
    free: int
    lowest: int | None
    median: int | None
    last: SettledUnit | None
    """The most recently settled unit, or None without a recent payment."""


def price_rows(offers: Iterable[OfferRow], settled: Sequence[SettledUnit]) -> list[PriceRow]:
    """Return a row for each service and class with an offer or a payment, in their order."""
    groups: dict[tuple[int, DeviceClass], list[OfferRow]] = {(unit.service, unit.kind): [] for unit in settled}
    workloads: dict[int, str | None] = {}
    for offer in offers:
        workloads[offer.service] = offer.workload
        group = groups.setdefault((offer.service, offer.kind), [])
        if offer.state in {DeviceState.FREE, DeviceState.WORKING}:
            group.append(offer)
    rows = []
    for (service, kind), group in sorted(groups.items()):
        asks = sorted(offer.price for offer in group)
        paid = [unit for unit in settled if (unit.service, unit.kind) == (service, kind)]
        rows.append(
            PriceRow(
                service=service,
                workload=workloads.get(service),
                kind=kind,
                offers=len(group),
                free=sum(offer.state is DeviceState.FREE for offer in group),
                lowest=asks[0] if asks else None,
                median=asks[(len(asks) - 1) // 2] if asks else None,
                last=max(paid, key=lambda unit: unit.block, default=None),
            )
        )
    return rows


@reads
async def services(session: WalletSession, client: ChainClient) -> None:
    """Carry out `ogpu offer services`."""
    sold = await market_reads.services(client)
    found = [service_view(each.terms, number, is_open=each.is_open) for number, each in sold.items()]
    if session.output.as_json:
        session.output.rows("Services", SERVICE_COLUMNS, [fields_of(each) for each in found])
        return
    columns = [name for name in SERVICE_COLUMNS if name not in {"consumer_pace", "datacenter_pace"}]  # see `pace`
    # Whole ids would leave the other columns no room.
    rows = [fields_of(each) | {"pace": _paces(each), "model": each.model[:ID_BYTES_SHOWN]} for each in found]
    session.output.rows("Services", columns, rows)


def _paces(service: ServiceView) -> str | None:
    """Return the output tokens a block of the slowest device of each class, where it differs from the class below."""
    named = {"": service.pace, "consumer ": service.consumer_pace, "datacenter ": service.datacenter_pace}
    return ", ".join(f"{kind}{pace}" for kind, pace in named.items() if pace) or None


@reads
async def providers(session: WalletSession, client: ChainClient) -> None:
    """Carry out `ogpu offer providers`."""
    rows = [fields_of(each) for each in await read_devices(client)]
    if not session.output.as_json:
        rows = [row | {"device": row["device"][:ID_BYTES_SHOWN]} for row in rows]
    session.output.rows("Providers", DEVICE_COLUMNS, rows)


@sends
async def create_service(
    by: Planning, /, workload: str, name: str, ramp: TimeSpan, commit_window: TimeSpan, **numbers: int
) -> PlannedCall:
    """Carry out `ogpu offer create-service`."""
    form, slot = form_named(workload), slot_ms(by.client)
    terms = ServiceTerms(
        name=name.encode(),
        workload=form.workload_id,
        model=form.model_id,
        ramp=_blocks("--ramp", ramp, slot, RAMP_BLOCKS_MAX),
        commit_window=_blocks("--commit-window", commit_window, slot, COMMIT_WINDOW_MAX),
        check_ppm=form.check_ppm,
        **numbers,
    )
    _check(terms)
    deposit = await by.client.read(InferenceMarket.service_deposit.item)
    row = fields_of(service_view(terms))
    facts = {each: row[each] for each in CREATED} | {"deposit": Grains(deposit)}
    call = InferenceMarket.create_service(terms=terms)
    return planned(by.session.output, call, facts, locks=deposit, result=_created)


def _blocks(option: str, span: TimeSpan, slot: int, most: int) -> int:
    """Return the blocks of an option's time. Raise ServiceError for more than the chain takes."""
    blocks = span.blocks_for(slot)
    if blocks > most:
        longest = f"{most:,} blocks, or {written_span(most * slot)}"
        raise ServiceError(f"{option} is {blocks:,} blocks. Give at most {longest}", code="out_of_range")
    return blocks


def _check(terms: ServiceTerms) -> None:
    """Raise ServiceError for terms that the chain would refuse. The options check the other limits."""
    if not 1 <= len(terms.name) <= SERVICE_NAME_BYTES_MAX:
        raise ServiceError(
            f"--name has {len(terms.name)} bytes. Use 1 to {SERVICE_NAME_BYTES_MAX}", code="invalid_name"
        )
    if not 0 < terms.price_min <= terms.price_max <= PRICE_MAX:
        raise ServiceError(
            f"prices rise from --price-min, above 0, to --price-max, at most {format_amount(PRICE_MAX)} oGPU. You "
            f"gave {format_amount(terms.price_min)} to {format_amount(terms.price_max)}",
            code="invalid_prices",
        )
    if not has_sound_paces(terms):
        said = zip(
            ("--pace", "--consumer-pace", "--datacenter-pace"),
            (terms.pace, terms.consumer_pace, terms.datacenter_pace),
            strict=True,
        )
        given = ", ".join(f"{name} {pace}" for name, pace in said if pace)
        if not terms.pace:
            raise ServiceError(f"{given} needs a --pace too, the pace of the slowest racer", code="invalid_paces")
        raise ServiceError(
            f"{given}: no class may be slower than the class before it. The order is cpu, consumer, datacenter",
            code="invalid_paces",
        )


def _created(outcome: Outcome) -> dict[str, Any]:
    return {"service": next((event.service for event in outcome.events if isinstance(event, ServiceCreated)), None)}


@sends
async def close_service(by: Planning, number: int) -> PlannedCall:
    """Carry out `ogpu offer close-service`."""
    service = await market_reads.service(by.client, number)
    if service is None or not service.is_open:
        raise ServiceError(f"there is no open service {number}. See `ogpu offer services`", code="service_unknown")
    if service.owner != by.payer.account:
        raise ServiceError(
            f"service {number} belongs to {ss58.encode(service.owner)}. Only its owner can close it", code="not_owner"
        )
    facts = {
        "service": number,
        "name": service.terms.name.decode("utf-8", errors="replace"),
        "comes_back": Grains(service.deposit),
        "open_units": service.open_units,
    }
    return planned(by.session.output, InferenceMarket.close_service(service=number), facts)


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


def search(session: WalletSession, conditions: tuple[str, ...], limit: int, inventory: bool) -> None:
    """Carry out `ogpu offer search`."""
    _search(session, " ".join(conditions), limit, is_asked=inventory)


def _search(session: WalletSession, text: str, limit: int, *, is_asked: bool) -> None:
    query = parse_query(text)  # Check the query before any node is asked.

    async def body(client: ChainClient) -> None:
        final = await client.finalized()
        by_chain = [condition for condition in query if not condition.field.is_claimed]
        offers = await current_offers(client, final)
        found = matching(by_chain, offers)
        has_claims = is_asked or asks_for_claims(query)
        if has_claims:
            # The chain's own facts come first: providers that they rule out are not asked.
            found, left_out = await claimed(client, found, final)
            found = matching(query, found)
            _name_left_out(left_out)
        _show_offers(session.output, found[:limit], has_claims=has_claims)
        if not found:
            note(
                f"none of {counted(len(offers), 'offer')} meets the conditions. `ogpu offer search` without conditions "
                "shows all"
            )
        if len(found) > limit:
            note(f"{len(found) - limit} more expensive offers are hidden. Raise --limit, or add conditions")

    session.run(body)


def _name_left_out(left_out: dict[bytes, str]) -> None:
    """Note the providers whose claims are left out, with the reason."""
    for owner, why in list(left_out.items())[:LEFT_OUT_SHOWN]:
        note(f"the claims of {ss58.encode(owner)} are left out: it {why}")
    if len(left_out) > LEFT_OUT_SHOWN:
        note(f"the claims of {len(left_out) - LEFT_OUT_SHOWN} more providers are left out")


def _show_offers(output: Output, found: Sequence[OfferRow], *, has_claims: bool) -> None:
    """Print facts of the chain, and claims under a title of their own."""
    rows = [_offer(row, is_whole=output.as_json) for row in found]
    if not has_claims:
        output.rows("Offers", OFFER_COLUMNS, rows)
        return
    if output.as_json:
        whole = [row | {"claimed": _claimed(offer)} for row, offer in zip(rows, found, strict=True)]
        output.rows("Offers", (*OFFER_COLUMNS, "claimed"), whole)
        return
    output.rows("Offers, from the chain", SHOWN_WITH_CLAIMS, rows)
    nothing: dict[str, Any] = dict.fromkeys(CLAIM_COLUMNS)
    said = [{"device": row["device"]} | (_claimed(offer) or nothing) for row, offer in zip(rows, found, strict=True)]
    output.rows("Claims of their providers, which nothing proves", ("device", *CLAIM_COLUMNS), said)


def _claimed(row: OfferRow) -> dict[str, Any] | None:
    """Return the claims of a provider, None for each missing one."""
    said = row.claims
    if said is None:
        return None
    values = asdict(said) | {"platform": f"{said.platform} {said.platform_version}".strip()}
    return {name: values[name] or None for name in CLAIM_COLUMNS}


def _offer(row: OfferRow, *, is_whole: bool) -> dict[str, Any]:
    """Return a row with the whole device id, or with the digits that a condition takes."""
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


@reads
async def price(session: WalletSession, client: ChainClient, service: int | None) -> None:
    """Carry out `ogpu offer price`."""
    final = await client.finalized()
    rows = price_rows(await current_offers(client, final), await settled_of_late(client, final))
    kept = [_price(row) for row in rows if service in (None, row.service)]
    session.output.rows("Prices of a thousand output tokens", PRICE_COLUMNS, kept)


def _price(row: PriceRow) -> dict[str, Any]:
    last = row.last
    return {
        "service": row.service,
        "workload": row.workload,
        "class": row.kind.name.lower(),
        "offers": row.offers,
        "free": row.free,
        "lowest": grains_of(row.lowest),
        "median": grains_of(row.median),
        "last_paid": None if last is None else Grains(last.price),
        "last_paid_in_block": None if last is None else last.block,
    }


# Offers and devices come from one final block. Recent payments come from the events of the newest blocks whose states
# nodes keep.
BLOCKS_LOOKED_AT = 32


async def current_offers(client: ChainClient, block_hash: bytes) -> list[OfferRow]:
    """Return all offers for open services at a block, cheapest first, with their providers' reliability."""
    devices = await market_reads.devices(client, block_hash)
    rates = await proven_rates(client, [status.id for status in devices], block_hash)
    rows = rows_of(devices, await market_reads.services(client, block_hash), rates)
    past = await reliability_of(client, list(dict.fromkeys(row.provider for row in rows)), block_hash)
    return [replace(row, reliability_ppm=past.get(row.provider)) for row in rows]


async def claimed(
    client: ChainClient, rows: list[OfferRow], block_hash: bytes
) -> tuple[list[OfferRow], dict[bytes, str]]:
    """Return the offers with their providers' claims, and the reasons for claims that are left out."""
    owners = list(dict.fromkeys(row.provider for row in rows))
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        heard = await heard_inventories(client, blobs, owners, block_hash)
    return with_claims(rows, heard, await market_reads.devices(client, block_hash)), heard.left_out


async def settled_of_late(client: ChainClient, block_hash: bytes) -> list[SettledUnit]:
    """Return the units that the newest final blocks paid, with the class of each device that its owner still has."""
    height = await client.height(block_hash)
    paid: dict[bytes, tuple[UnitSettled, int]] = {}
    first = max(1, height - BLOCKS_LOOKED_AT + 1)
    blocks = await client.final_ids(first, height) if first <= height else []
    for number, block in reversed(list(enumerate(blocks, first))):
        try:
            records = await client.events(block)
        except (RpcError, OddAnswerError):  # Older states are gone: a node keeps only the newest.
            break
        for record in records:
            if isinstance(record.event, UnitSettled):
                paid.setdefault(record.event.unit, (record.event, number))
    units = await market_reads.units(client, list(paid), block_hash)
    kinds = {status.id: status.device.kind for status in await market_reads.devices(client, block_hash)}
    found = []
    for (event, number), unit in zip(paid.values(), units, strict=True):
        device = None if unit is None else _device_of(unit, event.winner)
        if unit is not None and device in kinds:
            found.append(SettledUnit(unit.service, kinds[device], event.price, number))
    return found


def _device_of(unit: Unit, winner: bytes) -> bytes | None:
    return next((racer.device for racer in unit.racers if racer.owner == winner), None)
