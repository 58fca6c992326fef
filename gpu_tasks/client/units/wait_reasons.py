"""The reasons why a queued unit waits or is undecided, from the chain's facts about all possible providers.

Invariants:

* All reads are of the final chain. They pass the tests of the chain's draw (`gpu_tasks/market/draws.py`).
* The order puts first the failed test that a customer can act on.
* Texts name blocks, not remaining times, so that they change only with the facts. A command adds the times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_tasks.batches.requests import price_of
from gpu_tasks.client.offers.listing import own_accounts, too_few_judges
from gpu_tasks.data import market_reads
from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase
from gpu_tasks.market.courts.courts_api import CaseStatus
from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.classes import ALL_CLASSES, classes_at, classes_of, next_widening, ramp_of_classes
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.inference.judges_left import JudgesLeft
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import Unit, UnitState
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
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
    judges: JudgesLeft
    """The eligible judges of the active set, and the number that a race must leave."""


async def look(client: ChainClient, units: Iterable[Unit | None], final: bytes) -> MarketView | None:
    """Read the data that the reasons of queued units need. Return None if no unit is queued."""
    queued = [unit for unit in units if unit is not None and unit.state is UnitState.QUEUED]
    if not queued:
        return None
    customers = sorted({unit.customer for unit in queued})
    numbers = sorted({unit.service for unit in queued})
    services, readers = {}, {}
    found: tuple[InputReader, ...] = ()
    devices: list[DeviceStatus] = []
    for number in numbers:
        found = await market_reads.readers(client, number, final)
        readers[number] = {reader.stash: reader.key_since for reader in found}
        devices += await market_reads.devices_for(client, number, final)
        service = await market_reads.service(client, number, final)
        if service is not None:
            services[number] = service
    return MarketView(
        height=await client.height(final),
        services=services,
        devices=devices,
        readers=readers,
        own={customer: await own_accounts(client, customer, final) for customer in customers},
        judges=await market_reads.judges_left(client, found, final),
    )


def why_queued(unit: Unit, view: MarketView) -> str:
    """Return a sentence: the reason why the unit waits, and the block that ends its wait."""
    until = unit.posted_at + unit.rules.queue_blocks
    return f"{reason_queued(unit, view)}. Refunded at block {until} if not drawn by then"


@dataclass(frozen=True, slots=True)
class _Slot:
    """A device that offers the unit's service, with the values that the draw reads."""

    owner: bytes
    ask: int
    free_bond: int
    key_since: int | None
    is_free: bool
    kind: DeviceClass


def reason_queued(unit: Unit, view: MarketView) -> str:
    """Return the reason why a unit waits."""
    needed = unit.terms.racers
    slots = _slots(unit, view)
    if _owners(slots) < needed:
        declined = f", {len(unit.declined_by)} could not open the input" if unit.declined_by else ""
        offering = counted(_owners(slots), "offers", "offer")
        return f"needs {_needed(needed)}, {offering} the service{declined}"

    classes = _classes(unit, view)
    suiting = [slot for slot in slots if slot.kind in classes]
    if _owners(suiting) < needed:
        having = counted(_owners(suiting), "offers", "offer")
        return (
            f"needs {_needed(needed)} with a {_either(classes)} device, {having} the service{_more_classes(unit, view)}"
        )
    slots = suiting

    price, work = _price(unit, view, view.height), money.work_allowed(unit)
    priced = [slot for slot in slots if price_of(slot.ask, work) <= price]
    if _owners(priced) < needed:
        return _too_dear(unit, view, slots)

    collateral = money.collateral(unit.rules, price)
    secured = [slot for slot in priced if slot.free_bond >= collateral]
    if _owners(secured) < needed:
        amount = format_amount(collateral)
        having = counted(_owners(secured), "has", "have")
        return f"needs {_needed(needed)} with {amount} oGPU of a device's bond free, {having} it"

    # A key that is newer than the input can never open it.
    reading = [slot for slot in secured if slot.key_since is not None and slot.key_since <= unit.terms.sealed_at]
    if _owners(reading) < needed:
        return (
            f"needs {_needed(needed)} who can open its input, {_owners(reading)} can. Cancel the unit and post it again"
        )

    spare = view.judges.spare(unit.terms.sealed_at, _excluded(unit, view), needed)
    racing = view.judges.racing({slot.owner for slot in reading}, spare)
    if spare.count < 0 or racing < needed:
        why = too_few_judges(needed, racing, spare, view.judges)
        return f"{why}. Cancel the unit and post it again" if spare.count < 0 else why

    free = view.judges.racing({slot.owner for slot in reading if slot.is_free}, spare)
    if free < needed:
        are = "is" if free == 1 else "are"
        return f"busy: needs {_needed(needed, 'free owner')}, {free} of {racing} suitable {are} free"
    return AWAITS_DRAW


def _excluded(unit: Unit, view: MarketView) -> set[bytes]:
    """Return the owners that may neither race for the unit nor judge it."""
    return view.own[unit.customer] | set(unit.declined_by)


def _slots(unit: Unit, view: MarketView) -> list[_Slot]:
    """Return the devices that offer the unit's service, without paused ones and excluded owners."""
    excluded = _excluded(unit, view)
    readers = view.readers[unit.service]
    slots = []
    for status in view.devices:
        device, offer = status.device, dict(status.offers).get(unit.service)
        if offer is None or device.is_paused or device.owner in excluded:
            continue
        since = readers.get(device.owner)
        slots.append(
            _Slot(
                owner=device.owner,
                ask=offer.ask,
                free_bond=max(0, device.bond - device.secured),
                key_since=None if since is None else max(since, device.registered_at),
                is_free=run_queue.has_place(device),
                kind=device.kind,
            )
        )
    return slots


