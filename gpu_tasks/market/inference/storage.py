"""The storage of InferenceMarket: services, offers, units, and the schedules of units.

Invariants: an open service and a standing offer each hold their owner's deposit. The numbers of services, and of offers
of each service and device, are bounded, so the work of a draw is too.
"""

from functools import cached_property
from typing import Annotated

from gpu_tasks.batches.requests import work_of
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import AgedUnit, DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import classes, money, services
from gpu_tasks.market.inference.events import UnknownService, UnknownUnit
from gpu_tasks.market.inference.numbers import MarketNumbers
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, Offer, Service
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, OpenUnit, Unit, UnitState, is_open
from gpu_tasks.market.rounds import Windows
from runtime.encoding.codec import U16, U32, Bounded, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash, Weight
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
    """A service whose sleeping units are to be woken."""

    service: ServiceId
    before: BlockNumber
    """Units that have slept since before this block are woken."""
    slots: U16
    """The number of its slots that were freed or changed."""


StirredServices = Annotated[tuple[Stirred, ...], Bounded(UNITS_OPEN_MAX)]
"""The services to wake. Each has an open unit."""


@struct
class AdmittedDraws:
    """The greatest weight of the draws of the units that a block admitted."""

    height: BlockNumber
    weight: Weight


class BegunUnits:
    """The number of units in this execution that began because others ended."""

    count = 0


class InferenceStorage(MarketNumbers):
    """Services, offers, units and schedules."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake
    lock: TrustLock
    devices: Devices
    capacity: Capacity
    disputes: Disputes

    sealed_age_max: Constant[BlockNumber] = Constant(600, doc="Greatest age of `sealed_at` in blocks.")

    next_service: StorageValue[ServiceId] = StorageValue(default=0)
    service_count: StorageValue[U32] = StorageValue(default=0, doc="The number of open services.")
    services: StorageMap[ServiceId, Service | None] = StorageMap(
        hasher=Hasher.TWOX_64_CONCAT, doc="Services, until they are closed and their last unit has ended."
    )
    offers: StorageDoubleMap[ServiceId, DeviceId, Offer | None] = StorageDoubleMap(
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT),
        doc="The offers of devices for a service, each with its lowest price.",
    )
    offer_count: StorageMap[ServiceId, U32] = StorageMap(default=0, hasher=Hasher.TWOX_64_CONCAT)
    device_offers: StorageMap[DeviceId, OfferedServices] = StorageMap(
        default=(), doc="Services that a device works for."
    )
    closed_services: StorageMap[ServiceId, bool] = StorageMap(
        default=False, hasher=Hasher.TWOX_64_CONCAT, doc="Dropped services that still have offers."
    )
    open_unit_count: StorageValue[U32] = StorageValue(default=0, doc="Units that hold money.")

    agenda: ScheduleItem[UnitId] = ScheduleItem(doc="Units to process at a block.")
    final_agenda: ScheduleItem[UnitId] = ScheduleItem("final", doc="Units to process once a height is final.")
    draws: ScheduleItem[AgedUnit] = ScheduleItem(
        "draw",
        doc="Units to draw racers for once a height is final, in the order of their posts.",
        hasher=Hasher.IDENTITY,
    )
    price_rises: ScheduleItem[UnitId] = ScheduleItem(doc="Sleeping units whose price meets an ask in a block.")
    expiring: ScheduleItem[UnitId] = ScheduleItem(doc="Ended units whose records are dropped in a block.")

    post_counts: StorageMap[AccountId, U32] = StorageMap(
        default=0, doc="The number of units that a customer has posted, ever."
    )
    units: StorageMap[UnitId, Unit | None] = StorageMap(
        doc="Open units, and ended ones until their records are dropped."
    )
    unit_of_dispute: StorageMap[Hash, UnitId | None] = StorageMap(doc="The unit of an open dispute.")
    duties: StorageDoubleMap[AccountId, UnitId, bool] = StorageDoubleMap(
        default=False, doc="The races of a provider, by stash."
    )
    waiting_units: StorageDoubleMap[ServiceId, AgedUnit, bool] = StorageDoubleMap(
        default=False,
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.IDENTITY),
        doc="Sleeping units of a service, by the block since which they wait for a changed slot.",
    )
    waiting_unit_count: StorageMap[ServiceId, U32] = StorageMap(
        default=0, hasher=Hasher.TWOX_64_CONCAT, doc="The number of sleeping units of a service."
    )
    services_to_retry: StorageValue[StirredServices] = StorageValue(
        default=(), doc="Services with sleeping units to wake, in turn."
    )
    admitted_draws: StorageValue[AdmittedDraws] = StorageValue(
        default=AdmittedDraws(0, Weight(0, 0)), doc="Upper bound of the draws of this block's posts."
    )

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    @cached_property
    def begun(self) -> BegunUnits:
        """The counter of one execution. The hook that ended the earlier units pays for those that began."""
        return BegunUnits()

    def open_unit(self, unit_id: bytes) -> OpenUnit:
        """Return an open unit. Raise UnknownUnit if there is none."""
        record = known(self.units[unit_id], UnknownUnit)
        ensure(is_open(record), UnknownUnit)
        return OpenUnit(unit_id, record)

    def claimed(self, unit_id: bytes) -> OpenUnit:
        """Return a unit whose claim is open."""
        return self._in_state(unit_id, UnitState.CLAIMED)

    def disputed(self, unit_id: bytes) -> OpenUnit:
        """Return a unit whose dispute is open."""
        return self._in_state(unit_id, UnitState.DISPUTED)

    def _in_state(self, unit_id: bytes, state: UnitState) -> OpenUnit:
        record = self.units[unit_id]
        assert record is not None, "a unit's record outlives its claim and its disputes"
        assert record.state is state, f"a unit in the state {state.name} is {record.state.name}"
        return OpenUnit(unit_id, record)

    def service(self, number: int) -> Service:
        """Return a service. Raise UnknownService if there is none."""
        return known(self.services[number], UnknownService)

    def open_service(self, number: int) -> Service:
        """Return a service to which units may be posted. Raise UnknownService if there is none."""
        service = self.service(number)
        ensure(service.is_open, UnknownService)
        return service

    def classes_of(self, unit_record: Unit) -> tuple[DeviceClass, ...]:
        """Return the classes of devices that may race for a unit, in its next or in its current race."""
        return classes.classes_of(unit_record, self.service(unit_record.service).terms.ramp)

    def commit_window_of(self, record: Unit) -> int:
        """Return the commit window of a unit in blocks, by the slowest class that may race."""
        slowest_class = min(self.classes_of(record))
        return services.commit_window_of(self.service(record.service).terms, money.work_allowed(record), slowest_class)

    def run_blocks_of(self, record: Unit) -> int:
        """Return the most blocks in which the slowest device of any class computes all of a unit."""
        return services.run_blocks_of(self.service(record.service).terms, money.work_allowed(record))

    def run_blocks_of_request(self, record: Unit) -> int:
        """Return the most blocks in which the slowest device of any class computes one request of a unit."""
        terms, unit_terms = self.service(record.service).terms, record.terms
        tokens_out = min(terms.tokens_max, unit_terms.tokens_max)
        return services.run_blocks_of(terms, work_of(record.input_share, unit_terms.tokens_in, tokens_out))

    def windows_of(self, record: Unit) -> Windows:
        """Return the windows of a unit's race. Its service and its work decide the commit window."""
        return record.rules.race_windows(self.commit_window_of(record))
