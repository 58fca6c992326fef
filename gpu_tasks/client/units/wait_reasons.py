"""The reasons why a queued unit waits, from the chain's facts about all possible providers.

Invariants:

* All reads are of the final chain. They pass the tests of the chain's draw (`gpu_tasks/market/draws.py`).
* The order puts first the failed test that a customer can act on.
* Texts name blocks, not remaining times, so that they change only with the facts. A command adds the times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_tasks.batches.requests import price_of
from gpu_tasks.client.offers.listing import own_accounts, too_few_checkers
from gpu_tasks.data import market_reads
from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.checkers_left import CheckersLeft
from gpu_tasks.market.inference.classes import ALL_CLASSES, classes_at, classes_of, next_widening, ramp_of_classes
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import Unit, UnitState
from wallet.amounts import counted, format_amount
from wallet.client import ChainClient

AWAITS_DRAW = "waiting for the next draw"
"""No obstacle: the beacon of the next blocks decides."""


@dataclass(frozen=True, slots=True)
class MarketView:
    """The side of the market that could take units, at one final block."""

    height: int
    services: Mapping[int, Service]
    devices: Sequence[DeviceStatus]
    """The devices, one row for each service that a waiting unit needs, with that offer alone."""
    readers: Mapping[int, Mapping[bytes, int]]
    """By service: the owners that can open inputs, each with the block of its key. The chain draws no others."""
    own: Mapping[bytes, set[bytes]]
    """By customer: the owners that are never drawn for its units."""
    checkers: CheckersLeft
    """The eligible voters of the active set, and the number that a race must leave."""


async def look(client: ChainClient, units: Iterable[Unit | None], final_hash: bytes) -> MarketView | None:
    """Read the data that the reasons of queued units need. Return None if no unit is queued."""
    queued = [unit for unit in units if unit is not None and unit.state is UnitState.QUEUED]
    if not queued:
        return None
    customers = sorted({unit.customer for unit in queued})
    service_numbers = sorted({unit.service for unit in queued})
    services, readers = {}, {}
    input_readers: tuple[InputReader, ...] = ()
    devices: list[DeviceStatus] = []
    for number in service_numbers:
        input_readers = await market_reads.readers(client, number, final_hash)
        readers[number] = {reader.stash: reader.key_since for reader in input_readers}
        devices += await market_reads.devices_for(client, number, final_hash)
        service = await market_reads.service(client, number, final_hash)
        if service is not None:
            services[number] = service
    return MarketView(
        height=await client.height(final_hash),
        services=services,
        devices=devices,
        readers=readers,
        own={customer: await own_accounts(client, customer, final_hash) for customer in customers},
        checkers=await market_reads.checkers_left(client, input_readers, final_hash),
    )


def why_queued(unit: Unit, market_view: MarketView) -> str:
    """Return a sentence: the reason why the unit waits, and the block that ends its wait."""
    until = unit.posted_at + unit.rules.queue_blocks
    return f"{reason_queued(unit, market_view)}. Refunded at block {until} if not drawn by then"


@dataclass(frozen=True, slots=True)
class _OfferedDevice:
    """A device that offers the unit's service, with the values that the draw reads."""

    owner: bytes
    ask: int
    free_bond: int
    key_since: int | None
    is_free: bool
    kind: DeviceClass


def reason_queued(unit: Unit, market_view: MarketView) -> str:
    """Return the reason why a unit waits."""
    needed = unit.terms.racers
    offered = _offered_devices(unit, market_view)
    if _owner_count(offered) < needed:
        declined = f", {len(unit.declined_by)} declined it as too large or unreadable" if unit.declined_by else ""
        offering = counted(_owner_count(offered), "offers", "offer")
        return f"needs {_needed_text(needed)}, {offering} the service{declined}"

    classes = _allowed_classes(unit, market_view)
    suiting = [device for device in offered if device.kind in classes]
    if _owner_count(suiting) < needed:
        having = counted(_owner_count(suiting), "offers", "offer")
        more = _more_classes(unit, market_view)
        return f"needs {_needed_text(needed)} with a {_either_class(classes)} device, {having} the service{more}"
    offered = suiting

    price, work = _price_at(unit, market_view, market_view.height), money.work_allowed(unit)
    priced = [device for device in offered if price_of(device.ask, work) <= price]
    if _owner_count(priced) < needed:
        return _too_dear_text(unit, market_view, offered)

    collateral = money.collateral(unit.rules, price, needed, unit.terms.requests)
    secured = [device for device in priced if device.free_bond >= collateral]
    if _owner_count(secured) < needed:
        amount = format_amount(collateral)
        having = counted(_owner_count(secured), "has", "have")
        return f"needs {_needed_text(needed)} with {amount} oGPU of a device's bond free, {having} it"

    # A key that is newer than the input can never open it.
    reading = [
        device for device in secured if device.key_since is not None and device.key_since <= unit.terms.sealed_at
    ]
    if _owner_count(reading) < needed:
        count = _owner_count(reading)
        return f"needs {_needed_text(needed)} who can open its input, {count} can. Cancel the unit and post it again"

    spare = market_view.checkers.spare(unit.terms.sealed_at, _excluded_owners(unit, market_view), needed)
    racing = market_view.checkers.racing({device.owner for device in reading}, spare)
    if spare.count < 0 or racing < needed:
        reason = too_few_checkers(needed, racing, spare, market_view.checkers)
        return f"{reason}. Cancel the unit and post it again" if spare.count < 0 else reason

    free = market_view.checkers.racing({device.owner for device in reading if device.is_free}, spare)
    if free < needed:
        are = "is" if free == 1 else "are"
        return f"busy: needs {_needed_text(needed, 'free owner')}, {free} of {racing} suitable {are} free"
    return AWAITS_DRAW