def _owners(slots: Iterable[_Slot]) -> int:
    return len({slot.owner for slot in slots})


def _needed(owners: int, noun: str = "owner") -> str:
    return counted(owners, noun, noun + "s")


def _price(unit: Unit, view: MarketView, height: int) -> int:
    """Return the unit's offer at a height. It rises with age; if the service is gone, it is the maximum."""
    service = view.services.get(unit.service)
    if service is None:
        return unit.terms.price_max
    terms = service.terms
    floor = price_of(terms.price_min, money.work_allowed(unit))
    return money.ramped_price(floor, unit.terms.price_max, height - unit.posted_at, terms.ramp)


def _classes(unit: Unit, view: MarketView) -> tuple[DeviceClass, ...]:
    """Return the classes that may race; all of them if the service is gone."""
    service = view.services.get(unit.service)
    return ALL_CLASSES if service is None else classes_of(unit, service.terms.ramp)


def _either(classes: Iterable[DeviceClass]) -> str:
    return " or ".join(each.name.lower() for each in classes)


def _more_classes(unit: Unit, view: MarketView) -> str:
    """Return a clause with the block from which further classes may race."""
    ramp = view.services[unit.service].terms.ramp
    age = next_widening(unit, ramp)
    if age is None:
        return ""
    more = _either(classes_at(unit.terms.device_class, age, ramp_of_classes(unit, ramp)))
    return f"; from block {unit.posted_at + age} on, {more} suffices"


def _too_dear(unit: Unit, view: MarketView, slots: Sequence[_Slot]) -> str:
    """Return the ask that enough owners would take, and the block at which the rising price reaches it."""
    lowest: dict[bytes, int] = {}
    for slot in slots:
        # Racers have different owners, so an owner of many devices counts once, with its lowest ask.
        lowest[slot.owner] = min(slot.ask, lowest.get(slot.owner, slot.ask))
    needed = unit.terms.racers
    ask = price_of(sorted(lowest.values())[needed - 1], money.work_allowed(unit))
    what = "the lowest ask is" if needed == 1 else f"the {needed} lowest asks go up to"
    if ask > unit.terms.price_max:
        return f"{what} {format_amount(ask)} oGPU, and its maximum price is {format_amount(unit.terms.price_max)}"
    last = unit.posted_at + unit.rules.queue_blocks
    reached = next((height for height in range(view.height, last) if _price(unit, view, height) >= ask), None)
    if reached is None:
        return f"{what} {format_amount(ask)} oGPU, and its price does not reach that in time"
    return f"{what} {format_amount(ask)} oGPU, and its rising price reaches that at block {reached}"


BENCHES = {CaseStage.PAIR: "a pair of judges", CaseStage.COMMITTEE: "a committee", CaseStage.COURT: "a court"}


async def why_heard(client: ChainClient, unit_id: bytes, unit: Unit, at: bytes | None) -> str | None:
    """Return a sentence about a unit that its race did not decide, or None if the chain has no case of it."""
    dispute = await market_reads.dispute(client, unit_id, at) if unit.leaf_audit_ppm else None
    if dispute is not None and dispute.stage is not DisputeStage.JUDGED:
        return why_differing(dispute)
    case = await market_reads.case(client, unit_id, at)
    return None if case is None else why_judging(case, None if dispute is None else dispute.leaf)


def why_differing(dispute: LeafDispute) -> str:
    """Return a sentence about a batch whose racers differ, while they show their trees."""
    what = "their trees" if dispute.stage is DisputeStage.SUBTREES else "their leaves"
    who = "both" if len(dispute.sides) == 2 else f"all {len(dispute.sides)} sides"
    shown = sum(side.has_shown for side in dispute.sides)
    so_far = f"{shown or 'none'} did so far"
    return f"its racers gave different answers; {who} must show {what} by block {dispute.deadline}, {so_far}"


def why_judging(status: CaseStatus, leaf: int | None = None) -> str:
    """Return a sentence: the cause of a unit's case, or that of one leaf, and the current step of its judges."""
    cause = (
        _cause(status.case)
        if leaf is None
        else f"its racers first differ in leaf {leaf}, and judges decide that leaf alone"
    )
    return f"{cause}; {what_judges_do(status)}"


def _cause(case: CourtCase) -> str:
    claims = case.terms.claims
    answers = {claim.root for claim in claims if claim.kind is ClaimKind.ANSWERED}
    declined = sum(claim.kind is ClaimKind.DECLINED for claim in claims)
    if len(answers) > 1:
        return "its racers gave different answers"
    if answers:
        return "too few of its racers answered"
    return f"{declined} providers could not use its input" if declined else "no racer revealed an answer in time"


def what_judges_do(status: CaseStatus) -> str:
    """Return the current step of the judges, and its last block."""
    case = status.case
    if case.stage is CaseStage.APPEALABLE:
        return f"judges have decided, and their verdict is final without an appeal by block {case.appealable_until}"
    bench = BENCHES.get(case.stage, "judges")
    if case.round is None:
        return f"{bench} will be drawn"
    if status.opens_from:
        return f"{bench} reveals its verdict by block {status.opens_until}"
    until = f", by block {status.commits_until}" if status.commits_until else ""
    return f"{bench} computes it again{until}"
