"""`TrainingApi`: queries of customers, providers and explorers about tasks, their auctions and their duties."""

from itertools import chain, islice
from typing import Annotated

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX
from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.bids import DRAWS_FROM, AuctionId, Award, TaskBid, auction_id
from gpu_tasks.market.training.orders import AUCTIONS_MAX
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.task_duties import TaskDuty, bid_duty, slot_duty, standby_duty
from gpu_tasks.market.training.tasks import (
    Task,
    TaskState,
    agreed_milestone,
    dispute_id_of,
    is_open,
    slot_case,
    task_id_of,
)
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.codec import U8, Bounded, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.api import RuntimeApi, query
from runtime.pallets.system import System

TASKS_SHOWN_MAX = 128
TASKS_LOOKED_AT_MAX = 512
"""The number of a customer's newest tasks that a query reads. An older open task is found only by its id."""
AUCTIONS_SHOWN_MAX = 128
"""The most auctions in one answer. The next answer begins after the last of them."""
DUTY_TASKS_MAX = 128
"""The most tasks of a provider that a query reads. Those that bind its devices are at most 64, and come first."""
TASK_DUTIES_MAX = 256
"""The most duties in one answer. A provider with more slots in gangs gets the first ones."""


@struct
class TaskStatus:
    """A task with its awaited events. Heights are 0 if there is none."""

    id: TaskId
    task: Task
    until: BlockNumber
    """The last block of the window of its state."""
    awaits: BlockNumber
    """The height that must be final before the task continues."""
    countable: U8
    """The milestone, over all legs, that all have stated and the customer may confirm, or 0 if there is none."""
    claims: Annotated[tuple[tuple[U8, Hash], ...], Bounded(SLOTS_MAX)]
    """The open claims of slots, by place. `ClaimsApi_claim` shows their checks."""
    dispute: Hash | None
    """The open dispute. `DisputesApi_dispute` shows its voters."""


@struct
class ShownBid:
    """A bid, with its device."""

    device: DeviceId
    bid: TaskBid
    """The bid. Once opened, it has every input of its score: price, blocks, collateral and the provider's record."""
    is_held: bool
    """True if it still holds device and money, and has no slot."""


@struct
class TaskAuction:
    """An auction of a task. With the award's terms and seed and these bids, any party can recompute the selection."""

    number: U8
    id: AuctionId
    award: Award | None
    """None until reveals are over. Without a seed until the beacon is final, or if no bid could win."""
    bids: Annotated[tuple[ShownBid, ...], Bounded(BIDS_MAX)]
    """Ascending by device."""


