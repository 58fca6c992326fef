"""The storage of TrainingMarket: records, and the schedules of tasks.

Invariants: an open task waits for a block, for a final height, for claims, or for voters. An ended one waits for the
drop of its record. Losing bids release their holds, a few in each block, for any number of them.
"""

from dataclasses import replace

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.bids import AuctionId, Award, TaskBid
from gpu_tasks.market.training.events import NotSlotOwner, NotTaskCustomer, TaskRunning, UnknownTask, WrongTaskState
from gpu_tasks.market.training.numbers import TrainingNumbers
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, is_open, silent_until, slot_case
from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, Hash
from runtime.frame.pallet import ScheduleItem, StorageDoubleMap, StorageMap, StorageValue, ensure, known
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System


class TrainingStorage(TrainingNumbers):
    """Tasks, bids, records of providers, and schedules."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake
    lock: TrustLock
    devices: Devices
    capacity: Capacity
    disputes: Disputes

    tasks: StorageMap[TaskId, Task | None] = StorageMap(
        doc="Open tasks, and ended ones until their records are dropped."
    )
    submission_counts: StorageMap[AccountId, U32] = StorageMap(
        default=0, doc="The number of tasks that a customer has submitted, ever."
    )
    open_task_count: StorageValue[U32] = StorageValue(default=0, doc="The number of tasks that hold money.")
    open_auctions: StorageMap[TaskId, bool] = StorageMap(
        default=False, doc="Tasks in the commit or reveal window of an auction. Providers look for work here."
    )
    awards: StorageMap[AuctionId, Award | None] = StorageMap(doc="The terms and the seed of a decided auction.")
    bids: StorageDoubleMap[AuctionId, DeviceId, TaskBid | None] = StorageDoubleMap(
        doc="The bids of an auction, until its task is dropped. With the award, any reader can repeat the selection."
    )
    held_bids: StorageDoubleMap[AuctionId, DeviceId, bool] = StorageDoubleMap(
        default=False, doc="Bids without a slot that still hold a device and money."
    )
    clearing: ScheduleItem[TaskId] = ScheduleItem(
        doc="Tasks with bids to clear: each block returns the holds of a few."
    )
    duties: StorageDoubleMap[AccountId, TaskId, bool] = StorageDoubleMap(
        default=False, doc="The tasks of a provider with a slot or as standby, by stash."
    )
    task_of_claim: StorageMap[Hash, TaskId | None] = StorageMap(doc="The task of a slot's open claim.")
    task_of_dispute: StorageMap[Hash, TaskId | None] = StorageMap(doc="The task of an open dispute.")
    provider_records: StorageMap[AccountId, TrackRecord] = StorageMap(
        default=TrackRecord(), doc="The settled and failed work of a provider."
    )

    agenda: ScheduleItem[TaskId] = ScheduleItem("height", doc="Tasks with a deadline at a block, or a record to drop.")
    final_agenda: ScheduleItem[TaskId] = ScheduleItem("final", doc="Tasks to process once a height is final.")

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    def open_task(self, task_id: bytes) -> Task:
        """Return a task that has not ended. Raise UnknownTask if there is none."""
        task = known(self.tasks[task_id], UnknownTask)
        ensure(is_open(task), UnknownTask)
        return task

    def customers(self, task_id: bytes, account: bytes) -> Task:
        """Return an open task of this customer. Raise NotTaskCustomer for another customer's."""
        task = self.open_task(task_id)
        ensure(task.customer == account, NotTaskCustomer)
        return task

    def worked(self, task_id: bytes, place: int, account: bytes) -> tuple[Task, Slot]:
        """Return an open task and its slot at `place`.

        Raise NotSlotOwner unless the account is the slot's stash or that stash's provider key.
        """
        task = self.open_task(task_id)
        ensure(place < len(task.slots), NotSlotOwner)
        slot = task.slots[place]
        ensure(slot.provider == self.devices.operator(account), NotSlotOwner)
        return task, slot

    def claimed_slot(self, claim_id: bytes) -> tuple[bytes, Task, int]:
        """Return the task and the place of a slot with an open claim."""
        task_id = self.task_of_claim[claim_id]
        assert task_id is not None, "an open claim has a task"
        task = self._recorded(task_id)
        return task_id, task, next(place for place in range(len(task.slots)) if slot_case(task_id, place) == claim_id)

    def take_disputed(self, dispute_id: bytes) -> tuple[bytes, Task]:
        """Return the task of a dispute that is over, and drop the dispute."""
        task_id = self.task_of_dispute[dispute_id]
        assert task_id is not None, "an open dispute has a task"
        del self.task_of_dispute[dispute_id]
        return task_id, self._recorded(task_id)

    def _recorded(self, task_id: bytes) -> Task:
        task = self.tasks[task_id]
        assert task is not None, "a task's record outlives its claims and disputes"
        return task

    def ensure_in(self, task: Task, *states: TaskState) -> None:
        """Raise WrongTaskState unless the task is in one of these states, and its window is open."""
        ensure(task.state in states, WrongTaskState)
        # A step can wait for room in a later block, so the state alone does not prove an open window.
        ensure(not task.deadline or self.height <= task.deadline, WrongTaskState)

    def put(self, task_id: bytes, task: Task) -> None:
        """Store a task, and schedule its step for the block after its deadline."""
        self.tasks[task_id] = task
        if task.deadline:
            self.agenda.put(task.deadline + 1, task_id)
        else:
            # Finality, claims or voters continue this task, and no block may step it before.
            self.agenda.drop(task_id)

    def begin_work(self, task_id: bytes, task: Task) -> None:
        """Start the promised blocks: all that take part have started."""
        task = replace(task, state=TaskState.RUNNING, started_at=self.height, reported_at=self.height)
        self.put(task_id, replace(task, deadline=silent_until(task)))
        self.emit(TaskRunning(task_id))

    def await_beacon(self, task_id: bytes, task: Task) -> None:
        """Schedule the task's step for when the beacon of two blocks from here is final."""
        # This beacon is unknown in the current block, so no party can have acted on it.
        beacon_height = self.height + BEACON_DELAY
        self.put(task_id, replace(task, deadline=0, beacon_at=beacon_height))
        self.final_agenda.put(beacon_height, task_id)

    def clear(self, task_id: bytes) -> None:
        """Schedule the release of bids of finished auctions, from the next block on."""
        self.clearing.put(self.height + 1, task_id)
