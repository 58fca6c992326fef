"""Tasks on the world's chain: submitted, bid for, awarded to gangs and run, with the steps of customers and providers.

Fleets form the gangs: each of the first four has eight slots of a gang of 32. The fifth is the runner-up. In other
gangs each slot has a provider of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.weights.actors import CUSTOMER, FLEETS, Actor
from benchmarks.weights.claim_cases import without_points
from benchmarks.weights.staking_cases import ELECTED
from benchmarks.weights.world import World
from gpu_tasks.market.training.bids import BidOffer, auction_id, bid_commitment
from gpu_tasks.market.training.orders import (
    AUCTIONS_MAX,
    INTERVALS_MAX,
    MILESTONES_MAX,
    REPLICAS,
    CheckedBy,
    TaskOrder,
)
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState, slot_case, task_id_of
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import OGPU, signed

PRICE, COLLATERAL = OGPU // 100, 12 * OGPU
DEVICES_EACH = 8
LAST, STANDBY = 3, 4
"""The fleet with the last slots of a gang, or with a task's only slot, and the fleet that is the runner-up."""
FIRST_OWNER = FLEETS + ELECTED
"""The first owner of a single device in a gang. Two of the validators before it have offended (`staking_cases`)."""
FIRST_DEVICE = 16
"""The first device for tasks. Earlier devices have offers that other cases end."""
BLOCKS_MAX = 200
ROOT, OTHER_ROOT = b"r" * 32, b"w" * 32
FOUND = TaskResult(ROOT, b"o" * 32, 7)
CANCELLED = (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING, TaskState.STARTING)
"""The states in which a customer can cancel a task."""
CallOfPlace = Callable[[int], Call]
"""A function from a slot's place to its provider's call."""


@dataclass(frozen=True)
class Bidder:
    """A fleet with one of its devices, and its bid."""

    actor: Actor
    device: bytes
    offer: BidOffer


