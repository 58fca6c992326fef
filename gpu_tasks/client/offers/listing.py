"""Services and offers for a customer: forms of requests, owners, device classes and claimed machines.

Invariants:

* The service's workload id selects the form of its requests, so a new workload needs no change here.
* Offers come from the chain. Paused devices, the customer's own devices and dearer asks do not count. Nor does an owner
  that must stay outside the race to check the unit.
* An inventory is its provider's claim. The number of queried providers, the bytes and the time are bounded, and an
  answer counts only if the chain knows its key.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

from cli.output import Account
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.inventory import ClaimedDevice, ClaimedMachine, ClaimedPolicy, InventoryError, read_inventory
from gpu_tasks.data.proven_rates import unproven
from gpu_tasks.market.claims.collateral import check_share, game_rate
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from gpu_tasks.market.draws import Spare
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.checkers_left import SMALL_SET, CheckersLeft, is_checked_set
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.market.training.reputation import PPM, failure_ppm, record_at
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.models.catalogue import install_advice
from gpu_tasks.tasks.offers import DeviceClaims, OfferRow
from gpu_tasks.workloads import model_forms, registry
from gpu_tasks.workloads.form import WorkloadForm
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains, counted, format_amount, format_percent
from wallet.client import ChainClient
from wallet.errors import WalletError


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service with the terms of its units. Amounts are for a thousand tokens, paces are output tokens per block."""

    service: int | None
    """The service's number. None if it is not on the chain yet."""
    name: str
    workload: str
    """The workload's name, or its id if this program does not know the workload."""
    price_min: Grains
    price_max: Grains
    tokens_max: int
    input_share_percent: str
    check_percent: str
    """The cost of checking a request over the cost of computing it."""
    unit_of_cost: str | None
    options: str | None
    """The workload's options with their defaults."""
    ramp_blocks: int
    commit_window_blocks: int
    pace: int | None
    consumer_pace: int | None
    datacenter_pace: int | None
    open: bool
    model: bytes


SERVICE_COLUMNS = tuple(each.name for each in fields(ServiceView))


def service_view(terms: ServiceTerms, service_number: int | None = None, *, is_open: bool = True) -> ServiceView:
    """Return a service by its terms."""
    workload_form = model_forms.form_of(terms.workload, terms.model)
    return ServiceView(
        service=service_number,
        # The service's owner chose these bytes.
        name=terms.name.decode("utf-8", errors="replace"),
        workload=workload_form.name
        if workload_form
        else registry.workload_name(terms.workload) or "0x" + terms.workload.hex(),
        price_min=Grains(terms.price_min),
        price_max=Grains(terms.price_max),
        tokens_max=terms.tokens_max,
        input_share_percent=format_percent(terms.input_share),
        check_percent=format_percent(terms.check_ppm),
        unit_of_cost=workload_form.cost_unit if workload_form else None,
        options=", ".join(f"{option.name}={option.default}" for option in workload_form.options)
        if workload_form
        else None,
        ramp_blocks=terms.ramp,
        commit_window_blocks=terms.commit_window,
        pace=terms.pace or None,
        consumer_pace=terms.consumer_pace or None,
        datacenter_pace=terms.datacenter_pace or None,
        open=is_open,
        model=terms.model,
    )


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device and its provider's asks."""

    provider: Account
    device: bytes
    class_: str
    bond: Grains
    state: str
    asks: str
    endpoint: str | None


DEVICE_COLUMNS = tuple(each.name.removesuffix("_") for each in fields(DeviceView))


async def read_devices(client: ChainClient) -> list[DeviceView]:
    """Return all devices of the final block."""
    providers, views = await market_reads.providers(client), []
    for status in await market_reads.devices(client):
        device, provider = status.device, providers.get(status.device.owner)
        asks = [f"service {number}: {format_amount(offer.ask)} oGPU" for number, offer in status.offers]
        views.append(
            DeviceView(
                provider=Account(device.owner),
                device=status.id,
                class_=device.kind.name.lower(),
                bond=Grains(device.bond),
                state="paused" if device.is_paused else "working" if device.assignment else "free",
                asks=", ".join(asks),
                endpoint=None if provider is None else market_reads.endpoint_of(provider),
            )
        )
    return views


class ServiceError(WalletError):
    """The service cannot be bought, offered or closed as asked."""