class TrainingApi(RuntimeApi, version=1):
    """Tasks, auctions, bids and duties."""

    @query
    def task(self, task: TaskId) -> TaskStatus | None:
        """Return a task that is open or ended recently, or None."""
        record = self._market.tasks[task]
        return None if record is None else self._status(task, record)

    @query
    def tasks_of(self, customer: AccountId) -> Annotated[tuple[TaskStatus, ...], Bounded(TASKS_SHOWN_MAX)]:
        """Return up to 128 open tasks of a customer, newest first, among the newest 512 that it has submitted."""
        market, genesis_hash = self._market, self.bound[System].block_hash[0]
        submission_count = market.submission_counts[customer]
        task_ids = (
            task_id_of(genesis_hash, customer, submission_number)
            for submission_number in range(submission_count - 1, -1, -1)
        )
        task_statuses: list[TaskStatus] = []
        # A customer may have submitted any number of tasks: the bound limits the reads.
        for task_id in islice(task_ids, TASKS_LOOKED_AT_MAX):
            task = market.tasks[task_id]
            if task is not None and is_open(task):
                task_statuses.append(self._status(task_id, task))
            if len(task_statuses) == TASKS_SHOWN_MAX:
                break
        return tuple(task_statuses)

    @query
    def auctions(self, after: TaskId | None) -> Annotated[tuple[TaskStatus, ...], Bounded(AUCTIONS_SHOWN_MAX)]:
        """Return the first 128 tasks with open bidding, or those after `after`. Their order has no meaning."""
        market = self._market
        task_ids = islice(market.open_auctions.keys(behind=after), AUCTIONS_SHOWN_MAX)
        open_tasks = ((task_id, market.tasks[task_id]) for task_id in task_ids)
        return tuple(self._status(task_id, task) for task_id, task in open_tasks if task is not None)

    @query
    def bids(self, task: TaskId) -> Annotated[tuple[TaskAuction, ...], Bounded(AUCTIONS_MAX)]:
        """Return all auctions of a task with all their bids, at most 128 each, as long as its record is kept."""
        record = self._market.tasks[task]
        return (
            ()
            if record is None
            else tuple(self._auction(task, auction_number) for auction_number in range(1, record.auction + 1))
        )

    @query
    def draws(self, task: TaskId) -> Annotated[tuple[TaskAuction, ...], Bounded(AUCTIONS_MAX)]:
        """Return all draws of a task's replicas, with the offered devices as bids.

        With the seed, any party can repeat a draw (`replicas.drawn`). Draws are numbered from 129 on.
        """
        record = self._market.tasks[task]
        numbers = () if record is None else range(DRAWS_FROM + 1, DRAWS_FROM + record.draws + 1)
        return tuple(self._auction(task, draw_number) for draw_number in numbers)

    @query
    def task_duties(self, stash: AccountId) -> Annotated[tuple[TaskDuty, ...], Bounded(TASK_DUTIES_MAX)]:
        """Return the next call for each slot, bid and standby of a provider, of at most 128 tasks.

        Tasks that bind its devices come first, then tasks that it may be asked to take over.
        """
        market, duties = self._market, list[TaskDuty]()
        bound_devices = self._bound_devices(stash)
        # Tasks that bind devices come first: a missed duty costs money, and the bound may cut off the last tasks.
        task_ids = dict.fromkeys(chain(bound_devices.values(), (task_id for task_id, _ in market.duties.under(stash))))
        for task_id in islice(task_ids, DUTY_TASKS_MAX):
            task = market.tasks[task_id]
            if task is not None:
                free_devices = [device_id for device_id, bound_task in bound_devices.items() if bound_task == task_id]
                duties += self._duties(stash, task_id, task, free_devices)
        return tuple(duties[:TASK_DUTIES_MAX])

    @property
    def _market(self) -> TrainingMarket:
        return self.bound[TrainingMarket]

    @property
    def _next(self) -> int:
        """The height of the next block."""
        return self.bound[System].number.get() + 1

    def _status(self, task_id: bytes, task: Task) -> TaskStatus:
        market = self._market
        agreed_checkpoint = agreed_milestone(task) if task.state is TaskState.RUNNING else None
        is_countable = agreed_checkpoint is not None and agreed_checkpoint.number > task.behind + task.owed
        claims = [(place, slot_case(task_id, place)) for place in range(len(task.slots) if task.open_claims else 0)]
        dispute = dispute_id_of(task_id, task.disputes - 1) if task.disputes else None
        return TaskStatus(
            id=task_id,
            task=task,
            until=task.deadline,
            awaits=market.final_agenda.places[task_id],
            countable=agreed_checkpoint.number if agreed_checkpoint is not None and is_countable else 0,
            claims=tuple((place, claim) for place, claim in claims if market.task_of_claim[claim] is not None),
            dispute=None if dispute is None or market.task_of_dispute[dispute] is None else dispute,
        )

    def _auction(self, task_id: bytes, auction_number: int) -> TaskAuction:
        market, auction = self._market, auction_id(task_id, auction_number)
        auction_bids = ((device_id, bid) for device_id, bid in market.bids.under(auction) if bid is not None)
        shown_bids = (ShownBid(device_id, bid, market.held_bids[auction, device_id]) for device_id, bid in auction_bids)
        return TaskAuction(
            auction_number,
            auction,
            market.awards[auction],
            tuple(sorted(shown_bids, key=lambda shown: shown.device)),
        )

    def _bound_devices(self, stash: bytes) -> dict[bytes, bytes]:
        """Return the assignment of each of a provider's devices, unit or task, by ascending device."""
        devices = self.bound[Devices]
        own_devices = sorted(islice((key for key, _ in devices.devices_of.under(stash)), DEVICES_PER_PROVIDER_MAX))
        records = ((key, devices.devices[key]) for key in own_devices)
        return {key: record.assignment for key, record in records if record is not None and record.assignment}

    def _duties(self, stash: bytes, task_id: bytes, task: Task, own_devices: list[bytes]) -> list[TaskDuty]:
        height = self._next
        places = [place for place, slot in enumerate(task.slots) if slot.provider == stash]
        duties = [slot_duty(task_id, task, place, height) for place in places]
        if task.standby is not None and task.standby.provider == stash:
            duties.append(standby_duty(task_id, task, height))
        for device_id in own_devices:
            duties += self._bid_duties(task_id, task, device_id)
        return duties

    def _bid_duties(self, task_id: bytes, task: Task, device_id: bytes) -> list[TaskDuty]:
        """Return the duty of the bid that binds a device to a task, from any of its auctions; none for a slot."""
        market = self._market
        # A device may still be held by an earlier auction: bids are released only a few in each block.
        for auction_number in (*range(DRAWS_FROM + task.draws, DRAWS_FROM, -1), *range(task.auction, 0, -1)):
            auction = auction_id(task_id, auction_number)
            bid = market.bids[auction, device_id] if market.held_bids[auction, device_id] else None
            if bid is not None:
                is_opened = bid.opened is not None
                return [bid_duty(task_id, task, auction_number, device_id, self._next, is_opened=is_opened)]
        return []
