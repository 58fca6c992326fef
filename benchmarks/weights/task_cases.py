"""The calls of TrainingMarket at their worst: the largest gang, an auction full except for the last bid.

A cost that grows with a gang is measured on a task of one slot and on one of 32. It gives a row for each slot.
"""

from benchmarks.weights.actors import CUSTOMER, Actor
from benchmarks.weights.findings import Findings
from benchmarks.weights.task_road import OTHER_ROOT, ROOT, Tasks
from benchmarks.weights.world import World
from gpu_tasks.market.training.orders import MILESTONES_MAX, REPLICAS, interval_of
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.call import Call
from simulation.chains.market_chain import signed

SIZES = (1, SLOTS_MAX)


class TaskCalls:
    """The calls of TrainingMarket."""

    def __init__(self, world: World, found: Findings, tasks: Tasks) -> None:
        self.world, self.found, self.tasks = world, found, tasks

    def measure(self) -> None:
        """Measure all of them."""
        self._auction()
        self._starts()
        self._work()
        self._ends()
        self._time()
        self._replicas()

    def _auction(self) -> None:
        """Measure the last of 128 bids, and its reveal."""
        world, tasks, found = self.world, self.tasks, self.found
        submits = {slots: TrainingMarket.submit(order=tasks.order(slots)) for slots in SIZES}
        found.growing(CUSTOMER.stash, "slot", submits)
        task_id = tasks.submit(tasks.order(SLOTS_MAX))
        *others, last = tasks.bidders(SLOTS_MAX, BIDS_MAX)
        tasks.commits(task_id, others)
        found.call(last.actor.provider, tasks.commit(task_id, last))
        tasks.commits(task_id, [last])
        tasks.until(task_id, TaskState.REVEALING)
        tasks.reveals(task_id, others)
        found.call(last.actor.provider, tasks.reveal(task_id, last))
        tasks.clear(task_id)
        world.block()

    def _starts(self) -> None:
        """Measure the calls before the work begins. The last provider's start begins the work for all."""
        tasks, found = self.tasks, self.found
        started = {slots: tasks.awarded(slots, bidders=tasks.owners(slots)) for slots in SIZES}
        self._growing(CUSTOMER, {slots: TrainingMarket.cancel(task=task_id) for slots, task_id in started.items()})
        gang = started[SLOTS_MAX]
        place = SLOTS_MAX - 1
        last = tasks.owner(gang, place).provider
        found.call(last, TrainingMarket.report_input(task=gang, place=place))
        tasks.each(gang, lambda place: TrainingMarket.start(task=gang, place=place), but=place)
        found.call(last, TrainingMarket.start(task=gang, place=place))
        tasks.clear(*started.values())

    def _work(self) -> None:
        """Measure the calls during the work."""
        world, tasks, found = self.world, self.tasks, self.found
        running = {slots: tasks.running(slots, milestones=MILESTONES_MAX) for slots in SIZES}
        stops = {slots: TrainingMarket.stop(task=task_id) for slots, task_id in running.items()}
        self._growing(CUSTOMER, stops)
        gang = running[SLOTS_MAX]
        place = SLOTS_MAX - 1
        tasks.each(gang, lambda place: tasks.checkpoint(gang, place), but=place)
        last = tasks.owner(gang, place).provider
        found.call(last, tasks.checkpoint(gang, place))
        world.block(signed(last, tasks.checkpoint(gang, place)))
        found.call(CUSTOMER.stash, TrainingMarket.confirm_checkpoint(task=gang, number=1, root=ROOT))
        world.block(*(signed(CUSTOMER.stash, stop) for stop in stops.values()))
        tasks.clear(*running.values())

    def _ends(self) -> None:
        """Measure a differing last result, after which voters decide."""
        tasks = self.tasks
        running = {slots: tasks.running(slots, bidders=tasks.owners(slots)) for slots in SIZES}
        gang, last = running[SLOTS_MAX], tasks.owner(running[SLOTS_MAX], SLOTS_MAX - 1)
        tasks.each(gang, lambda place: tasks.finish(gang, place), but=SLOTS_MAX - 1)
        calls = {slots: tasks.finish(task_id, slots - 1, OTHER_ROOT) for slots, task_id in running.items()}
        self._growing(last, calls)
        self.world.block(
            *(signed(last.provider, tasks.finish(task_id, slots - 1)) for slots, task_id in running.items())
        )
        tasks.clear(*running.values())

    def _time(self) -> None:
        """Measure bought time: the first interval, which releases the runner-up, the end, and a departure."""
        world, tasks, found = self.world, self.tasks, self.found
        task_id = tasks.awarded_time()
        who = tasks.owner(task_id, 0).provider
        world.block(signed(who, TrainingMarket.start(task=task_id, place=0)))
        found.call(who, TrainingMarket.leave(task=task_id))
        while world.height + 1 < tasks.now(task_id).started_at + interval_of(tasks.now(task_id).order):
            world.block()
        found.part(who, "time", tasks.checkpoint(task_id, 0))
        found.part(who, "time", tasks.finish(task_id, 0))
        tasks.clear(task_id)

    def _replicas(self) -> None:
        """Measure the most replicas: the last offered device, and the last opened result."""
        world, tasks, found = self.world, self.tasks, self.found
        task_id = tasks.seeking_replicas()
        *others, last = tasks.volunteers(task_id)
        calls = {who: TrainingMarket.volunteer(task=task_id, device=device) for who, device in (*others, last)}
        world.block(*(signed(who.provider, calls[who]) for who, _ in others))
        found.call(last[0].provider, calls[last[0]])
        world.block(signed(last[0].provider, calls[last[0]]))
        tasks.until(task_id, TaskState.STARTING)
        tasks.each(task_id, lambda place: TrainingMarket.start(task=task_id, place=place))
        tasks.each(task_id, lambda place: tasks.bind(task_id, place))
        place = REPLICAS[-1] - 1
        tasks.each(task_id, lambda place: tasks.open_result(task_id, place), but=place)
        found.call(tasks.owner(task_id, place).provider, tasks.open_result(task_id, place))
        tasks.clear(task_id)

    def _growing(self, who: Actor, calls: dict[int, Call], role: str = "") -> None:
        is_stash = who is CUSTOMER or role == "stash"
        self.found.growing(who.stash if is_stash else who.provider, "slot", calls)