async def open_service(client: ChainClient, service_number: int) -> Service:
    """Return the service if it is open. Raise ServiceError, which lists the open services, if it is not."""
    service = await market_reads.service(client, service_number)
    if service is None or not service.is_open:
        services = await market_reads.services(client)
        numbers = ", ".join(str(known) for known, found in services.items() if found.is_open) or "none"
        raise ServiceError(
            f"there is no open service {service_number}. Open: {numbers}. See `ogpu offer services`",
            code="service_unknown",
        )
    return service


def form_of(service_number: int, service: Service) -> WorkloadForm:
    """Return the form of the service's requests.

    Raise ServiceError if this program does not know its workload or model.
    """
    workload_form = model_forms.form_of(service.terms.workload, service.terms.model)
    name = registry.workload_name(service.terms.workload)
    if workload_form is None and name is not None:
        raise ServiceError(
            f"service {service_number} computes {name} with the model 0x{service.terms.model.hex()}, which is not on "
            f"this machine. {install_advice(service.terms.model)}",
            code="model_unknown",
        )
    if workload_form is None:
        known_names = ", ".join(registry.workload_names().values())
        raise ServiceError(
            f"service {service_number} is of the workload 0x{service.terms.workload.hex()}, which this program does "
            f"not know; it knows {known_names}: use a release that knows it",
            code="workload_unknown",
        )
    # Any account may sell a known workload with its own weights. If no other account has them, no checker can compute.
    if workload_form.model_id != service.terms.model:
        raise ServiceError(
            f"service {service_number} computes {workload_form.name} with the model 0x{service.terms.model.hex()}, "
            f"which is not the published one, 0x{workload_form.model_id.hex()}: its results could not be checked",
            code="model_unknown",
        )
    return workload_form


def form_named(name: str) -> WorkloadForm:
    """Return the form of a workload by its name.

    Raise ServiceError, which lists the known ones, for an unknown name.
    """
    try:
        return model_forms.form_named(name)
    except LookupError as error:
        raise ServiceError(str(error), code="workload_unknown") from None


def asks_of(devices: Iterable[DeviceStatus], service_number: int) -> dict[bytes, int]:
    """Return the lowest ask of each owner in grains, over its devices that offer the service and are not paused."""
    asks: dict[bytes, int] = {}
    for status in devices:
        for service, offer in status.offers:
            if service == service_number and not status.device.is_paused:
                owner = status.device.owner
                asks[owner] = min(offer.ask, asks.get(owner, offer.ask))
    return asks


async def own_accounts(client: ChainClient, customer: bytes, block_hash: bytes | None = None) -> set[bytes]:
    """Return the owners that the chain never draws for this customer's units: it, and the stash it works for."""
    stash = await market_reads.stash_of(client, customer, block_hash)
    return {customer} if stash is None else {customer, stash}


def too_few_checkers(racers: int, racing: int, spare: Spare, checkers: CheckersLeft) -> str:
    """Return a sentence about the validators that must stay outside a race, and the owners that may race then."""
    if spare.count < 0:
        return (
            f"too few validators would be left: {checkers.needed} must stay out of the race to check its result, "
            f"and {checkers.needed + spare.count} could. The customer, decliners and later keys do not count"
        )
    owners = counted(racers, "owner")
    return (
        f"too few validators would be left: needs {owners}, and {racing} suitable may race, "
        f"because {checkers.needed} validators must stay out of the race to check its result"
        + (", with two thirds of the stake" if len(checkers.stakes) >= SMALL_SET else "")
    )


async def require_checkers(client: ChainClient, service_number: int, customer: bytes) -> None:
    """Raise ServiceError if the chain would refuse units because too few validators could check and vote."""
    checkers, spare = await checkers_for(client, service_number, customer, 1, await client.finalized())
    if spare.count < 0:
        raise ServiceError(
            f"{too_few_checkers(0, 0, spare, checkers)}. The chain refuses your units "
            "until more validators are providers",
            code="too_few_checkers",
        )


async def unit_rules(client: ChainClient, check_ppm: int, block_hash: bytes | None = None) -> UnitRules:
    """Return the rules for a unit posted now, with only the values that price its checks and its witness.

    `check_ppm` is that of the service's terms.
    """
    validators = await client.read(TrustStake.active_set, at=block_hash)
    rate = await client.read(ResultClaims.check_rate.item, at=block_hash)
    return UnitRules(
        witness_share=await client.read(InferenceMarket.witness_share.item, at=block_hash),
        check_rate_ppm=game_rate(rate) if is_checked_set(len(validators)) else 0,
        check_ppm=check_share(check_ppm),
        check_fee_min=await client.read(ResultClaims.check_fee_min.item, at=block_hash),
    )


