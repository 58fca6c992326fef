"""What the entries of TrainingMarket say to the books: what each hold of a task may come to, and how many there are.

A task's purses are paid out of step by step, so the books know of each what it may hold at most: nothing once the task
has ended, and of a bid what it locked. Counted anew (`task_books`), each is known to the grain, but what courts take.
"""

from gpu_tasks.market.training.bids import TaskBid, bid_case
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_CHALLENGE,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_DISPUTE,
    TASK_ESCROW,
    Task,
    TaskState,
    is_open,
    places_held,
    slot_case,
)
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold
from simulation.economy.pairs import Pair, at_most

TASK_REASONS = (TASK_ESCROW, TASK_BOND, TASK_DEPOSIT, TASK_DISPUTE, BID_BOND, TASK_COLLATERAL, TASK_CHALLENGE)
OPEN = "open"
ON_SALE = (TaskState.COMMITTING, TaskState.REVEALING)


class TaskPairs:
    """The books of tasks."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.deposits = Pair("deposit of a task, and what is held as such")
        self.limits = Pair("what is held for a task, and what may be", at_most)
        self.challenges = Pair("what is held for a fraud proof, and who made one", at_most)
        self.counted = Pair("open tasks and those that take bids, and tasks that are so")

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All of them."""
        return self.deposits, self.limits, self.challenges, self.counted

    def held(self, who: bytes, hold: Hold, amount: int) -> None:
        """So much more is held."""
        if hold.reason is TASK_DEPOSIT:
            self.deposits.count((who, hold), amount)
        elif hold.reason is TASK_CHALLENGE:
            self.challenges.count((who, hold.case), amount)
        else:
            self.limits.count((who, hold), amount)

    def task(self, task_id: bytes, task: Task, sign: int) -> None:
        """What a task holds, and what it counts as."""
        self.deposits.claim((task.customer, Hold(TASK_DEPOSIT, task_id)), sign * task.deposit)
        if task.state in ON_SALE or (task.state is TaskState.VOLUNTEERING and task.deadline):
            self.counted.count(task_id, sign)
        if not is_open(task):
            return
        self.counted.count(OPEN, sign)
        for place in range(places_held(task)):
            for reason in (TASK_ESCROW, TASK_BOND, TASK_DISPUTE):
                self.limits.claim((task.customer, Hold(reason, slot_case(task_id, place))), sign * CAP_GRAINS)
        if task.challenge is not None:
            self.challenges.claim((task.challenge.challenger, task_id), sign * task.challenge.bond)

    def bid(self, auction: bytes, device: bytes, bid: TaskBid, sign: int) -> None:
        """What a bid locks, as long as its record is there."""
        case = bid_case(auction, device)
        if bid.opened is None:
            self.limits.claim((bid.provider, Hold(BID_BOND, case)), sign * bid.bond)
        else:
            self.limits.claim((bid.provider, Hold(TASK_COLLATERAL, case)), sign * bid.opened.collateral)

    def claim(self, task_id: bytes, challenger: bytes, sign: int) -> None:
        """A fraud proof that was committed to holds a bond."""
        self.challenges.claim((challenger, task_id), sign * CAP_GRAINS)
