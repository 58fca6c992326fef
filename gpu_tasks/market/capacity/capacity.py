"""The pallet Capacity: proven throughput of devices, by roll calls that all devices answer in the same blocks.

Invariants:

* While roll calls are in force, markets give work only to devices that have proven the minimum of their class.
* Roll calls are in force from the end of the first one on, so no device is refused before it could prove anything.
* All devices together prove at most 1.2 times what their machines computed, for any owners (`roll_call.py`).
* Only the last finished roll call counts. The next one replaces every proof.
* A device loses at most its roll-call bond.

The chain checks paths of hashes. Inspectors compute rows again. No hook walks over all devices: each reader derives a
device's proof from its records. A scheduled step tells the market when a device may work again.
"""

from dataclasses import replace
from typing import Annotated

from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.events import (
    AlreadyEnrolled,
    CapacityCommitted,
    CommittedAlready,
    DeviceEnrolled,
    DeviceUnenrolled,
    InspectorsDrawn,
    NotEnrolled,
    NothingCommitted,
    NotInspector,
    RollCallBondLost,
    RollCalled,
    RollCallOpen,
    RowsDrawn,
    RowsObjected,
    RowsOpened,
    UnsoundWork,
    WrongRows,
    WrongTime,
)
from gpu_tasks.market.capacity.proofs import (
    INSPECTORS,
    ROLL_CALL_BOND,
    ROW_DOMAIN,
    ROWS_DRAWN,
    CapacityProof,
    Enrolment,
    ShownDigests,
    ShownRow,
    WorkShape,
    drawn_inspectors,
    drawn_rows,
    is_sound,
    operations,
    roll_call_hold,
    stands,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import NotOwner
from gpu_tasks.market.devices.judges import in_office_at
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.ids import DeviceId
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.merkle import is_member
from runtime.encoding.codec import U32, U64, Bounded
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber, Hash, Weight
from runtime.frame.measured import times as times_weight
from runtime.frame.pallet import (
    FREE,
    Pallet,
    Parameter,
    PostDispatch,
    ScheduleItem,
    Signed,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    call,
    ensure,
    known,
)
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

RATE_REASON = "Least proven throughput of a working device of this class."
RATE_GREATEST = 10**12
RETURN_WEIGHT = WEIGHTS["Capacity.on_initialize return"]
"""The weight of a device that may work again, with the report to the market."""
RETURN_BUDGET = work(microseconds=4_000)
SHOW_WEIGHT = WEIGHTS["Capacity.show_rows"] + RETURN_WEIGHT + times_weight(INSPECTORS, WEIGHTS["Capacity.object"])
PROVEN_WEIGHT = work(reads=3)
"""The weight of one check that a device has proven enough, as markets charge it."""


class Capacity(Pallet, index=16):
    """Roll calls and the throughput that they prove."""

    system: System
    beacon: Beacon
    lock: TrustLock
    devices: Devices

    roll_calls_enabled: Parameter[U32] = Parameter(
        0, unit="1: on, 0: off", least=0, greatest=1,
        doc="Roll calls, and no work for a device that proved too little. Small networks need none.",
    )  # fmt: skip
    period: Parameter[U32] = Parameter(
        1_200, unit="blocks", least=times.CALL_BLOCKS + 20, greatest=100_000,
        doc="Period with one roll call at an unpredictable block. A longer one costs less, but old proofs count "
            "for longer.",
    )  # fmt: skip
    bond: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 1_000, greatest=100 * GRAINS_PER_OGPU,
        doc="Bond of an enrolled device, lost for silence or wrong rows. It is the most that a roll call takes.",
    )  # fmt: skip
    cpu_rate_min: Parameter[U64] = Parameter(
        10, unit="1e9 operations a slot", least=1, greatest=RATE_GREATEST, doc=RATE_REASON
    )
    consumer_rate_min: Parameter[U64] = Parameter(
        1_000, unit="1e9 operations a slot", least=1, greatest=RATE_GREATEST, doc=RATE_REASON
    )
    datacenter_rate_min: Parameter[U64] = Parameter(
        20_000, unit="1e9 operations a slot", least=1, greatest=RATE_GREATEST, doc=RATE_REASON
    )

    enrolments: StorageMap[DeviceId, Enrolment | None] = StorageMap(doc="Devices that answer roll calls.")
    proofs: StorageDoubleMap[DeviceId, U32, CapacityProof | None] = StorageDoubleMap(
        doc="Proofs of a device, by the number of the roll call. The newest two are kept."
    )
    opened_rows: StorageMap[DeviceId, ShownDigests] = StorageMap(
        default=(), doc="Hashes of the rows that a device showed last, in the order drawn. Inspectors compare them."
    )
    current: StorageValue[RollCall | None] = StorageValue(doc="The newest roll call.")
    next_roll_call: StorageValue[BlockNumber] = StorageValue(
        default=0, doc="The block of the next roll call; 0 if none is known."
    )
    is_enforced: StorageValue[bool] = StorageValue(
        default=False, doc="True once the first roll call is over: devices that proved too little get no work."
    )
    previous_slot: StorageValue[U64] = StorageValue(default=0, doc="The slot of the block before the planned one.")

    returning: ScheduleItem[DeviceId] = ScheduleItem(
        doc="Devices that may work again, by the block that reports them to the market."
    )

    events = (
        RollCalled, RowsDrawn, InspectorsDrawn, DeviceEnrolled, DeviceUnenrolled, CapacityCommitted, RowsOpened,
        RowsObjected, RollCallBondLost,
    )  # fmt: skip
    errors = (
        UnsoundWork, NotEnrolled, AlreadyEnrolled, RollCallOpen, WrongTime, CommittedAlready, NothingCommitted,
        WrongRows, NotInspector,
    )  # fmt: skip
    hold_reasons = (ROLL_CALL_BOND,)

    @call(index=0, weight=WEIGHTS["Capacity.enrol"])
    def enrol(self, origin: Signed, device: DeviceId, shape: WorkShape) -> None:
        """Enrol your device: it answers roll calls from the next one on. The signer is its owner."""
        self.devices.owned(device, origin.account)
        ensure(device not in self.enrolments, AlreadyEnrolled)
        ensure(is_sound(shape), UnsoundWork)
        self.lock.lock(origin.account, roll_call_hold(device), self.bond)
        current_height, newest_call = self.system.number.get(), self.current.get()
        # Earlier roll calls do not count against a new enrolment.
        checked_number = 0 if newest_call is None else newest_call.number
        self.enrolments[device] = Enrolment(origin.account, shape, current_height, self.bond, checked_number)
        self.emit(DeviceEnrolled(device, shape))

    @call(index=1, weight=WEIGHTS["Capacity.withdraw"])
    def withdraw(self, origin: Signed, device: DeviceId) -> None:
        """Withdraw your device from roll calls, between two of them. Its proof ends at once."""
        enrolment = self._enrolled(device, origin.account)
        newest_call = self.current.get()
        is_called = newest_call is not None and enrolment.since < newest_call.at and not self._is_over(newest_call)
        # A device that left during a roll call would escape the loss of its bond.
        ensure(not is_called, RollCallOpen)
        settled_enrolment = self._reckoned(device, enrolment)
        if settled_enrolment.bond:
            self.lock.unlock(settled_enrolment.owner, roll_call_hold(device), settled_enrolment.bond)
        self.lock.end(roll_call_hold(device))
        del self.enrolments[device]
        if device in self.opened_rows:
            del self.opened_rows[device]
        # `proven` reads proofs without the enrolment, so none may remain.
        self._forget(device, 0 if newest_call is None else newest_call.number + 1)
        self.emit(DeviceUnenrolled(device))

    @call(index=2, weight=WEIGHTS["Capacity.commit"])
    def commit(self, origin: Signed, device: DeviceId, root: Hash) -> None:
        """Commit to the rows of this roll call. The signer is the owner or its provider key.

        If the bond was lost at an earlier roll call, the call holds a new one.
        """
        enrolment = self._enrolled(device, self.devices.operator(origin.account))
        roll_call = self._called(enrolment)
        ensure(times.can_commit(roll_call, self.system.number.get()), WrongTime)
        ensure(self.proofs[device, roll_call.number] is None, CommittedAlready)
        # Earlier roll calls are settled first: a lost bond burns before a new one is held.
        self.enrolments[device] = self._bonded(device, self._reckoned(device, enrolment))
        commit_slot = self.beacon.last_slot.get()
        proven_rate = times.rate(operations(enrolment.shape), roll_call.from_slot, commit_slot)
        self._forget(device, roll_call.number - 1)
        self.proofs[device, roll_call.number] = CapacityProof(root, enrolment.shape, commit_slot, proven_rate)
        self.emit(CapacityCommitted(device, roll_call.number, proven_rate))

    @call(index=3, weight=SHOW_WEIGHT)
    def show_rows(
        self, origin: Signed, device: DeviceId, rows: Annotated[tuple[ShownRow, ...], Bounded(ROWS_DRAWN)]
    ) -> None:
        """Show the hashes of the drawn rows, in the order drawn. Inspectors check the rows themselves.

        The weight prepays the objections of three inspectors, and the report to the market that the device may work
        again.
        """
        enrolment = self._enrolled(device, self.devices.operator(origin.account))
        roll_call = self._called(enrolment)
        ensure(times.can_open(roll_call, self.system.number.get()), WrongTime)
        proof = self.proofs[device, roll_call.number]
        ensure(proof is not None and not proof.is_open, NothingCommitted)
        assert proof is not None, "just looked"
        places = drawn_rows(roll_call.rows_seed, device, proof.shape.rows)
        ensure(len(rows) == len(places), WrongRows)
        # Paths alone: to compute one row costs up to size^2 x rounds products, too much for a block (ADR 20).
        for row, place in zip(rows, places, strict=True):
            is_row_proven = is_member(ROW_DOMAIN, proof.root, proof.shape.rows, place, row.digest, row.path)
            ensure(is_row_proven, WrongRows)
        self.proofs[device, roll_call.number] = replace(proof, is_open=True)
        self.opened_rows[device] = tuple(row.digest for row in rows)
        record = self.devices.devices[device]
        # An earlier proof below the class's minimum gives no work either, so it must not silence this report.
        if self.roll_calls_enabled and record is not None and not self.has_proven(device, record.kind):
            self.returning.put(times.over_at(roll_call), device)
        self.emit(RowsOpened(device, roll_call.number))

    @call(index=4, weight=WEIGHTS["Capacity.object"])
    def object(self, origin: Signed, device: DeviceId) -> PostDispatch:
        """Object to a row of a device. The signer is an inspector drawn for the device, or its provider key.

        Free if it succeeds: the call that showed the rows has paid for it.
        """
        inspector = self.devices.operator(origin.account)
        enrolment = known(self.enrolments[device], NotEnrolled)
        roll_call = self._called(enrolment)
        ensure(times.can_object(roll_call, self.system.number.get()), WrongTime)
        proof = self.proofs[device, roll_call.number]
        ensure(proof is not None and proof.is_open, NothingCommitted)
        assert proof is not None, "just looked"
        ensure(inspector in self.inspectors(roll_call, device, enrolment.owner), NotInspector)
        ensure(inspector not in proof.objections, NotInspector)
        self.proofs[device, roll_call.number] = replace(proof, objections=(*proof.objections, inspector))
        self.emit(RowsObjected(device, roll_call.number, inspector))
        return FREE

    def on_initialize(self) -> Weight:
        """Plan the roll call of a period at its first block, and take the beacon's draws for the current one.

        Then tell the market which devices may work again, within the budget.
        """
        current_height, newest_call = self.system.number.get(), self.current.get()
        if self.roll_calls_enabled:
            self._plan(current_height)
            # In force only from here on: before the first roll call ends, no device could have proven anything.
            if newest_call is not None and current_height == times.over_at(newest_call):
                self.is_enforced.set(True)
        # The parameter switched roll calls off: every device may work at once.
        elif self.is_enforced.get() or self.next_roll_call.get():
            self.is_enforced.set(False)
            self.next_roll_call.set(0)
        self._go_on(current_height, newest_call)
        return self._return_devices(current_height)

    # ------------------------------------------------------------------------------------------------ for the markets

    def rate_min(self, kind: DeviceClass) -> int:
        """Return the least throughput of a class, in 10^9 operations a slot."""
        return (self.cpu_rate_min, self.consumer_rate_min, self.datacenter_rate_min)[kind]

    def proven(self, device: DeviceId) -> int:
        """Return the proven throughput of a device, in 10^9 operations a slot, or 0 without a proof."""
        newest_call = self.current.get()
        if newest_call is None:
            return 0
        # A withdrawn device has no proofs, so this also tells whether the device is enrolled.
        proof = self.proofs[device, newest_call.number if self._is_over(newest_call) else newest_call.number - 1]
        return proof.rate if proof is not None and stands(proof) else 0

    def has_proven(self, device: DeviceId, kind: DeviceClass) -> bool:
        """Return True if a device has proven its class's minimum, or need not.

        All markets decide by this function alone.
        """
        return not self.is_enforced.get() or self.proven(device) >= self.rate_min(kind)

    def can_work(self, device: DeviceId, record: Device) -> bool:
        """Return True if a device may get a unit now: it has a place, is in service, and has proven enough."""
        return self.devices.can_work(record) and self.has_proven(device, record.kind)

    def is_free(self, device: DeviceId, record: Device) -> bool:
        """Return True if a device may get a task now: it has no work, is in service, and has proven enough."""
        return self.devices.is_free(record) and self.has_proven(device, record.kind)

    def inspectors(self, roll_call: RollCall, device: DeviceId, owner: bytes) -> list[bytes]:
        """Return the inspectors of a device's rows, drawn from the active set at the time of the draw."""
        # The epoch of the draw, not the current one: a later active set must not change the drawn inspectors.
        seats = in_office_at(self.devices, self.beacon.epoch_of(times.inspectors_at(roll_call)))
        # An owner would never object to its own rows.
        others = [seat for seat in seats if seat[0] != owner]
        return drawn_inspectors(roll_call.inspectors_seed, device, others)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _plan(self, current_height: int) -> None:
        """Set the block of a period's roll call, and note the slot before that block."""
        if current_height % self.period == 0:
            self.next_roll_call.set(times.next_at(current_height, self.period, self.beacon.current.get()))
        # A proof's time counts from the slot after this block's: from there on an author may know the seed.
        if current_height == self.next_roll_call.get() - 1:
            self.previous_slot.set(self.beacon.last_slot.get())

    def _go_on(self, current_height: int, newest_call: RollCall | None) -> None:
        """Begin the planned roll call, or make the draw that is due in the current one."""
        beacon = self.beacon.current.get()
        if self.next_roll_call.get() == current_height:
            self._begin(newest_call, current_height, beacon)
        elif newest_call is not None and current_height == times.rows_at(newest_call):
            self.current.set(replace(newest_call, rows_seed=beacon))
            self.emit(RowsDrawn(newest_call.number, beacon))
        elif newest_call is not None and current_height == times.inspectors_at(newest_call):
            self.current.set(replace(newest_call, inspectors_seed=beacon))
            self.emit(InspectorsDrawn(newest_call.number, beacon))

    def _return_devices(self, current_height: int) -> Weight:
        """Tell the market of devices that may work again, within the budget. The rest waits for the next block."""
        meter = WeightMeter(RETURN_BUDGET)
        for device_id in self.returning.take(current_height, meter, RETURN_WEIGHT):
            self.devices.stir(device_id)
        return meter.spent

    def _begin(self, newest_call: RollCall | None, current_height: int, call_seed: bytes) -> None:
        call_number = 1 if newest_call is None else newest_call.number + 1
        self.current.set(RollCall(call_number, current_height, self.previous_slot.get() + 1, call_seed))
        self.next_roll_call.set(0)
        self.emit(RollCalled(call_number, call_seed))

    def _is_over(self, roll_call: RollCall) -> bool:
        return times.is_over(roll_call, self.system.number.get())

    def _enrolled(self, device_id: bytes, owner: bytes) -> Enrolment:
        """Return the enrolment. It may outlive its device's registration, because its bond must always come back."""
        enrolment = known(self.enrolments[device_id], NotEnrolled)
        ensure(enrolment.owner == owner, NotOwner)
        return enrolment

    def _called(self, enrolment: Enrolment) -> RollCall:
        """Return the newest roll call. Raise NotEnrolled if the device enrolled after it began."""
        newest_call = known(self.current.get(), WrongTime)
        ensure(enrolment.since < newest_call.at, NotEnrolled)
        return newest_call

    def _reckoned(self, device_id: bytes, enrolment: Enrolment) -> Enrolment:
        """Return the enrolment after all finished roll calls. Burn the bond if the device was silent or wrong."""
        newest_call = self.current.get()
        finished_number = 0 if newest_call is None else newest_call.number - (not self._is_over(newest_call))
        first = enrolment.checked + 1
        if finished_number < first:
            return enrolment
        # Only the newest two proofs are kept. An answered roll call further back was settled by its own commit, so a
        # larger gap means silence.
        missed = [
            call_number
            for call_number in range(max(first, finished_number - 1), finished_number + 1)
            if not self._answered(device_id, call_number)
        ]
        if (missed or finished_number - first > 1) and enrolment.bond:
            self.lock.pay_out(enrolment.owner, roll_call_hold(device_id), (Share(None, enrolment.bond),))
            self.emit(RollCallBondLost(device_id, finished_number, enrolment.bond))
            return replace(enrolment, bond=0, checked=finished_number)
        return replace(enrolment, checked=finished_number)

    def _bonded(self, device_id: bytes, enrolment: Enrolment) -> Enrolment:
        """Return the enrolment with a bond held."""
        if enrolment.bond:
            return enrolment
        self.lock.lock(enrolment.owner, roll_call_hold(device_id), self.bond)
        return replace(enrolment, bond=self.bond)

    def _answered(self, device_id: bytes, call_number: int) -> bool:
        proof = self.proofs[device_id, call_number]
        return proof is not None and stands(proof)

    def _forget(self, device_id: bytes, kept_from: int) -> None:
        """Drop the device's proofs of roll calls before number `kept_from`."""
        for call_number, _ in list(self.proofs.under(device_id)):
            if call_number < kept_from:
                del self.proofs[device_id, call_number]
