"""The pallet Capacity: proven throughput of devices, by roll calls that all devices answer in the same blocks.

Invariants:

* While roll calls are in force, markets give work only to devices that have proven the minimum of their class.
* Roll calls are in force from the end of the first one on, so no device is refused before it could prove anything.
* All devices together prove at most 1.2 times what their machines computed, for any owners (`roll_call.py`).
* Only the last finished roll call counts. The next one replaces every proof.
* Each proof is a claim that is always checked. Its owner holds the collateral and the fees, and loses no more.

No hook walks over all devices: each reader derives a device's proof from its record. A scheduled step tells the market
when a device may work again.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.events import (
    CapacityRefuted,
    CapacityStated,
    NotCalled,
    ProvenAlready,
    RollCalled,
    UnsoundWork,
)
from gpu_tasks.market.capacity.proofs import (
    CHECK_RUN_BLOCKS,
    ROLL_CALL_BOND,
    OpenProof,
    ProvenRate,
    WorkShape,
    claim_of,
    device_seed,
    is_sound,
    operations,
    proof_hold,
    proof_money,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import standing_rate
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimTerms
from gpu_tasks.market.claims.collateral import ALWAYS_PPM, item_rate
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.ids import DeviceId
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32, U64
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber, Hash, Weight
from runtime.frame.pallet import (
    Pallet,
    Parameter,
    ScheduleItem,
    Signed,
    StorageMap,
    StorageValue,
    call,
    ensure,
    known,
)
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
PROVE_WEIGHT = WEIGHTS["Capacity.prove"] + RETURN_WEIGHT
PROVEN_WEIGHT = work(reads=3)
"""The weight of one check that a device has proven enough, as markets charge it."""


class Capacity(Pallet, index=16):
    """Roll calls and the throughput that they prove."""

    system: System
    beacon: Beacon
    lock: TrustLock
    devices: Devices
    result_claims: ResultClaims

    roll_calls_enabled: Parameter[U32] = Parameter(
        0, unit="1: on, 0: off", least=0, greatest=1,
        doc="Roll calls, and no work for a device that proved too little. Small networks need none.",
    )  # fmt: skip
    period: Parameter[U32] = Parameter(
        1_200, unit="blocks", least=times.CALL_BLOCKS + 20, greatest=100_000,
        doc="Period with one roll call at an unpredictable block. A longer one costs less, but old proofs count "
            "for longer.",
    )  # fmt: skip
    proof_stake: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 25, unit="grains", least=GRAINS_PER_OGPU // 1_000, greatest=100 * GRAINS_PER_OGPU,
        doc="The most that a device earns with a false proof. The collateral of a proof is 2.59 times as much.",
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

    proofs: StorageMap[DeviceId, ProvenRate | None] = StorageMap(doc="The newest proof of each device.")
    open_proofs: StorageMap[Hash, OpenProof | None] = StorageMap(doc="Proofs whose claims are open, by claim.")
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

    events = (RollCalled, CapacityStated, CapacityRefuted)
    errors = (UnsoundWork, NotCalled, ProvenAlready)
    hold_reasons = (ROLL_CALL_BOND,)

    @call(index=0, weight=PROVE_WEIGHT)
    def prove(self, origin: Signed, device: DeviceId, shape: WorkShape, root: Hash) -> None:
        """State the root over the rows of your device at this roll call. The signer is the owner or its provider key.

        The owner holds collateral and two fees until validators have checked rows.
        """
        owner = self.devices.operator(origin.account)
        record = self.devices.owned(device, owner)
        ensure(is_sound(shape), UnsoundWork)
        roll_call = known(self.current.get(), NotCalled)
        ensure(times.can_prove(roll_call, self.system.number.get()), NotCalled)
        earlier = self.proofs[device]
        ensure(earlier is None or earlier.number < roll_call.number, ProvenAlready)
        rate = times.rate(operations(shape), roll_call.from_slot, self.beacon.last_slot.get())
        # An earlier proof below the class's minimum gives no work either, so it must not silence this report.
        if self.roll_calls_enabled and not self.has_proven(device, record.kind):
            self.returning.put(times.over_at(roll_call), device)
        is_in_row = earlier is not None and earlier.number == roll_call.number - 1
        self.proofs[device] = ProvenRate(roll_call.number, rate, earlier.rate if earlier and is_in_row else 0)
        claim_id = claim_of(device, roll_call.number)
        self.emit(CapacityStated(device, roll_call.number, rate, claim_id))
        seed = device_seed(roll_call.seed, device)
        held = self._open_claim(claim_id, owner, shape.rows, root, sealed_at=roll_call.at)
        self.open_proofs[claim_id] = OpenProof(device, owner, roll_call.number, seed, shape, held)

    def on_initialize(self) -> Weight:
        """Plan the roll call of a period at its first block, and begin it at its block.

        Then tell the market which devices may work again, within the budget.
        """
        current_height, newest_call = self.system.number.get(), self.current.get()
        if self.roll_calls_enabled:
            self._plan(newest_call, current_height)
            # In force only from here on: before the first roll call ends, no device could have proven anything.
            if newest_call is not None and current_height == times.over_at(newest_call):
                self.is_enforced.set(True)
        # The parameter switched roll calls off: every device may work at once.
        elif self.is_enforced.get() or self.next_roll_call.get():
            self.is_enforced.set(False)
            self.next_roll_call.set(0)
        if self.next_roll_call.get() == current_height:
            self._begin(newest_call, current_height, self.beacon.current.get())
        return self._return_devices(current_height)

    # ------------------------------------------------------------------------------------------ a handler: ResultClaims

    def charge_provider(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the owner's hold for a proof."""
        proof = self._open_proof(claim)
        self.lock.pay_out(proof.owner, proof_hold(claim), shares)
        self.open_proofs[claim] = replace(proof, held=proof.held - sum(share.amount for share in shares))

    def charge_customer(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the same hold: the owner pays the checks of its own proof."""
        self.charge_provider(claim, shares)

    def conclude(self, claim: bytes, outcome: ClaimOutcome) -> None:
        """Release the hold. A proof counts only if its claim passed."""
        proof = self._open_proof(claim)
        self.lock.unlock(proof.owner, proof_hold(claim), proof.held)
        self.lock.end(proof_hold(claim))
        del self.open_proofs[claim]
        if outcome is not ClaimOutcome.PASSED:
            self._refute(proof)

    # ------------------------------------------------------------------------------------------------ for the markets

    def rate_min(self, kind: DeviceClass) -> int:
        """Return the least throughput of a class, in 10^9 operations a slot."""
        return (self.cpu_rate_min, self.consumer_rate_min, self.datacenter_rate_min)[kind]

    def proven(self, device: DeviceId) -> int:
        """Return the proven throughput of a device, in 10^9 operations a slot, or 0 without a proof."""
        newest_call, proof = self.current.get(), self.proofs[device]
        return 0 if newest_call is None else standing_rate(newest_call, self.system.number.get(), proof)

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

    def can_serve(self, device: DeviceId, record: Device) -> bool:
        """Return True if a device may get a session now: it is in service, not dedicated, and has proven enough."""
        return self.devices.can_serve(record) and self.has_proven(device, record.kind)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _open_claim(self, claim_id: bytes, owner: bytes, rows: int, root: bytes, *, sealed_at: int) -> int:
        """Hold the owner's collateral and fees, and open the claim of a proof. Return the held grains."""
        fee_min = self.result_claims.check_fee_min
        collateral, fees_held = proof_money(self.proof_stake, fee_min)
        self.lock.lock(owner, proof_hold(claim_id), collateral + fees_held)
        terms = ClaimTerms(
            handler=self.index,
            provider=owner,
            customer=owner,
            root=root,
            items=rows,
            weight=rows * ITEM_WEIGHT,
            item_weight_max=ITEM_WEIGHT,
            # Work without a price: each check earns the least fee, and no paid claim waits for this one.
            price=0,
            collateral=collateral,
            rate_ppm=item_rate(rows, ALWAYS_PPM),
            check_ppm=0,
            fee_min=fee_min,
            fees_held=fees_held,
            sealed_at=sealed_at,
            run_blocks=CHECK_RUN_BLOCKS,
            excluded=(),
        )
        self.result_claims.open(claim_id, terms)
        return collateral + fees_held

    def _open_proof(self, claim_id: bytes) -> OpenProof:
        proof = self.open_proofs[claim_id]
        assert proof is not None, "an open claim of a device has a proof"
        return proof

    def _refute(self, proof: OpenProof) -> None:
        """Let a proof count no longer, if it is among the newest two."""
        newest_call, proven = self.current.get(), self.proofs[proof.device]
        assert newest_call is not None and proven is not None, "a proof has a roll call and a record"  # noqa: PT018
        if proven.number == proof.number:
            self.proofs[proof.device] = replace(proven, rate=0)
        elif proven.number == proof.number + 1:
            self.proofs[proof.device] = replace(proven, rate_before=0)
            # The refuted proof counted until here, so `prove` scheduled no report of the newest one.
            if proven.number == newest_call.number and not times.is_over(newest_call, self.system.number.get()):
                self.returning.put(times.over_at(newest_call), proof.device)
        self.emit(CapacityRefuted(proof.device, proof.number))

    def _plan(self, newest_call: RollCall | None, current_height: int) -> None:
        """Set the block of a period's roll call, and note the slot before that block."""
        # A period that governance shortens could begin during a roll call, whose proofs would then never count.
        if current_height % self.period == 0 and (newest_call is None or times.is_over(newest_call, current_height)):
            self.next_roll_call.set(times.next_at(current_height, self.period, self.beacon.current.get()))
        # A proof's time counts from the slot after this block's: from there on an author may know the seed.
        if current_height == self.next_roll_call.get() - 1:
            self.previous_slot.set(self.beacon.last_slot.get())

    def _begin(self, newest_call: RollCall | None, current_height: int, call_seed: bytes) -> None:
        call_number = 1 if newest_call is None else newest_call.number + 1
        self.current.set(RollCall(call_number, current_height, self.previous_slot.get() + 1, call_seed))
        self.next_roll_call.set(0)
        self.emit(RollCalled(call_number, call_seed))

    def _return_devices(self, current_height: int) -> Weight:
        """Tell the market of devices that may work again, within the budget. The rest waits for the next block."""
        meter = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time).budget(RETURN_BUDGET)
        for device_id in self.returning.take(current_height, meter, RETURN_WEIGHT):
            self.devices.stir(device_id)
        return meter.spent
