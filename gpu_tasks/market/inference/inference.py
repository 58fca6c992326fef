"""InferenceMarket: continuous inference, mined in matched races.

A customer posts units; the beacon draws bonded devices of distinct owners for each; they commit,
then reveal; the earliest right result is paid. This module is the pallet: storage, calls, hook. Each
part of a unit's life has a module of its own: queueing, racing, judging, ending.

Always: `units[u]` and the locks agree: the open units of a customer hold `escrow + bond` each as UNIT,
where nothing else is locked, and `deposit` each as DEPOSIT, beside those of its open services; every
open unit is on the agenda, so every state ends by itself.
"""

from dataclasses import replace
from typing import Annotated, Any

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import agenda, judging, money, queueing, racing
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.agenda import UNITS_OPEN_MAX
from gpu_tasks.market.inference.commitments import Verdict
from gpu_tasks.market.inference.committees import Committee
from gpu_tasks.market.inference.ending import refund
from gpu_tasks.market.inference.services import (
    OFFERS_PER_SERVICE_MAX,
    SERVICES_MAX,
    Offer,
    Service,
    ServiceTerms,
    is_sound,
    terms_from_json,
)
from gpu_tasks.market.inference.units import RACERS_MAX, Duty, Refund, Unit, UnitState, UnitTerms, is_open, unit_id_of
from gpu_tasks.market.rounds import Windows
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U8, U32, Bounded
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, Balance, BlockNumber, CompactBalance, Hash, Weight
from runtime.frame.pallet import (
    FREE,
    Constant,
    Hasher,
    Pallet,
    PostDispatch,
    Signed,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    call,
    ensure,
)
from runtime.frame.weights import work
from runtime.pallets.balances import Balances, Withdraw
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import LockReason, TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

UNITS_PER_POST_MAX = 32
DUTY_WEIGHT = work(reads=6, writes=8, microseconds=20)

_QUEUE_HASHERS = (Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT)

NewUnits = Annotated[tuple[UnitTerms, ...], Bounded(UNITS_PER_POST_MAX)]


def _post_weight(service: int, units: tuple[UnitTerms, ...]) -> Weight:  # noqa: ARG001 - the call's arguments
    return work(reads=2 + 4 * len(units), writes=2 + 4 * len(units))


