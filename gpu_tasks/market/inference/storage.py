"""The storage of InferenceMarket: services and offers, units, and which block looks at which unit.

Always: an open service holds its owner's deposit; an offer holds its owner's deposit while it stands; services, and the
offers of each and of a device, are bounded, so that a draw never looks at more.
"""

from functools import cached_property
from typing import Annotated

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import AgedUnit, DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import classes, money, services
from gpu_tasks.market.inference.events import UnknownService, UnknownUnit
from gpu_tasks.market.inference.numbers import MarketNumbers
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, Offer, Service
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, OpenUnit, Unit, is_open
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.rounds import Windows
from runtime.encoding.codec import U16, U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Weight
from runtime.frame.pallet import (
    Constant,
    Hasher,
    ScheduleItem,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    ensure,
    known,
)
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

OfferedServices = Annotated[tuple[ServiceId, ...], Bounded(OFFERS_PER_DEVICE_MAX)]


@struct
class Stirred:
    """A service whose sleeping units are being woken."""

    service: ServiceId
    before: BlockNumber
    """Those who sleep since an earlier block are woken."""
    slots: U16
    """How many of its slots were freed or changed."""


StirredServices = Annotated[tuple[Stirred, ...], Bounded(UNITS_OPEN_MAX)]
"""No service is here that has no open unit."""


@struct
class Eased:
    """The parameter as it was seen last, and how far what sleeps has been stirred since it was lowered."""

    bond_min: Balance
    before: BlockNumber
    """Those who sleep since an earlier block are to be woken; 0 where nobody is."""
    next_service: ServiceId
    """The services below have been stirred."""


NEVER_SEEN = Eased(0, 0, 0)


@struct
class AdmittedDraws:
    """What the draws of the units that a block took in come to at most."""

    height: BlockNumber
    weight: Weight


class BegunUnits:
    """How many units have begun in this execution because others ended."""

    count = 0


class InferenceStorage(MarketNumbers):
    """Services, offers, units and agendas."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake
    lock: TrustLock
    devices: Devices
    capacity: Capacity
    leaf_disputes: LeafDisputes

    sealed_age_max: Constant[BlockNumber] = Constant(600, doc="How far back `sealed_at` may lie.")

    next_service: StorageValue[ServiceId] = StorageValue(default=0)
    service_count: StorageValue[U32] = StorageValue(default=0, doc="Services that are open.")
    services: StorageMap[ServiceId, Service | None] = StorageMap(hasher=Hasher.TWOX_64_CONCAT, doc="What is sold.")
    offers: StorageDoubleMap[ServiceId, DeviceId, Offer | None] = StorageDoubleMap(
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT),
        doc="Which devices work for a service, from which price on.",
    )
    offer_count: StorageMap[ServiceId, U32] = StorageMap(default=0, hasher=Hasher.TWOX_64_CONCAT)
    device_offers: StorageMap[DeviceId, OfferedServices] = StorageMap(
        default=(), doc="Services that a device works for."
    )
    closed_services: StorageMap[ServiceId, bool] = StorageMap(
        default=False, hasher=Hasher.TWOX_64_CONCAT, doc="Services that are gone while offers for them are left."
    )
    open_unit_count: StorageValue[U32] = StorageValue(default=0, doc="Units that hold money.")

    agenda: ScheduleItem[UnitId] = ScheduleItem(doc="Units to look at in a block.")
    final_agenda: ScheduleItem[UnitId] = ScheduleItem("final", doc="Units to look at once a height is final.")
    draws: ScheduleItem[AgedUnit] = ScheduleItem(
        "draw",
        doc="Units to draw racers for once a height is final, those that were posted first before the others.",
        hasher=Hasher.IDENTITY,
    )
    price_rises: ScheduleItem[UnitId] = ScheduleItem(doc="Sleeping units whose price meets an ask in a block.")
    expiring: ScheduleItem[UnitId] = ScheduleItem(doc="Ended units whose records are dropped in a block.")

    post_counts: StorageMap[AccountId, U32] = StorageMap(default=0, doc="Units that a customer has posted, ever.")
    units: StorageMap[UnitId, Unit | None] = StorageMap(doc="Open units, and ended ones for a while.")
    duties: StorageDoubleMap[AccountId, UnitId, bool] = StorageDoubleMap(
        default=False, doc="The races that a provider was drawn for, by stash."
    )
    waiting_units: StorageDoubleMap[ServiceId, AgedUnit, bool] = StorageDoubleMap(
        default=False,
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.IDENTITY),
        doc="Units that wait for a slot of their service to change, by the block since which they do.",
    )
    waiting_unit_count: StorageMap[ServiceId, U32] = StorageMap(
        default=0, hasher=Hasher.TWOX_64_CONCAT, doc="Sleeping units of a service."
    )
    services_to_retry: StorageValue[StirredServices] = StorageValue(
        default=(), doc="Services whose sleeping units are being woken, in turn."
    )
    lowered_bond_min: StorageValue[Eased] = StorageValue(
        default=NEVER_SEEN, doc="The least bond of a candidate as units sleep for it, and who is woken as it fell."
    )
    admitted_draws: StorageValue[AdmittedDraws] = StorageValue(
        default=AdmittedDraws(0, Weight(0, 0)), doc="What the draws of the units posted in a block may come to."
    )

    @property
    def height(self) -> int:
        """Of this block."""
        return self.system.number.get()

    @cached_property
    def begun(self) -> BegunUnits:
        """The count of one execution: what began is charged to the hook that ended the units before."""
        return BegunUnits()

    def open_unit(self, unit: bytes) -> OpenUnit:
        """An open unit; UnknownUnit if there is none."""
        record = known(self.units[unit], UnknownUnit)
        ensure(is_open(record), UnknownUnit)
        return OpenUnit(unit, record)

    def service(self, number: int) -> Service:
        """A service; UnknownService if there is none."""
        return known(self.services[number], UnknownService)

    def open_service(self, number: int) -> Service:
        """A service that units may be posted to; UnknownService if it is none."""
        service = self.service(number)
        ensure(service.is_open, UnknownService)
        return service

    def classes_of(self, unit: Unit) -> tuple[DeviceClass, ...]:
        """The classes of which devices may race for a unit, now or in the race that goes on."""
        return classes.classes_of(unit, self.service(unit.service).terms.ramp)

    def commit_window_of(self, unit: Unit) -> int:
        """Blocks that racers of a unit have to commit in: the slowest class that may race has three times its time."""
        slowest = min(self.classes_of(unit))
        return services.commit_window_of(self.service(unit.service).terms, money.work_allowed(unit), slowest)

    def longest_commit_window(self, unit: Unit) -> int:
        """Blocks that a device of any class has for the unit, as who judges it may have."""
        return services.commit_window_of(self.service(unit.service).terms, money.work_allowed(unit))

    def windows_of(self, unit: Unit) -> Windows:
        """The windows of a unit's race: its service and its work say how long the commit window is."""
        return unit.rules.race_windows(self.commit_window_of(unit))
