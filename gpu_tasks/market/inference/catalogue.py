"""The catalogue: which services are sold, and which devices work for them from which price on.

Always: an open service holds its owner's deposit; a closed one takes no units and is forgotten with its last, and its
offers end in the blocks that follow; an offer holds its owner's deposit while it stands; services, and the offers of
each and of a device, are bounded, so that a draw never looks at more.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.classes import classes_of
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
from gpu_tasks.market.inference.numbers import MarketNumbers
from gpu_tasks.market.inference.services import (
    OFFERS_PER_DEVICE_MAX,
    OFFERS_PER_SERVICE_MAX,
    SERVICES_MAX,
    Offer,
    Service,
    ServiceTerms,
    is_sound,
    lease_of,
    offer_hold,
    service_hold,
)
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32, Bounded
from runtime.frame.pallet import Hasher, StorageDoubleMap, StorageMap, StorageValue, ensure, known
from runtime.frame.schedule import WeightMeter
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

END_OFFER_WEIGHT = WEIGHTS["InferenceMarket.on_initialize end_offer"]
"""An offer whose service is gone ends, and its deposit returns."""

OfferedServices = Annotated[tuple[ServiceId, ...], Bounded(OFFERS_PER_DEVICE_MAX)]


class CatalogueStorage(MarketNumbers):
    """What InferenceMarket keeps of services and offers."""

    system: System
    lock: TrustLock
    devices: Devices

    next_service: StorageValue[ServiceId] = StorageValue(default=0)
    service_count: StorageValue[U32] = StorageValue(default=0, doc="Services that are open.")
    services: StorageMap[ServiceId, Service | None] = StorageMap(hasher=Hasher.TWOX_64_CONCAT, doc="What is sold.")
    offers: StorageDoubleMap[ServiceId, DeviceId, Offer | None] = StorageDoubleMap(
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT),
        doc="Which devices work for a service, from which price on.",
    )
    offer_count: StorageMap[ServiceId, U32] = StorageMap(default=0, hasher=Hasher.TWOX_64_CONCAT)
    offered: StorageMap[DeviceId, OfferedServices] = StorageMap(default=(), doc="Services that a device works for.")
    forsaken: StorageMap[ServiceId, bool] = StorageMap(
        default=False, hasher=Hasher.TWOX_64_CONCAT, doc="Services that are gone while offers for them are left."
    )
    open_units: StorageValue[U32] = StorageValue(default=0, doc="Units that hold money.")

    @cached_property
    def catalogue(self) -> "Catalogue":
        """What is sold, and who works for it."""
        return Catalogue(
            system=self.system,
            lock=self.lock,
            devices=self.devices,
            next_service=self.next_service,
            service_count=self.service_count,
            services=self.services,
            offers=self.offers,
            offer_count=self.offer_count,
            offered=self.offered,
            forsaken=self.forsaken,
            offer_deposit=self.offer_deposit,
            open_units=self.open_units,
            emit=self.emit,
        )


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Services and offers."""

    system: System
    lock: TrustLock
    devices: Devices
    next_service: StorageValue[ServiceId]
    service_count: StorageValue[U32]
    services: StorageMap[ServiceId, Service | None]
    offers: StorageDoubleMap[ServiceId, DeviceId, Offer | None]
    offer_count: StorageMap[ServiceId, U32]
    offered: StorageMap[DeviceId, OfferedServices]
    forsaken: StorageMap[ServiceId, bool]
    offer_deposit: int
    open_units: StorageValue[U32]
    emit: Callable[[Any], None]

    def service(self, number: int) -> Service:
        """A service; UnknownService if there is none."""
        return known(self.services[number], UnknownService)

    def classes_of(self, unit: Unit) -> tuple[DeviceClass, ...]:
        """The classes of which devices may race for a unit, now or in the race that goes on."""
        return classes_of(unit, self.service(unit.service).terms.ramp)

    def lease_of(self, unit: Unit) -> int:
        """Blocks that racers of a unit have to commit in: the slowest class that may race has three times its time."""
        slowest = min(self.classes_of(unit))
        return lease_of(self.service(unit.service).terms, money.work_allowed(unit), slowest)

    def longest_lease(self, unit: Unit) -> int:
        """Blocks that a device of any class has for the unit, as who judges it may have."""
        return lease_of(self.service(unit.service).terms, money.work_allowed(unit))

    def open_service(self, number: int) -> Service:
        """A service that units may be posted to; UnknownService if it is none."""
        service = self.service(number)
        ensure(service.is_open, UnknownService)
        return service

    def create(self, owner: bytes, terms: ServiceTerms, deposit: int) -> None:
        """Add a service, and lock its deposit."""
        number, count = self.next_service.get(), self.service_count.get()
        ensure(count < SERVICES_MAX, TooManyOpen)
        ensure(is_sound(terms), UnsoundTerms)
        self.lock.lock(owner, service_hold(number), deposit)
        self.services[number] = Service(owner, terms, deposit)
        self.service_count.set(count + 1)
        self.next_service.set(number + 1)
        self.emit(ServiceCreated(number, owner, terms.name, terms.workload, terms.model))

    def close(self, number: int, owner: bytes) -> None:
        """Let no more units be posted, and return the deposit."""
        service = self.service(number)
        ensure(service.owner == owner, NotServiceOwner)
        ensure(service.is_open, UnknownService)
        self.services[number] = replace(service, is_open=False)
        self.service_count.set(self.service_count.get() - 1)
        self.count_units(number, 0)
        self.lock.unlock(owner, service_hold(number), service.deposit)
        self.lock.end(service_hold(number))
        self.emit(ServiceClosed(number))

    def count_units(self, number: int, change: int) -> None:
        """Note that units of a service were posted or ended; a closed one is forgotten with its last."""
        service = self.service(number)
        left = service.open_units + change
        assert left >= 0, "no more units end than were posted"
        self.open_units.set(self.open_units.get() + change)
        if service.is_open or left:
            self.services[number] = replace(service, open_units=left)
        else:
            del self.services[number]
            if self.offer_count[number]:
                self.forsaken[number] = True

    def note_post(self, number: int, height: int) -> None:
        """Note that units of a service were posted in this block."""
        self.services[number] = replace(self.service(number), last_post=height)

    def offer(self, device: bytes, number: int, ask: int) -> None:
        """Have a device work for an open service, for `ask` grains a unit or more."""
        self.open_service(number)
        standing = self.offers[number, device]
        if standing is None:
            ensure(self.offer_count[number] < OFFERS_PER_SERVICE_MAX, TooManyOpen)
            ensure(len(self.offered[device]) < OFFERS_PER_DEVICE_MAX, TooManyOpen)
            self.lock.lock(self._owner(device), offer_hold(number, device), self.offer_deposit)
            self._list(device, number)
        # an ask that is changed is a new one: it counts for no unit that was recorded before
        deposit = self.offer_deposit if standing is None else standing.deposit
        self.offers[number, device] = Offer(ask, self.system.number.get(), deposit)
        self.devices.stir(device)
        self.emit(Offered(number, device, ask))

    def place_offer(self, device: bytes, number: int, ask: int) -> None:
        """Write an offer of block 0, which nobody needs to be told of; it holds no deposit."""
        self.offers[number, device] = Offer(ask, 0)
        self._list(device, number)

    def withdraw_offer(self, device: bytes, number: int) -> None:
        """Have a device work for a service no more, and return the offer's deposit."""
        offer, owner = known(self.offers[number, device], UnknownService), self._owner(device)
        del self.offers[number, device]
        left = tuple(service for service in self.offered[device] if service != number)
        if left:
            self.offered[device] = left
        else:
            del self.offered[device]
        self._count_offer(device, number, -1)
        self.lock.unlock(owner, offer_hold(number, device), offer.deposit)
        self.lock.end(offer_hold(number, device))
        self.emit(OfferWithdrawn(number, device))

    def end_offers(self, budget: WeightMeter) -> None:
        """End offers of services that are gone, while the budget lasts."""
        gone = self.forsaken.keys()
        for number in gone:
            for device, _ in self.offers.under(number):
                if budget.is_spent:
                    return
                budget.spend(END_OFFER_WEIGHT)
                self.withdraw_offer(device, number)
            del self.forsaken[number]

    def _owner(self, device: bytes) -> bytes:
        found = self.devices.devices[device]
        assert found is not None, "a device that offers a service cannot leave"
        return found.owner

    def _list(self, device: bytes, number: int) -> None:
        self.offered[device] = (*self.offered[device], number)
        self._count_offer(device, number, +1)

    def _count_offer(self, device: bytes, number: int, change: int) -> None:
        left = self.offer_count[number] + change
        if left:
            self.offer_count[number] = left
        else:
            del self.offer_count[number]
        self.devices.count_offer(device, change)
