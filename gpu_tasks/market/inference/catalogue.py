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


def create(market: InferenceStorage, owner: bytes, terms: ServiceTerms, deposit: int) -> None:
    """Add a service, and hold its deposit."""
    number, count = market.next_service.get(), market.service_count.get()
    ensure(count < SERVICES_MAX, TooManyOpen)
    ensure(is_sound(terms), UnsoundTerms)
    market.lock.lock(owner, service_hold(number), deposit)
    market.services[number] = Service(owner, terms, deposit)
    market.service_count.set(count + 1)
    market.next_service.set(number + 1)
    market.emit(ServiceCreated(number, owner, terms.name, terms.workload, terms.model))


def close(market: InferenceStorage, number: int, owner: bytes) -> None:
    """Close a service to new units, and return its deposit."""
    service = market.service(number)
    ensure(service.owner == owner, NotServiceOwner)
    ensure(service.is_open, UnknownService)
    market.services[number] = replace(service, is_open=False)
    market.service_count.set(market.service_count.get() - 1)
    # A service without open units is dropped here: no unit's end would drop it later.
    count_units(market, number, 0)
    market.lock.unlock(owner, service_hold(number), service.deposit)
    market.lock.end(service_hold(number))
    market.emit(ServiceClosed(number))


def count_units(market: InferenceStorage, number: int, change: int) -> None:
    """Add `change` to the open units of a service. A closed service is dropped with its last unit."""
    service = market.service(number)
    left = service.open_units + change
    assert left >= 0, "a service has no more ended units than posted ones"
    market.open_unit_count.set(market.open_unit_count.get() + change)
    if service.is_open or left:
        market.services[number] = replace(service, open_units=left)
    else:
        del market.services[number]
        if market.offer_count[number]:
            market.closed_services[number] = True


def note_post(market: InferenceStorage, number: int, height: int) -> None:
    """Note that units of a service were posted in this block."""
    market.services[number] = replace(market.service(number), last_post=height)


def offer(market: InferenceStorage, device: bytes, number: int, ask: int) -> None:
    """Offer a device for an open service, at `ask` grains per 1,000 output tokens or more."""
    market.open_service(number)
    standing = market.offers[number, device]
    if standing is None:
        ensure(market.offer_count[number] < OFFERS_PER_SERVICE_MAX, TooManyOpen)
        ensure(len(market.device_offers[device]) < OFFERS_PER_DEVICE_MAX, TooManyOpen)
        market.lock.lock(_owner(market, device), offer_hold(number, device), market.offer_deposit)
        _list(market, device, number)
    # A changed ask counts as a new one: it does not apply to units that were recorded earlier.
    deposit = market.offer_deposit if standing is None else standing.deposit
    market.offers[number, device] = Offer(ask, market.height, deposit)
    market.devices.stir(device)
    market.emit(Offered(number, device, ask))


def place_offer(market: InferenceStorage, device: bytes, number: int, ask: int) -> None:
    """Write an offer of the genesis block, without event and deposit."""
    market.offers[number, device] = Offer(ask, 0)
    _list(market, device, number)


def withdraw_offer(market: InferenceStorage, device: bytes, number: int) -> None:
    """End a device's offer of a service, and return the offer's deposit."""
    offer, owner = known(market.offers[number, device], UnknownService), _owner(market, device)
    del market.offers[number, device]
    left = tuple(service for service in market.device_offers[device] if service != number)
    if left:
        market.device_offers[device] = left
    else:
        del market.device_offers[device]
    _count_offer(market, device, number, -1)
    market.lock.unlock(owner, offer_hold(number, device), offer.deposit)
    market.lock.end(offer_hold(number, device))
    market.emit(OfferWithdrawn(number, device))


def end_offers(market: InferenceStorage, budget: WeightMeter) -> None:
    """End offers of dropped services, while the budget lasts."""
    gone = market.closed_services.keys()
    for number in gone:
        for device, _ in market.offers.under(number):
            if budget.is_spent:
                return
            budget.spend(END_OFFER_WEIGHT)
            withdraw_offer(market, device, number)
        del market.closed_services[number]


def _owner(market: InferenceStorage, device: bytes) -> bytes:
    found = market.devices.devices[device]
    assert found is not None, "a device that offers a service is registered"
    return found.owner


def _list(market: InferenceStorage, device: bytes, number: int) -> None:
    market.device_offers[device] = (*market.device_offers[device], number)
    _count_offer(market, device, number, +1)


def _count_offer(market: InferenceStorage, device: bytes, number: int, change: int) -> None:
    left = market.offer_count[number] + change
    if left:
        market.offer_count[number] = left
    else:
        del market.offer_count[number]
    market.devices.count_offer(device, change)
