"""The catalogue: the services on sale, and the devices that offer them with their asks.

Invariants: an open service holds its owner's deposit. A closed one takes no units, its record is dropped with its last
unit, and its offers end in the following blocks. An offer holds its owner's deposit. The numbers of services, and of
offers of each service and device, are bounded, so the work of a draw is too.
"""

from dataclasses import replace

from gpu_tasks.market.inference.events import (
    NotServiceOwner,
    Offered,
    OfferWithdrawn,
    ServiceClosed,
    ServiceCreated,
    TooManyOpen,
    UnknownService,
    UnsoundTerms,
)
from gpu_tasks.market.inference.services import (
    OFFERS_PER_DEVICE_MAX,
    OFFERS_PER_SERVICE_MAX,
    SERVICES_MAX,
    Offer,
    Service,
    ServiceTerms,
    is_sound,
    offer_hold,
    service_hold,
)
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.pallet import ensure, known
from runtime.frame.schedule import WeightMeter

END_OFFER_WEIGHT = WEIGHTS["InferenceMarket.on_initialize end_offer"]
"""The weight of ending an offer of a dropped service, with the return of its deposit."""


def create(market: InferenceStorage, owner: bytes, terms: ServiceTerms, deposit_grains: int) -> None:
    """Add a service, and hold its deposit."""
    service_number, open_services = market.next_service.get(), market.service_count.get()
    ensure(open_services < SERVICES_MAX, TooManyOpen)
    ensure(is_sound(terms), UnsoundTerms)
    market.lock.lock(owner, service_hold(service_number), deposit_grains)
    market.services[service_number] = Service(owner, terms, deposit_grains)
    market.service_count.set(open_services + 1)
    # Numbers never repeat, because the hold of the deposit is named by the number.
    market.next_service.set(service_number + 1)
    market.emit(ServiceCreated(service_number, owner, terms.name, terms.workload, terms.model))


def close(market: InferenceStorage, service_number: int, owner: bytes) -> None:
    """Close a service to new units, and return its deposit."""
    service = market.service(service_number)
    ensure(service.owner == owner, NotServiceOwner)
    ensure(service.is_open, UnknownService)
    market.services[service_number] = replace(service, is_open=False)
    market.service_count.set(market.service_count.get() - 1)
    # A service without open units is dropped here: no unit's end would drop it later.
    count_units(market, service_number, 0)
    market.lock.unlock(owner, service_hold(service_number), service.deposit)
    market.lock.end(service_hold(service_number))
    market.emit(ServiceClosed(service_number))


def count_units(market: InferenceStorage, service_number: int, added_units: int) -> None:
    """Add `added_units` to the open units of a service. A closed service is dropped with its last unit."""
    service = market.service(service_number)
    units_left = service.open_units + added_units
    assert units_left >= 0, "a service has no more ended units than posted ones"
    market.open_unit_count.set(market.open_unit_count.get() + added_units)
    if service.is_open or units_left:
        market.services[service_number] = replace(service, open_units=units_left)
    else:
        del market.services[service_number]
        if market.offer_count[service_number]:
            market.closed_services[service_number] = True


def note_post(market: InferenceStorage, service_number: int, height: int) -> None:
    """Note that units of a service were posted in this block."""
    market.services[service_number] = replace(market.service(service_number), last_post=height)


def offer(market: InferenceStorage, device: bytes, service_number: int, ask: int) -> None:
    """Offer a device for an open service, at `ask` grains per 1,000 output tokens or more."""
    market.open_service(service_number)
    standing = market.offers[service_number, device]
    if standing is None:
        ensure(market.offer_count[service_number] < OFFERS_PER_SERVICE_MAX, TooManyOpen)
        ensure(len(market.device_offers[device]) < OFFERS_PER_DEVICE_MAX, TooManyOpen)
        market.lock.lock(_owner(market, device), offer_hold(service_number, device), market.offer_deposit)
        _list(market, device, service_number)
    # A changed ask counts as a new one: it does not apply to units that were recorded earlier.
    deposit_grains = market.offer_deposit if standing is None else standing.deposit
    market.offers[service_number, device] = Offer(ask, market.height, deposit_grains)
    market.devices.stir(device)
    market.emit(Offered(service_number, device, ask))


def place_offer(market: InferenceStorage, device_id: bytes, service_number: int, ask: int) -> None:
    """Write an offer of the genesis block, without event and deposit."""
    market.offers[service_number, device_id] = Offer(ask, 0)
    _list(market, device_id, service_number)


def withdraw_offer(market: InferenceStorage, device: bytes, service_number: int) -> None:
    """End a device's offer of a service, and return the offer's deposit."""
    offer, owner = known(market.offers[service_number, device], UnknownService), _owner(market, device)
    del market.offers[service_number, device]
    other_services = tuple(
        offered_service for offered_service in market.device_offers[device] if offered_service != service_number
    )
    if other_services:
        market.device_offers[device] = other_services
    else:
        del market.device_offers[device]
    _count_offer(market, device, service_number, -1)
    market.lock.unlock(owner, offer_hold(service_number, device), offer.deposit)
    market.lock.end(offer_hold(service_number, device))
    market.emit(OfferWithdrawn(service_number, device))


def end_offers(market: InferenceStorage, meter: WeightMeter) -> None:
    """End offers of dropped services, while the budget lasts."""
    dropped_services = market.closed_services.keys()
    for service_number in dropped_services:
        for device_id, _ in market.offers.under(service_number):
            if meter.is_spent:
                return
            meter.spend(END_OFFER_WEIGHT)
            withdraw_offer(market, device_id, service_number)
        del market.closed_services[service_number]


def _owner(market: InferenceStorage, device_id: bytes) -> bytes:
    record = market.devices.devices[device_id]
    assert record is not None, "a device that offers a service is registered"
    return record.owner


def _list(market: InferenceStorage, device_id: bytes, service_number: int) -> None:
    market.device_offers[device_id] = (*market.device_offers[device_id], service_number)
    _count_offer(market, device_id, service_number, +1)


def _count_offer(market: InferenceStorage, device_id: bytes, service_number: int, added_offers: int) -> None:
    offers_left = market.offer_count[service_number] + added_offers
    if offers_left:
        market.offer_count[service_number] = offers_left
    else:
        del market.offer_count[service_number]
    market.devices.count_offer(device_id, added_offers)
