"""What is sold and who offers it: a service, its form, and the owners that a unit of it could be matched with.

Always: a form is found by the service's workload id, so a further workload needs no change here; who offers is read
from the chain, and pausing owners, the customer's own devices and dearer asks do not count; nor does who must stay to
judge what comes of the unit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from gpu_tasks.data import market_reads
from gpu_tasks.data.proven_rates import unproven
from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import Spare
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.judges_left import LEFT_MIN, JudgesLeft
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import Service
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import WorkloadForm
from runtime.frame.runtime import constant_value
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError


class ServiceError(WalletError):
    """The service cannot be bought, offered or closed as asked."""


async def open_service(client: ChainClient, number: int) -> Service:
    """The service, if units may be posted; ServiceError names those that are open."""
    service = await market_reads.service(client, number)
    if service is None or not service.is_open:
        services = await market_reads.services(client)
        numbers = ", ".join(str(known) for known, found in services.items() if found.is_open) or "none"
        raise ServiceError(f"there is no open service {number}; open: {numbers}; see `ogpu services`")
    return service


def form_of(number: int, service: Service) -> WorkloadForm:
    """How requests of the service are written; ServiceError for a workload, or a model, that is unknown here."""
    form = registry.form_of(service.terms.workload)
    if form is None:
        known = ", ".join(form.name for form in registry.FORMS)
        raise ServiceError(
            f"service {number} is of the workload 0x{service.terms.workload.hex()}, which this program does not know; "
            f"it knows {known}: use a release that knows it"
        )
    # Anybody may sell a known workload with weights of his own, and be the only one who has them: then nobody judges.
    if form.model_id != service.terms.model:
        raise ServiceError(
            f"service {number} computes {form.name} with the model 0x{service.terms.model.hex()}, which is not the "
            f"published one, 0x{form.model_id.hex()}: its results could not be judged"
        )
    return form


def form_named(name: str) -> WorkloadForm:
    """The form of a workload by its name; ServiceError names those that are known."""
    try:
        return registry.form_named(name)
    except LookupError as error:
        raise ServiceError(str(error)) from None


def asks_of(devices: Iterable[DeviceStatus], number: int) -> dict[bytes, int]:
    """The lowest ask of each owner with a device that offers the service and is not paused, in grains."""
    asks: dict[bytes, int] = {}
    for status in devices:
        for service, offer in status.offers:
            if service == number and not status.device.is_paused:
                owner = status.device.owner
                asks[owner] = min(offer.ask, asks.get(owner, offer.ask))
    return asks


async def own_accounts(client: ChainClient, customer: bytes, at: bytes | None = None) -> set[bytes]:
    """Owners whom the chain never draws for a unit of this customer: itself, and whom it works for."""
    stash = await market_reads.stash_of(client, customer, at)
    return {customer} if stash is None else {customer, stash}


def too_few_judges(racers: int, racing: int, spare: Spare, judges: JudgesLeft) -> str:
    """A sentence: who of those in office must stay outside a race to judge it, and what that leaves."""
    if spare.count < 0:
        return (
            f"too few judges would be left: {judges.needed} validators in office must stay to judge it, "
            f"and {judges.needed + spare.count} could, for the customer, decliners and later keys do not count"
        )
    owners = "1 owner" if racers == 1 else f"{racers} owners"
    return (
        f"too few judges would be left: needs {owners}, and {racing} of those that suit may race, "
        f"for {judges.needed} validators in office must stay to judge it"
        + (", with two thirds of the stake" if judges.needed >= LEFT_MIN else "")
    )


async def require_judges(client: ChainClient, number: int, customer: bytes, price_max: int) -> None:
    """ServiceError if the chain would refuse a unit of this price, for nobody could judge it however few race."""
    at = await client.finalized()
    judges, spare = await judges_for(client, number, customer, 1, at)
    if spare.count < 0:
        raise ServiceError(
            f"{too_few_judges(0, 0, spare, judges)}: the chain takes no unit of yours until more of them are providers"
        )
    if judges.needed:
        await _require_seats(client, judges, await own_accounts(client, customer, at), price_max, at)


async def _require_seats(client: ChainClient, judges: JudgesLeft, own: set[bytes], price_max: int, at: bytes) -> None:
    """ServiceError unless those of two thirds of the stake that may judge can pay for a seat at this price."""
    stashes = sorted(judges.since)
    accounts = await client.read_many(System.account, stashes, at=at)
    free = {stash: info.data.free for stash, info in zip(stashes, accounts, strict=True)}
    judges, rules, sealed_at = replace(judges, free=free), await _judge_rules(client, at), await client.height(at)
    deposit: int = constant_value(Balances, Balances.existential_deposit, client.runtime)

    def is_covered(price: int) -> bool:
        return judges.can_pay(sealed_at, own, money.judge_seat(rules, price) + deposit)

    if is_covered(price_max):
        return
    # the highest price that is: what a seat takes grows with it
    affordable = bisect_left(range(price_max), True, key=lambda below: not is_covered(below + 1))
    dearest = f"--price {format_amount(affordable)} or less" if affordable else "no price"
    raise ServiceError(
        f"too few judges could pay for their seats: a judge of a unit at {format_amount(price_max)} oGPU must hold "
        f"{format_amount(money.judge_seat(rules, price_max))} oGPU, and those of two thirds of the stake that may "
        f"judge it must have that free: the chain takes {dearest} now"
    )


async def _judge_rules(client: ChainClient, at: bytes) -> UnitRules:
    """What a unit that is posted now goes by, as far as its judges are concerned."""
    return UnitRules(
        judge_fee_ppm=await client.read(Courts.judge_fee_ppm.item, at=at),
        judge_fee_min=await client.read(Courts.judge_fee_min.item, at=at),
        audit_rate_ppm=await client.read(Courts.audit_rate_ppm.item, at=at),
    )


async def require_owners(
    client: ChainClient, number: int, customer: bytes, *, racers: int, rate_max: int, kind: DeviceClass | None = None
) -> None:
    """ServiceError if a unit could not be matched with those who offer now: a race is of distinct owners.

    `rate_max` in grains per thousand output tokens; `kind`: the class of devices that it names, if any.
    """
    own, at = await own_accounts(client, customer), await client.finalized()
    devices = await market_reads.devices_for(client, number, at)
    named = [status for status in devices if kind is None or status.device.kind is kind]
    lacking = await unproven(client, [status.id for status in named], at)
    asks = asks_of((status for status in named if status.id not in lacking), number)
    offering = [ask for owner, ask in asks.items() if owner not in own]
    taking = sum(ask <= rate_max for ask in offering)
    if taking < racers:
        having = "" if kind is None else f" with a device of class {kind.name.lower()}"
        others = "" if kind is None else ", name another --class"
        raise ServiceError(
            f"a unit with --racers {racers} needs as many owners{having}; service {number} is offered by "
            f"{len(offering)}, and by {taking} of them for {format_amount(rate_max)} oGPU per thousand or less"
            f"{_lacking(lacking)}: ask for fewer racers, raise --price{others}, or post with --anyway and wait for more"
        )
    judges, spare = await judges_for(client, number, customer, racers, at)
    racing = judges.racing({owner for owner, ask in asks.items() if owner not in own and ask <= rate_max}, spare)
    if racing < racers:
        raise ServiceError(
            f"{too_few_judges(racers, racing, spare, judges)}: ask for fewer racers, or post with --anyway and wait "
            "for providers who are no validators"
        )


@dataclass(frozen=True, slots=True)
class Suiting:
    """The devices that suit a unit, busy or not, and who of those in office must stay to judge it."""

    devices: list[DeviceStatus]
    judges: JudgesLeft
    spare: Spare

    def racing(self, owners: Collection[bytes]) -> int:
        """How many of the owners may race for one unit."""
        return self.judges.racing(owners, self.spare)


async def suiting(
    client: ChainClient, number: int, customer: bytes, *, racers: int, rate_max: int, at: bytes
) -> Suiting:
    """The devices that work for a unit of this price, if their owners are not too many in office."""
    own = await own_accounts(client, customer, at)
    devices = await market_reads.devices_for(client, number, at)
    lacking = await unproven(client, [status.id for status in devices], at)
    found = [
        status
        for status in devices
        if status.id not in lacking
        and status.device.owner not in own
        and any(ask <= rate_max for ask in asks_of([status], number).values())
    ]
    return Suiting(found, *await judges_for(client, number, customer, racers, at))


async def drawable(
    client: ChainClient, number: int, customer: bytes, *, racers: int, rate_max: int, at: bytes
) -> list[DeviceStatus]:
    """The devices that a unit could be matched with now, busy or not; none where their owners are too few to race."""
    found = await suiting(client, number, customer, racers=racers, rate_max=rate_max, at=at)
    return found.devices if found.racing({status.device.owner for status in found.devices}) >= racers else []


async def usual_price(client: ChainClient, number: int, customer: bytes) -> int:
    """The highest price of a unit for which half of the devices have the collateral free, in grains; ServiceError."""
    own, at = await own_accounts(client, customer), await client.finalized()
    devices = [status.device for status in await market_reads.devices_for(client, number, at)]
    free = sorted(device.bond for device in devices if device.owner not in own and not device.is_paused)
    if not free:
        raise ServiceError(f"nobody else offers service {number} now: see `ogpu providers`")
    median, rules = free[(len(free) - 1) // 2], await _judge_rules(client, at)
    # what is locked for a price grows with it
    return bisect_left(range(median), True, key=lambda below: money.collateral(rules, below + 1) > median)


def _lacking(devices: Collection[bytes]) -> str:
    """Who does not count although it offers, in words."""
    if not devices:
        return ""
    number = "1 more device has" if len(devices) == 1 else f"{len(devices)} more devices have"
    return f" ({number} proven too little at a roll call)"


async def judges_for(
    client: ChainClient, number: int, customer: bytes, racers: int, at: bytes
) -> tuple[JudgesLeft, Spare]:
    """Who may judge units for so many racers that this customer posts now, and who of them may race."""
    judges = await market_reads.judges_left(client, await market_reads.readers(client, number, at), at)
    return judges, judges.spare(await client.height(at), await own_accounts(client, customer, at), racers)
