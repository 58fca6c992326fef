"""TrainingMarket's hook with the most work, one kind of work at a time: rows for a task, a slot and a bid."""

from functools import partial

from benchmarks.weights.actors import CUSTOMER
from benchmarks.weights.findings import Findings, line
from benchmarks.weights.task_road import Tasks
from benchmarks.weights.world import World
from gpu_tasks.market.training.life.ending import CLEARED_MAX, DROPPED_MAX
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.chains.market_chain import signed

HOOK = "TrainingMarket.on_initialize"
ROUNDS = 5
SIZES = (1, SLOTS_MAX)
FEW_BIDS = 2
NOT_AUDITED_TRIES = 5


class TaskHook:
    """The hook's work in a block, row by row."""

    def __init__(self, world: World, found: Findings, tasks: Tasks) -> None:
        self.world, self.found, self.tasks = world, found, tasks

    def measure(self) -> None:
        """Measure all rows. A row is the maximum over the measured steps."""
        self._bids()
        self._awards()
        self._no_starts()
        self._conclusions()
        self._nothing_shown()
        self._cases()

    def _real(self, name: str) -> float:
        """Return the cost of the next block's hook above its cost in a block where nothing is due."""
        real, _ = self.found.hooks(name, rounds=ROUNDS)["TrainingMarket"]
        return max(0.0, real - self.found.rows.get(HOOK, 0.0))

    def _most(self, part: str, nanoseconds: float) -> None:
        name = f"{HOOK} {part}"
        self.found.rows[name] = max(100.0, nanoseconds, self.found.rows.get(name, 0.0))

    def _grows(self, found: dict[int, float]) -> None:
        """Note the rows of a step and of a slot, from the same step with few slots and with many."""
        rows = line("step", "slot", found)
        self._most("step", rows["step"])
        self._most("slot", rows["step slot"])

    def _bids(self) -> None:
        """Measure an auction of 128 bids: its award to one slot, the clearing and the removal."""
        world, tasks = self.world, self.tasks
        taken, task_id = {}, b""
        for count in (FEW_BIDS, BIDS_MAX):
            task_id = tasks.submit(tasks.order(1))
            tasks.to_award(task_id, tasks.bidders(1, count))
            taken[count] = self._real(f"a task awarded among {count} bids")
            world.block()
            if count == BIDS_MAX:
                self._most("bid", self._real("bids set free") / CLEARED_MAX)
            tasks.clear(task_id)
        self._most("read_bid", line("award", "bid", taken)["award bid"])
        task = tasks.now(task_id)
        world.blocks(task.deadline - world.height)
        self._most("bid", self._real("bids dropped") / (1 + DROPPED_MAX))
        world.blocks(BIDS_MAX // DROPPED_MAX + 1)

    def _awards(self) -> None:
        """Measure a task of one slot and a gang, with the fewest bids."""
        tasks, found = self.tasks, {}
        read = self.found.rows[f"{HOOK} read_bid"]
        for slots in SIZES:
            task_id = tasks.submit(tasks.order(slots))
            tasks.to_award(task_id, tasks.bidders(slots))
            found[slots] = max(0.0, self._real(f"{slots} slots awarded") - (slots + 1) * read)
            tasks.clear(task_id)
        self._grows(found)

    def _no_starts(self) -> None:
        """Measure a task whose providers never start: all are settled and released, and the task is auctioned again."""
        tasks, found = self.tasks, {}
        for slots in SIZES:
            task_id = tasks.awarded(slots)
            tasks.before_deadline(task_id)
            found[slots] = self._real(f"{slots} slots that did not start")
            self.world.block()
            tasks.clear(task_id)
        self._grows(found)

    def _conclusions(self) -> None:
        """Measure an accepted result without audit: each slot is paid and released, and the task ends."""
        world, tasks, found = self.world, self.tasks, {}
        for slots in SIZES:
            task_id = self._not_audited(slots)
            world.block(signed(CUSTOMER.stash, TrainingMarket.accept(task=task_id)))
            found[slots] = self._real(f"{slots} slots settled")
            tasks.clear(task_id)
        self._grows(found)

    def _not_audited(self, slots: int) -> bytes:
        """Return a task with stated results that the chain has decided not to audit."""
        world, tasks = self.world, self.tasks
        for _ in range(NOT_AUDITED_TRIES):
            task_id = tasks.ended(slots)
            while not tasks.now(task_id).is_checked:
                world.block()
            if tasks.now(task_id).state is TaskState.SUBMITTED:
                return task_id
            while tasks.now(task_id).state is not TaskState.ENDED:
                world.block()
            tasks.clear(task_id)
        raise RuntimeError(f"{NOT_AUDITED_TRIES} tasks are audited, each once in a thousand")

    def _nothing_shown(self) -> None:
        """Measure traces that were not shown: all providers count as liars and are settled, and the task ends."""
        tasks, found = self.tasks, {}
        for slots in SIZES:
            task_id = tasks.disputed(slots)
            tasks.before_deadline(task_id)
            found[slots] = self._real(f"{slots} slots that have shown nothing")
            tasks.clear(task_id)
        self._grows(found)

    def _cases(self) -> None:
        """Measure shown traces: the hook opens a case for each slot, and the courts then handle all of them."""
        world, tasks, found = self.world, self.tasks, {}
        for slots in SIZES:
            task_id = tasks.disputed(slots)
            tasks.each(task_id, partial(tasks.show, task_id))
            found[slots] = self._real(f"{slots} cases opened")
            world.block()
            begun = world.height
            while tasks.now(task_id).state is not TaskState.ENDED:
                self.found.hooks(f"{slots} cases of slots, block {world.height - begun}", rounds=1)
                world.block()
            tasks.clear(task_id)
        self._grows(found)