class InferenceMarket(Pallet, index=10):
    """Services, offers, units, races and disputes."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake
    lock: TrustLock
    devices: Devices

    race: Constant[Windows] = Constant(Windows(lease=30, close=10, reveal=12), doc="Windows of a race, in blocks.")
    judging_windows: Constant[Windows] = Constant(
        Windows(lease=20, close=20, reveal=12), doc="Windows of a committee, in blocks."
    )
    queue_blocks: Constant[BlockNumber] = Constant(600, doc="Blocks after which an unmatched unit is refunded.")
    sealed_age_max: Constant[BlockNumber] = Constant(600, doc="How far back `sealed_at` may lie.")
    unit_keep: Constant[BlockNumber] = Constant(7_200, doc="Blocks that the record of an ended unit is kept.")
    service_deposit: Constant[Balance] = Constant(10 * GRAINS_PER_OGPU, doc="Deposit for a service's record.")
    unit_deposit: Constant[Balance] = Constant(GRAINS_PER_OGPU // 10, doc="Deposit for an open unit's record.")
    duty_fee: Constant[Balance] = Constant(4_000, doc="What a post prepays for each duty call that it causes.")

    next_service: StorageValue[ServiceId] = StorageValue(default=0)
    service_count: StorageValue[U32] = StorageValue(default=0, doc="Services that are open.")
    services: StorageMap[ServiceId, Service | None] = StorageMap(hasher=Hasher.TWOX_64_CONCAT, doc="What is sold.")
    offers: StorageDoubleMap[ServiceId, DeviceId, Offer | None] = StorageDoubleMap(
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT),
        doc="Which devices work for a service, from which price on.",
    )
    offer_count: StorageMap[ServiceId, U32] = StorageMap(default=0, hasher=Hasher.TWOX_64_CONCAT)
    posted: StorageMap[AccountId, U32] = StorageMap(default=0, doc="Units that a customer has posted, ever.")
    units: StorageMap[UnitId, Unit | None] = StorageMap(doc="Open units, and ended ones for a while.")
    open_units: StorageValue[U32] = StorageValue(default=0, doc="Units that hold money.")
    committees: StorageMap[UnitId, Committee | None] = StorageMap(doc="The committees of units in dispute.")
    duties: StorageDoubleMap[AccountId, UnitId, Duty | None] = StorageDoubleMap(
        doc="What a provider has to do now, by stash."
    )
    agenda: StorageDoubleMap[BlockNumber, UnitId, bool] = StorageDoubleMap(
        default=False, hashers=_QUEUE_HASHERS, doc="Units to look at in a block."
    )
    agenda_cursor: StorageValue[BlockNumber] = StorageValue(default=0, doc="The agenda is done up to here.")
    final_agenda: StorageDoubleMap[BlockNumber, UnitId, bool] = StorageDoubleMap(
        default=False, hashers=_QUEUE_HASHERS, doc="Units to look at once a height is final."
    )
    final_cursor: StorageValue[BlockNumber] = StorageValue(default=0, doc="The final agenda is done up to here.")
    expiring: StorageDoubleMap[BlockNumber, UnitId, bool] = StorageDoubleMap(
        default=False, hashers=_QUEUE_HASHERS, doc="Ended units whose records are dropped in a block."
    )
    expiring_cursor: StorageValue[BlockNumber] = StorageValue(default=0, doc="Records are dropped up to here.")

    events = (
        ev.ServiceCreated, ev.ServiceClosed, ev.Offered, ev.OfferWithdrawn, ev.UnitPosted, ev.UnitMatched,
        ev.ResultCommitted, ev.ResultRevealed, ev.RaceDeclined, ev.RaceMissed, ev.UnitRequeued, ev.UnitDisputed,
        ev.CommitteeDrawn, ev.VerdictCommitted, ev.VerdictRevealed, ev.CommitteeDecided, ev.ProviderSlashed,
        ev.UnitSettled, ev.UnitRefunded, ev.ProviderRebated,
    )  # fmt: skip
    errors = (
        ev.UnknownService, ev.UnsoundTerms, ev.NotServiceOwner, ev.TooManyOpen, ev.UnknownUnit, ev.NotCustomer,
        ev.NotQueued, ev.NotAssigned, ev.WindowClosed, ev.AlreadyDone, ev.WrongOpening, ev.StaleSealing,
    )  # fmt: skip

    # ------------------------------------------------------------------------------------------- services and offers

    @call(index=0, weight=work(reads=3, writes=4))
    def create_service(self, origin: Signed, terms: ServiceTerms) -> None:
        """Offer a new kind of unit; a deposit is locked until the service is closed."""
        self._add_service(origin.account, terms, self.service_deposit)

    @call(index=1, weight=work(reads=2, writes=3))
    def close_service(self, origin: Signed, service: ServiceId) -> None:
        """Let no more units be posted, and take the deposit back; open units go on."""
        one = self.service(service)
        ensure(one.owner == origin.account, ev.NotServiceOwner)
        ensure(one.is_open, ev.UnknownService)
        self.services[service] = replace(one, is_open=False)
        self.service_count.set(self.service_count.get() - 1)
        self.count_unit(service, 0)
        self.lock.unlock(one.owner, LockReason.DEPOSIT, one.deposit)
        self.emit(ev.ServiceClosed(service))

    @call(index=2, weight=work(reads=6, writes=2))
    def offer(self, origin: Signed, device: DeviceId, service: ServiceId, ask: CompactBalance) -> None:
        """Have a device work for a service, for `ask` grains a unit or more. The stash signs, or its provider key."""
        self.devices.owned(device, self.devices.operator(origin.account))
        ensure(self.service(service).is_open, ev.UnknownService)
        if self.offers[service, device] is None:
            ensure(self.offer_count[service] < OFFERS_PER_SERVICE_MAX, ev.TooManyOpen)
            self.offer_count[service] += 1
            self.devices.count_offer(device, +1)
        self.offers[service, device] = Offer(ask, self.system.number.get())
        self.emit(ev.Offered(service, device, ask))

    @call(index=3, weight=work(reads=4, writes=2))
    def withdraw_offer(self, origin: Signed, device: DeviceId, service: ServiceId) -> None:
        """Have a device work for a service no more; what is assigned stays."""
        self.devices.owned(device, self.devices.operator(origin.account))
        ensure(self.offers[service, device] is not None, ev.UnknownService)
        del self.offers[service, device]
        self.offer_count[service] -= 1
        self.devices.count_offer(device, -1)
        self.emit(ev.OfferWithdrawn(service, device))

    # ------------------------------------------------------------------------------------------------ the customer

    @call(index=4, weight=_post_weight)
    def post(self, origin: Signed, service: ServiceId, units: NewUnits) -> None:
        """Ask for units: locks price, witness fee, bond and deposit of each, and prepays the duty calls it causes."""
        one = self.service(service)
        ensure(one.is_open, ev.UnknownService)
        ensure(self.open_units.get() + len(units) <= UNITS_OPEN_MAX, ev.TooManyOpen)
        for terms in units:
            self._post_one(origin.account, service, one.terms, terms)
        self.count_unit(service, len(units))

    @call(index=5, weight=work(reads=4, writes=6))
    def cancel(self, origin: Signed, unit: UnitId) -> None:
        """Take back a unit that waits for its draw; 10 % of its bond burns."""
        one = self.unit(unit)
        ensure(one.customer == origin.account, ev.NotCustomer)
        ensure(one.state is UnitState.QUEUED, ev.NotQueued)
        refund(self, unit, one, Refund.CANCELLED)

    # ------------------------------------------------- duty calls: signed by the provider key, free when they succeed

    @call(index=6, weight=DUTY_WEIGHT)
    def commit_result(self, origin: Signed, unit: UnitId, attempt: U32, commitment: Hash) -> PostDispatch:
        """Commit to a result of a race (commitments.result_commitment)."""
        one = self._raced(unit, attempt)
        racing.commit(self, unit, one, self.devices.operator(origin.account), commitment)
        return FREE

    @call(index=7, weight=DUTY_WEIGHT)
    def decline(self, origin: Signed, unit: UnitId, attempt: U32) -> PostDispatch:
        """Give back a race whose input cannot be opened; no penalty."""
        one = self._raced(unit, attempt)
        racing.decline(self, unit, one, self.devices.operator(origin.account))
        return FREE

    @call(index=8, weight=DUTY_WEIGHT)
    def commit_verdict(self, origin: Signed, unit: UnitId, committee: U8, commitment: Hash) -> PostDispatch:
        """Commit to a verdict as a judge (commitments.verdict_commitment)."""
        judging.commit_verdict(self, unit, self.devices.operator(origin.account), committee, commitment)
        return FREE

    @call(index=9, weight=DUTY_WEIGHT)
    def reveal_verdict(self, origin: Signed, unit: UnitId, committee: U8, verdict: Verdict, salt: Hash) -> PostDispatch:
        """Open a verdict."""
        account = self.devices.operator(origin.account)
        judging.reveal_verdict(self, unit, self.unit(unit), account, committee, verdict, salt)
        return FREE

    # ------------------------------------------------------------------------------------------------------- hooks

    def on_initialize(self) -> None:
        """Call every unit that is due: draws, closes, reveals, verdicts, refunds."""
        waiting = []
        for unit in agenda.due(self, self.system.number.get(), self.beacon.final_height()):
            one = self.units[unit]
            if one is None:
                continue
            if one.state is UnitState.QUEUED:
                waiting.append((unit, one))
            elif one.state is UnitState.RACING:
                racing.step_racing(self, unit, one)
            elif one.state is UnitState.JUDGING:
                judging.step_judging(self, unit, one)
        for unit in agenda.expired(self, self.system.number.get()):
            del self.units[unit]
        slots = queueing.Slots(self)  # after the races above have freed theirs
        for unit, one in waiting:
            queueing.step_queued(self, unit, one, slots)

    def genesis(self, config: dict[str, Any]) -> None:
        """The first services and offers.

        `{"services": [{"owner", "name", "workload", "model", ...}], "offers": [{"service", "device", "ask"}]}`.
        """
        for one in config.get("services", []):
            self._add_service(account_from_text(one["owner"]), terms_from_json(one), deposit=0)
        for one in config.get("offers", []):
            service, device = int(one["service"]), account_from_text(one["device"])
            if self.devices.devices[device] is None or self.services[service] is None:
                raise ValueError(f"genesis offer of {one['device']}: no such device or service")
            self.offers[service, device] = Offer(int(one["ask"]), 0)
            self.offer_count[service] += 1
            self.devices.count_offer(device, +1)

    # ---------------------------------------------------------------------------------- for the parts of a unit's life

    def service(self, service: int) -> Service:
        """A service; UnknownService if there is none."""
        one = self.services[service]
        ensure(one is not None, ev.UnknownService)
        assert one is not None  # for the type checker
        return one

    def count_unit(self, service: int, change: int) -> None:
        """Note that units of a service were posted or ended; a closed one ends with its last."""
        one = self.service(service)
        self.open_units.set(self.open_units.get() + change)
        if one.is_open or one.open_units + change:
            self.services[service] = replace(one, open_units=one.open_units + change)
        else:
            del self.services[service]

    def unit(self, unit: bytes) -> Unit:
        """An open unit; UnknownUnit if there is none."""
        one = self.units[unit]
        ensure(one is not None and is_open(one), ev.UnknownUnit)
        assert one is not None  # for the type checker
        return one

    def race_windows(self, unit: Unit) -> Windows:
        """The windows of a unit's race: the service says how long the lease is."""
        return replace(self.race, lease=self.service(unit.service).terms.lease)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _raced(self, unit: bytes, attempt: int) -> Unit:
        one = self.unit(unit)
        ensure(one.attempt == attempt, ev.NotAssigned)
        return one

    def _add_service(self, owner: bytes, terms: ServiceTerms, deposit: int) -> None:
        number, count = self.next_service.get(), self.service_count.get()
        ensure(count < SERVICES_MAX, ev.TooManyOpen)
        ensure(is_sound(terms), ev.UnsoundTerms)
        self.lock.lock(owner, LockReason.DEPOSIT, deposit)
        self.services[number] = Service(owner, terms, deposit)
        self.service_count.set(count + 1)
        self.next_service.set(number + 1)
        self.emit(ev.ServiceCreated(number, owner, terms.name, terms.workload, terms.model))

    def _post_one(self, customer: bytes, service: int, sold: ServiceTerms, terms: UnitTerms) -> None:
        height, final = self.system.number.get(), self.beacon.final_height()
        ensure(sold.price_min <= terms.price_max <= sold.price_max, ev.UnsoundTerms)
        ensure(1 <= terms.racers <= RACERS_MAX and 1 <= terms.tokens_max <= sold.tokens_max, ev.UnsoundTerms)
        ensure(final - self.sealed_age_max <= terms.sealed_at <= final, ev.StaleSealing)
        number = self.posted[customer]
        unit_id = unit_id_of(self.system.block_hash[0], customer, number)
        unit = Unit(
            service=service,
            customer=customer,
            terms=terms,
            escrow=money.escrow(terms.price_max, terms.racers),
            bond=money.customer_bond(terms.price_max),
            deposit=self.unit_deposit,
            posted_at=height,
            recorded_at=height,
        )
        self._prepay(customer, self.duty_fee * money.duty_calls(terms.racers))
        self.lock.lock(customer, LockReason.UNIT, unit.escrow + unit.bond)
        self.lock.lock(customer, LockReason.DEPOSIT, unit.deposit)
        self.posted[customer] = number + 1
        queueing.enqueue(self, unit_id, unit)
        self.emit(ev.UnitPosted(unit_id, service, customer, terms.input_root, terms.price_max, terms.racers))

    def _prepay(self, customer: bytes, amount: int) -> None:
        """Burn what the unit's duty calls would have cost; those who do the duties pay nothing."""
        self.balances.debit(customer, amount)
        self.balances.retire(amount)
        self.emit(Withdraw(customer, amount))