def _excluded_owners(unit: Unit, market_view: MarketView) -> set[bytes]:
    """Return the owners that may neither race for the unit nor check it."""
    return market_view.own[unit.customer] | set(unit.declined_by)


def _offered_devices(unit: Unit, market_view: MarketView) -> list[_OfferedDevice]:
    """Return the devices that offer the unit's service, without paused ones and excluded owners."""
    excluded = _excluded_owners(unit, market_view)
    readers = market_view.readers[unit.service]
    offered = []
    for status in market_view.devices:
        device, offer = status.device, dict(status.offers).get(unit.service)
        if offer is None or device.is_paused or device.owner in excluded:
            continue
        since = readers.get(device.owner)
        offered.append(
            _OfferedDevice(
                owner=device.owner,
                ask=offer.ask,
                free_bond=max(0, device.bond - device.secured),
                key_since=None if since is None else max(since, device.registered_at),
                is_free=run_queue.has_place(device),
                kind=device.kind,
            )
        )
    return offered


def _owner_count(offered: Iterable[_OfferedDevice]) -> int:
    return len({device.owner for device in offered})


def _needed_text(owners: int, noun: str = "owner") -> str:
    return counted(owners, noun, noun + "s")


def _price_at(unit: Unit, market_view: MarketView, height: int) -> int:
    """Return the unit's offer at a height. It rises with age; if the service is gone, it is the maximum."""
    service = market_view.services.get(unit.service)
    if service is None:
        return unit.terms.price_max
    terms = service.terms
    floor = price_of(terms.price_min, money.work_allowed(unit))
    return money.ramped_price(floor, unit.terms.price_max, height - unit.posted_at, terms.ramp)


def _allowed_classes(unit: Unit, market_view: MarketView) -> tuple[DeviceClass, ...]:
    """Return the classes that may race; all of them if the service is gone."""
    service = market_view.services.get(unit.service)
    return ALL_CLASSES if service is None else classes_of(unit, service.terms.ramp)


def _either_class(classes: Iterable[DeviceClass]) -> str:
    return " or ".join(device_class.name.lower() for device_class in classes)


def _more_classes(unit: Unit, market_view: MarketView) -> str:
    """Return a clause with the block from which further classes may race."""
    ramp = market_view.services[unit.service].terms.ramp
    age = next_widening(unit, ramp)
    if age is None:
        return ""
    more = _either_class(classes_at(unit.terms.device_class, age, ramp_of_classes(unit, ramp)))
    return f"; from block {unit.posted_at + age} on, {more} suffices"


def _too_dear_text(unit: Unit, market_view: MarketView, offered: Sequence[_OfferedDevice]) -> str:
    """Return the ask that enough owners would take, and the block at which the rising price reaches it."""
    lowest: dict[bytes, int] = {}
    for device in offered:
        # Racers have different owners, so an owner of many devices counts once, with its lowest ask.
        lowest[device.owner] = min(device.ask, lowest.get(device.owner, device.ask))
    needed = unit.terms.racers
    ask = price_of(sorted(lowest.values())[needed - 1], money.work_allowed(unit))
    lowest_asks = "the lowest ask is" if needed == 1 else f"the {needed} lowest asks go up to"
    if ask > unit.terms.price_max:
        return (
            f"{lowest_asks} {format_amount(ask)} oGPU, and its maximum price is {format_amount(unit.terms.price_max)}"
        )
    last_block = unit.posted_at + unit.rules.queue_blocks
    reached = next(
        (height for height in range(market_view.height, last_block) if _price_at(unit, market_view, height) >= ask),
        None,
    )
    if reached is None:
        return f"{lowest_asks} {format_amount(ask)} oGPU, and its price does not reach that in time"
    return f"{lowest_asks} {format_amount(ask)} oGPU, and its rising price reaches that at block {reached}"