async def require_owners(
    client: ChainClient,
    service_number: int,
    customer: bytes,
    *,
    racers: int,
    rate_max: int,
    device_class: DeviceClass | None = None,
) -> None:
    """Raise ServiceError if the current offers cannot fill a race. All racers of a unit have different owners.

    `rate_max` is in grains per thousand output tokens. `device_class` is the class that the unit names, if any.
    """
    excluded, block_hash = await own_accounts(client, customer), await client.finalized()
    devices = await market_reads.devices_for(client, service_number, block_hash)
    named = [status for status in devices if device_class is None or status.device.kind is device_class]
    lacking = await unproven(client, [status.id for status in named], block_hash)
    asks = asks_of((status for status in named if status.id not in lacking), service_number)
    offering = [ask for owner, ask in asks.items() if owner not in excluded]
    taking = sum(ask <= rate_max for ask in offering)
    if taking < racers:
        having = "" if device_class is None else f" with a device of class {device_class.name.lower()}"
        others = "" if device_class is None else ", name another --class"
        raise ServiceError(
            f"a unit with --racers {racers} needs as many owners{having}; service {service_number} is offered by "
            f"{len(offering)}, and by {taking} of them for {format_amount(rate_max)} oGPU per thousand or less"
            f"{_unproven_note(lacking)}. Ask for fewer racers, raise --price{others}, or post with --anyway and wait",
            code="too_few_owners",
        )
    checkers, spare = await checkers_for(client, service_number, customer, racers, block_hash)
    racing = checkers.racing({owner for owner, ask in asks.items() if owner not in excluded and ask <= rate_max}, spare)
    if racing < racers:
        raise ServiceError(
            f"{too_few_checkers(racers, racing, spare, checkers)}: ask for fewer racers, or post with --anyway and "
            "wait for providers who are no validators",
            code="too_few_checkers",
        )


@dataclass(frozen=True, slots=True)
class Suiting:
    """The devices that suit a unit, busy or not, and the limits for validators that must stay to check it."""

    devices: list[DeviceStatus]
    checkers: CheckersLeft
    spare: Spare

    def racing(self, owners: Collection[bytes]) -> int:
        """Return the number of these owners that may race for one unit."""
        return self.checkers.racing(owners, self.spare)


async def suiting(
    client: ChainClient, service_number: int, customer: bytes, *, racers: int, rate_max: int, block_hash: bytes
) -> Suiting:
    """Return the devices that suit a unit of this price, with the validators that its race must leave."""
    excluded = await own_accounts(client, customer, block_hash)
    devices = await market_reads.devices_for(client, service_number, block_hash)
    lacking = await unproven(client, [status.id for status in devices], block_hash)
    suitable_devices = [
        status
        for status in devices
        if status.id not in lacking
        and status.device.owner not in excluded
        and any(ask <= rate_max for ask in asks_of([status], service_number).values())
    ]
    return Suiting(suitable_devices, *await checkers_for(client, service_number, customer, racers, block_hash))


async def drawable(
    client: ChainClient, service_number: int, customer: bytes, *, racers: int, rate_max: int, block_hash: bytes
) -> list[DeviceStatus]:
    """Return the devices that could be drawn for a unit, busy or not, or none if too few owners may race."""
    suitable = await suiting(client, service_number, customer, racers=racers, rate_max=rate_max, block_hash=block_hash)
    return suitable.devices if suitable.racing({status.device.owner for status in suitable.devices}) >= racers else []