class Tasks:
    """A driver of tasks: it submits them and makes their steps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.submitted = 0
        self.turn = 0

    # -------------------------------------------------------------------------------------------------------- reading

    def now(self, task_id: bytes) -> Task:
        """Return a task's current state."""
        task = self.world.now()[TrainingMarket].tasks[task_id]
        if task is None:
            raise RuntimeError("there is no such task")
        return task

    def owner(self, task_id: bytes, place: int) -> Actor:
        """Return the provider of a slot."""
        return self.world.by_stash[self.now(task_id).slots[place].provider]

    @property
    def last(self) -> Actor:
        """The fleet with the last slots."""
        return self.world.validators[LAST]

    # ------------------------------------------------------------------------------------------------------- the road

    def order(self, slots: int, segments: int = 0, milestones: int = MILESTONES_MAX) -> TaskOrder:
        """Return the customer's order."""
        return TaskOrder(
            task_hash=b"t" * 32, workload=b"w" * 32, input_root=b"i" * 32, input_blob=b"b" * 32,
            sealed_at=self.world.now()[Beacon].final_height(), classes=0b111, milestones=milestones, segments=segments,
            run_blocks=4, price_max=PRICE, time_value=None, loss=None, blocks_max=1_000, collateral_min=0,
            slots=slots, auctions=AUCTIONS_MAX,
        )  # fmt: skip

    def submit(self, order: TaskOrder) -> bytes:
        """Make a block with an order. Return the id of its task."""
        self.world.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=order)))
        self.submitted += 1
        return task_id_of(self.world.genesis, CUSTOMER.stash, self.submitted - 1)

    def bidders(self, slots: int, count: int = 0) -> list[Bidder]:
        """Return `count` bidders, cheapest first, each with a device.

        The default is the gang's size and a runner-up.
        """
        first = self._free_devices()
        if slots == 1 and not count:
            return [self._bidder(LAST, first, 0), self._bidder(STANDBY, first, 1)]
        places = [(fleet, number) for fleet in range(BIDS_MAX // DEVICES_EACH) for number in range(DEVICES_EACH)]
        wanted = places[: count or slots + 1]
        return [self._bidder(fleet, first + number, place) for place, (fleet, number) in enumerate(wanted)]

    def owners(self, slots: int) -> list[Bidder]:
        """Return the bidders of a gang whose slots have different owners, and its runner-up. A fleet has the last."""
        first = self._free_devices()
        ends = (self._bidder(FLEETS - 1, first, slots - 1), self._bidder(FLEETS - 2, first, slots))
        return [*(self._bidder(FIRST_OWNER + place, 0, place) for place in range(slots - 1)), *ends]

    def _free_devices(self) -> int:
        """Return the number of the first of each fleet's eight devices that the newest tasks leave free."""
        self.turn += 1
        return FIRST_DEVICE + (self.turn - 1) % 5 * DEVICES_EACH

    def _bidder(self, fleet: int, number: int, place: int) -> Bidder:
        actor = self.world.validators[fleet]
        offer = BidOffer(PRICE // 2 + place * 1_000, 1_000, COLLATERAL)
        return Bidder(actor, actor.device(number), offer)

    def commit(self, task_id: bytes, bidder: Bidder) -> Call:
        """Return the call of a sealed bid."""
        auction = auction_id(task_id, self.now(task_id).auction)
        sealed = bid_commitment(
            self.world.genesis, auction, bidder.actor.stash, bidder.device, bidder.offer, salt_of(bidder)
        )
        return TrainingMarket.commit_bid(task=task_id, device=bidder.device, commitment=sealed)

    def reveal(self, task_id: bytes, bidder: Bidder) -> Call:
        """Return the call that reveals a bid."""
        return TrainingMarket.reveal_bid(task=task_id, device=bidder.device, offer=bidder.offer, salt=salt_of(bidder))

    def commits(self, task_id: bytes, bidders: Sequence[Bidder]) -> None:
        """Make a block in which all bidders bid."""
        self.world.block(*(signed(each.actor.provider, self.commit(task_id, each)) for each in bidders))

    def reveals(self, task_id: bytes, bidders: Sequence[Bidder]) -> None:
        """Make a block in which all bidders reveal their bids."""
        self.world.block(*(signed(each.actor.provider, self.reveal(task_id, each)) for each in bidders))

    def to_award(self, task_id: bytes, bidders: Sequence[Bidder]) -> None:
        """Have all bidders bid and reveal. The next block awards the task."""
        self.commits(task_id, bidders)
        self.until(task_id, TaskState.REVEALING)
        self.reveals(task_id, bidders)
        self.until(task_id, TaskState.AWARDING)
        while self.world.height < self.now(task_id).beacon_at:
            self.world.block()

    def awarded(
        self, slots: int, segments: int = 0, milestones: int = 2, bidders: Sequence[Bidder] | None = None
    ) -> bytes:
        """Return a task that has just been awarded."""
        task_id = self.submit(self.order(slots, segments, milestones))
        self.to_award(task_id, bidders or self.bidders(slots))
        self.until(task_id, TaskState.STARTING)
        return task_id

    def awarded_time(self) -> bytes:
        """Return a just awarded task that buys time, with the most intervals."""
        order = replace(
            self.order(1), checked_by=CheckedBy.METERED, milestones=INTERVALS_MAX, blocks_max=2 * INTERVALS_MAX,
            run_blocks=0, time_value=0,
        )  # fmt: skip
        task_id = self.submit(order)
        first, second = self.bidders(1)
        self.to_award(task_id, [replace(each, offer=replace(each.offer, blocks=1)) for each in (first, second)])
        self.until(task_id, TaskState.STARTING)
        return task_id

    def seeking_replicas(self) -> bytes:
        """Return a task with the most replicas that waits for volunteered devices."""
        order = replace(
            self.order(1), checked_by=CheckedBy.REPLICATED, milestones=1, run_blocks=0, slots=REPLICAS[-1],
            auctions=1,
        )  # fmt: skip
        task_id = self.submit(order)
        self.to_award(task_id, self.bidders(1))
        self.until(task_id, TaskState.VOLUNTEERING)
        return task_id

    def volunteers(self, task_id: bytes) -> list[tuple[Actor, bytes]]:
        """Return the owners needed beside the winner, each with a device without other work."""
        winner, number = self.owner(task_id, 0), FIRST_DEVICE + self.turn % 5 * DEVICES_EACH
        others = [actor for actor in self.world.validators[: REPLICAS[-1] + 1] if actor is not winner]
        return [(actor, actor.device(number)) for actor in others[: REPLICAS[-1] - 1]]

    def bind(self, task_id: bytes, place: int) -> Call:
        """Return the call by which a replica commits to its result."""
        stash = self.now(task_id).slots[place].provider
        return self.finish(task_id, place, replica_commitment(self.world.genesis, task_id, place, stash, FOUND, ROOT))

    def open_result(self, task_id: bytes, place: int) -> Call:
        """Return the call that opens a replica's result."""
        return TrainingMarket.open_result(task=task_id, place=place, result=FOUND, salt=ROOT)

    def running(
        self, slots: int, segments: int = 0, milestones: int = 2, bidders: Sequence[Bidder] | None = None
    ) -> bytes:
        """Return a running task."""
        task_id = self.awarded(slots, segments, milestones, bidders)
        self.each(task_id, lambda place: TrainingMarket.start(task=task_id, place=place))
        return task_id

    def stated(self, slots: int, segments: int = 0) -> bytes:
        """Return a gang of different owners whose results are all equal. The next block opens their claims."""
        task_id = self.running(slots, segments, bidders=self.owners(slots))
        self.each(task_id, lambda place: self.finish(task_id, place))
        return task_id

    def claim(self, task_id: bytes, *, but: int = -1) -> None:
        """Make the block that opens a task's claims. No beacon draws an item, except of the claim of place `but`."""
        places = [place for place in range(len(self.now(task_id).slots)) if place != but]
        self.world.block(partial(without_points, [slot_case(task_id, place) for place in places]))

    def each(self, task_id: bytes, call: CallOfPlace, *, but: int = -1) -> None:
        """Make a block in which the provider of every slot, except for place `but`, makes a call."""
        places = [place for place in range(len(self.now(task_id).slots)) if place != but]
        self.world.block(*(signed(self.owner(task_id, place).provider, call(place)) for place in places))

    def finish(self, task_id: bytes, place: int, root: bytes = ROOT) -> Call:
        """Return the call that states a result."""
        return TrainingMarket.finish(task=task_id, place=place, result=replace(FOUND, root=root))

    def checkpoint(self, task_id: bytes, place: int) -> Call:
        """Return the call that reports the next milestone."""
        slot = self.now(task_id).slots[place]
        milestone = Milestone(slot.reported + 1, ROOT, 7, b"c" * 32)
        return TrainingMarket.report_milestone(task=task_id, place=place, milestone=milestone)

    def until(self, task_id: bytes, *states: TaskState) -> None:
        """Make empty blocks until a task is in one of the states."""
        for _ in range(BLOCKS_MAX):
            if self.now(task_id).state in states:
                return
            self.world.block()
        raise RuntimeError(f"the task stays in {self.now(task_id).state!r}")

    def before_deadline(self, task_id: bytes) -> None:
        """Make empty blocks until the next one handles the task's deadline."""
        self.world.blocks(self.now(task_id).deadline - self.world.height)

    def clear(self, *tasks: bytes) -> None:
        """End tasks in any way that their customer has, and clear all their remains. Their claims pass unchecked."""
        early = [task_id for task_id in tasks if self.now(task_id).state in CANCELLED]
        cancels = (signed(CUSTOMER.stash, TrainingMarket.cancel(task=task_id)) for task_id in early)
        claims = [slot_case(task_id, place) for task_id in tasks for place in range(len(self.now(task_id).slots))]
        self.world.block(partial(without_points, claims), *cancels)
        for task_id in tasks:
            self.until(task_id, TaskState.ENDED)
        while self.world.now()[TrainingMarket].clearing.places[tasks[0]]:
            self.world.block()
        self.world.blocks(BIDS_MAX // DEVICES_EACH + 2)


def salt_of(bidder: Bidder) -> bytes:
    """Return the salt of a bid."""
    return blake2_256(b"bid salt" + bidder.device)


assert SLOTS_MAX == STANDBY * DEVICES_EACH, "the first fleets fill the largest gang"
