"""TrainingMarket's hook with the most work, one kind of work at a time: rows for a task, a slot and a bid."""

from benchmarks.weights.findings import Findings, line
from benchmarks.weights.task_road import Tasks
from benchmarks.weights.world import World
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.training.life.ending import CLEARED_MAX, DROPPED_MAX
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.terms import SLOTS_MAX

HOOK = "TrainingMarket.on_initialize"
ROUNDS = 5
SIZES = (1, SLOTS_MAX)
FEW_BIDS = 2


class TaskHook:
    """The hook's work in a block, row by row."""

    def __init__(self, world: World, found: Findings, tasks: Tasks) -> None:
        self.world, self.found, self.tasks = world, found, tasks

    def measure(self) -> None:
        """Measure all rows. A row is the maximum over the measured steps."""
        self._bids()
        self._awards()
        self._no_starts()
        self._claims()

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

    def _claims(self) -> None:
        """Measure claims of equal results: the hook opens all of them, each settles its slot, and the task ends."""
        tasks, opened, ended = self.tasks, {}, {}
        for slots in SIZES:
            task_id = tasks.stated(slots)
            opened[slots] = self._real(f"{slots} claims opened")
            tasks.claim(task_id)
            self._settled(task_id)
            ended[slots] = self._real(f"{slots} claims are over")
            tasks.clear(task_id)
        self._grows(opened)
        self._grows(ended)

    def _settled(self, task_id: bytes) -> None:
        """Measure the blocks in which unchecked claims settle their slots, and make them."""
        world, tasks = self.world, self.tasks
        world.blocks(beacon_heights(world.height)[-1] - world.height)
        while left := tasks.now(task_id).open_claims:
            self.found.hooks(f"{left} claims of slots to end", rounds=ROUNDS)
            world.block()
            if tasks.now(task_id).open_claims == left:
                raise RuntimeError("no claim ends")