async def usual_price(
    client: ChainClient, service_number: int, customer: bytes, racers: int, terms: ServiceTerms, requests: int
) -> int:
    """Return the highest price in grains at which half of the other owners' devices have bond for a unit.

    The unit is of the service's terms, and has so many racers and requests or more. Raise ServiceError if no other
    owner offers the service.
    """
    excluded, block_hash = await own_accounts(client, customer), await client.finalized()
    devices = [status.device for status in await market_reads.devices_for(client, service_number, block_hash)]
    free = sorted(device.bond for device in devices if device.owner not in excluded and not device.is_paused)
    if not free:
        raise ServiceError(
            f"no other provider offers service {service_number} now. See `ogpu offer providers`", code="no_offers"
        )
    median, rules = free[(len(free) - 1) // 2], await unit_rules(client, terms.check_ppm, block_hash)
    # The collateral grows with the price, so the price can be found by halving.
    return bisect_left(
        range(median), True, key=lambda below: money.collateral(rules, below + 1, racers, requests) > median
    )


def _unproven_note(devices: Collection[bytes]) -> str:
    """Return a note about devices that offer the service and do not count."""
    if not devices:
        return ""
    number = "1 more device has" if len(devices) == 1 else f"{len(devices)} more devices have"
    return f" ({number} not proven enough capacity at a roll call)"


async def checkers_for(
    client: ChainClient, service_number: int, customer: bytes, racers: int, block_hash: bytes
) -> tuple[CheckersLeft, Spare]:
    """Return the voters about this customer's units with that many racers, and the limits for racing validators."""
    checkers = await market_reads.checkers_left(
        client, await market_reads.readers(client, service_number, block_hash), block_hash
    )
    return checkers, checkers.spare(
        await client.height(block_hash), await own_accounts(client, customer, block_hash), racers
    )


USUAL, ANY = "usual", "any"
CLASS_CHOICES = (USUAL, ANY, *CLASS_NAMES)


@dataclass(frozen=True, slots=True)
class ClassWish:
    """A customer's choice: `USUAL`, `ANY`, or a class by name, and the price it pays in grains per thousand tokens."""

    named: str = ANY
    rate_max: int = 0


NO_CLASS = ClassWish()
OWNERS_PER_RACER = 2
"""The owners per racer that a class needs.

With fewer, any observer could predict the racers. An owner could also withdraw its devices once it knows the beacon,
leave too few, and so force another draw.
"""


async def classes_for(
    client: ChainClient, service: int, customer: bytes, racers: int, wish: ClassWish, block_hash: bytes
) -> Callable[[], DeviceClass | None]:
    """Return a function that gives each unit posted now its device class."""
    if wish.named in CLASS_NAMES:
        return lambda: CLASS_NAMES[wish.named]
    if wish.named == ANY or racers == 1:
        return lambda: None
    suitable = await suiting(client, service, customer, racers=racers, rate_max=wish.rate_max, block_hash=block_hash)
    fitting = fitting_classes(suitable, racers)
    # Not `random`, whose next choices an observer of earlier ones can compute.
    return lambda: chosen(fitting, secrets.randbelow)


def fitting_classes(suitable: Suiting, racers: int) -> dict[DeviceClass, int]:
    """Return the classes with enough owners, and enough that may race, each with its devices' bond in grains."""
    owners: dict[DeviceClass, set[bytes]] = {}
    bonds = Counter[DeviceClass]()
    for status in suitable.devices:
        owners.setdefault(status.device.kind, set()).add(status.device.owner)
        bonds[status.device.kind] += status.device.bond
    return {
        device_class: bonds[device_class]
        for device_class in DeviceClass
        if len(owners.get(device_class, ())) >= OWNERS_PER_RACER * racers
        and suitable.racing(owners[device_class]) >= racers
    }


def chosen(fitting: dict[DeviceClass, int], below: Callable[[int], int]) -> DeviceClass | None:
    """Return a random class in proportion to its bond, or None if there is none.

    `below(n)` returns a number below n.
    """
    if not fitting:
        return None
    point = below(sum(fitting.values()))
    for kind, bond in fitting.items():
        if point < bond:
            return kind
        point -= bond
    raise AssertionError("a number below the sum falls into one of the parts")


PROVIDERS_MAX = 512
ASKED_SECONDS = 8.0
"""The time for all providers together."""
LOSS = GRAINS_PER_OGPU
"""The loss of the task for which reliability is computed."""


@dataclass(slots=True)
class HeardInventories:
    """The claims of each provider about its hardware, and the reasons why other providers are left out."""

    claims: dict[bytes, dict[bytes, DeviceClaims]] = field(default_factory=dict)
    policies: dict[bytes, ClaimedPolicy] = field(default_factory=dict)
    """The claimed policies, by provider."""
    processors: dict[bytes, DeviceClaims] = field(default_factory=dict)
    """The claims about the CPU, by provider."""
    left_out: dict[bytes, str] = field(default_factory=dict)


async def reliability_of(client: ChainClient, owners: Sequence[bytes], block_hash: bytes) -> dict[bytes, int]:
    """Return each owner's estimated probability of completing a task with a loss of 1 oGPU, in millionths."""
    if TrainingMarket not in client.runtime.pallets:
        return {}
    era = await client.read(TrustStake.current_era, at=block_hash)
    records = await client.read_many(TrainingMarket.provider_records, list(owners), at=block_hash)
    pairs = zip(owners, records, strict=True)
    return {owner: PPM - failure_ppm(record_at(record, era), LOSS) for owner, record in pairs}


async def heard_inventories(
    client: ChainClient, blob_client: BlobClient, owners: Sequence[bytes], block_hash: bytes
) -> HeardInventories:
    """Fetch the inventories that providers publish for their machines."""
    inventories = HeardInventories()
    providers = await market_reads.providers(client, block_hash)
    # The list is sorted by price and each query costs a connection to a stranger, so only the cheapest are asked.
    for owner in owners[PROVIDERS_MAX:]:
        inventories.left_out[owner] = f"was not asked: {PROVIDERS_MAX} are, and it is dearer"
    answers_by_owner: dict[bytes, bytes] = {}

    async def ask(owner: bytes) -> None:
        provider = providers.get(owner)
        endpoint = None if provider is None else market_reads.endpoint_of(provider)
        if endpoint is None:
            inventories.left_out[owner] = "has no endpoint on the chain"
            return
        try:
            answers_by_owner[owner] = await blob_client.inventory_of(endpoint)
        except BlobError as error:
            inventories.left_out[owner] = str(error)

    asking = {asyncio.create_task(ask(owner)): owner for owner in owners[:PROVIDERS_MAX]}
    if asking:
        # One limit for all: a provider that answers slowly cannot hold up the list.
        _, late = await asyncio.wait(asking, timeout=ASKED_SECONDS)
        for task in late:
            task.cancel()
            inventories.left_out[asking[task]] = "was too slow"
        await asyncio.gather(*asking, return_exceptions=True)
    for owner, data in answers_by_owner.items():
        await _take_inventory(client, inventories, owner, data, block_hash)
    return inventories


async def _take_inventory(
    client: ChainClient, inventories: HeardInventories, owner: bytes, answer_bytes: bytes, block_hash: bytes
) -> None:
    """Record a provider's claims, or the reason why its answer does not count."""
    try:
        inventory = read_inventory(answer_bytes, client.genesis_hash, time.time_ns() // 1_000_000)
    except InventoryError as error:
        inventories.left_out[owner] = str(error)
        return
    # An endpoint could serve an inventory that another provider signed.
    if await market_reads.stash_of(client, inventory.provider_key, block_hash) != owner:
        inventories.left_out[owner] = "sent an inventory that another key has signed"
        return
    inventories.left_out.pop(owner, None)
    inventories.policies[owner] = inventory.policy
    pairs = [(device, _device_claims(inventory.machine, device)) for device in inventory.devices]
    inventories.claims[owner] = {device.uuid_hash: claims for device, claims in pairs}
    processor = next((claims for device, claims in pairs if device.is_processor), None)
    if processor is not None:
        inventories.processors[owner] = processor


def _device_claims(machine: ClaimedMachine, device: ClaimedDevice) -> DeviceClaims:
    return DeviceClaims(
        vendor=device.vendor,
        model=device.model,
        vram_mib=device.memory_mib,
        driver=device.driver,
        platform=device.platform,
        platform_version=device.platform_version,
        processor=machine.processor,
        cores=machine.cores,
        memory_mib=machine.memory_mib,
        disk_free_mib=machine.disk_free_mib,
        down_kbit=machine.down_kbit,
        up_kbit=machine.up_kbit,
    )


def with_claims(rows: Sequence[OfferRow], heard: HeardInventories, devices: Iterable[DeviceStatus]) -> list[OfferRow]:
    """Return the rows with their providers' claims, matched by the on-chain hash of the hardware's identifier.

    A CPU has no identifier of its own. A provider's only CPU device is its machine's, as its daemon assumes too.
    """
    devices_by_id = {status.id: status.device for status in devices}
    processors = Counter(device.owner for device in devices_by_id.values() if device.kind is DeviceClass.CPU)

    def claims_of(row: OfferRow) -> DeviceClaims | None:
        device = devices_by_id.get(row.device)
        if device is None:
            return None
        device_claims = heard.claims.get(row.provider, {}).get(device.uuid_hash)
        is_only = device.kind is DeviceClass.CPU and processors[row.provider] == 1
        return device_claims or (heard.processors.get(row.provider) if is_only else None)

    return [replace(row, claims=claims_of(row)) for row in rows]
