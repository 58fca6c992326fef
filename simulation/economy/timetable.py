"""What each schedule says to the books, and that every open unit is on one, and every ended one will be dropped."""

from typing import Any

from gpu_tasks.market.ages import unit_of
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.agenda import ScheduleItem
from simulation.economy.pairs import BooksBroken, Pair, both_or_none, told

Schedule = ScheduleItem[Any]

CALLS = (InferenceMarket.agenda, InferenceMarket.final_agenda, InferenceMarket.draws, InferenceMarket.rising)
"""What calls an open unit."""
COURTS = (Courts.heights, Courts.finals)
TASKS = (TrainingMarket.heights, TrainingMarket.finals)
"""What looks at a task, open or ended."""
CHECKS = (LeafChecks.heights, LeafChecks.finals)
"""What looks at a check of a batch."""
DISPUTES = (LeafDisputes.heights, LeafDisputes.finals)
"""What looks at a dispute about a batch."""


class Timetable:
    """Who waits where, according to both lists of each schedule, and who must."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.waits = Pair("a place, and who waits there")
        self.called = Pair("an open unit that no court has, and what calls it", both_or_none)
        self.drawn = Pair(
            "a unit in the queue that does not sleep, or a place of a race that was declined, and its draw",
            both_or_none,
        )
        self.dropped = Pair("an ended unit, and the block that drops it", both_or_none)
        self.judged = Pair("a case, and what looks at it", both_or_none)
        self.tended = Pair("a task that waits for more than a court, and what looks at it", both_or_none)
        self.checked = Pair("a check of a batch that no court has, and what looks at it", both_or_none)
        self.compared = Pair("a dispute about a batch that no court has, and what looks at it", both_or_none)
        self._at: dict[tuple[bytes, int], int] = {}
        self._cursors: dict[bytes, int] = {}

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All books of it."""
        units = self.called, self.drawn, self.dropped
        return self.waits, *units, self.judged, self.tended, self.checked, self.compared

    def wait(self, schedule: Schedule, keys: tuple[Any, ...], sign: int) -> None:
        """An item waits at a height, or no longer does; BooksBroken behind the cursor."""
        height, item = keys
        name = schedule.cursor.prefix
        if sign > 0 and height <= self._cursors.get(name, 0):
            raise BooksBroken(f"{schedule.waiting.name}, {told(item)}: waits at {height}, which has been done")
        self._at[name, height] = self._at.get((name, height), 0) + sign
        self.waits.count((schedule.places.name, item, height), sign)

    def place(self, schedule: Schedule, item: bytes, height: int, sign: int) -> None:
        """An item has a place in a schedule, or no longer."""
        if not height:
            return
        self.waits.claim((schedule.places.name, item, height), sign)
        if schedule is InferenceMarket.draws:  # by age: its items are not the units themselves
            self.called.count(unit_of(item), sign)
            self.drawn.count(unit_of(item), sign)
        elif schedule in CALLS:
            self.called.count(item, sign)
        elif schedule is InferenceMarket.expiring:
            self.dropped.count(item, sign)
        elif schedule in COURTS:
            self.judged.count(item, sign)
        elif schedule in TASKS:
            self.tended.count(item, sign)
        elif schedule in CHECKS:
            self.checked.count(item, sign)
        elif schedule in DISPUTES:
            self.compared.count(item, sign)

    def reach(self, schedule: Schedule, height: int, sign: int) -> None:
        """A cursor stands at a height; BooksBroken if it passed over somebody, or went back."""
        name = schedule.cursor.prefix
        if sign < 0:
            return
        before = self._cursors.get(name, 0)
        left = [passed for passed in range(before + 1, height + 1) if self._at.get((name, passed), 0)]
        if left or height < before:
            raise BooksBroken(f"{schedule.cursor.name}: from {before} to {height}, past what waits at {left}")
        self._cursors[name] = height

    def unit(self, unit_id: bytes, unit: Unit, sign: int) -> None:
        """What a unit needs: a call while it is open, a draw while it waits for one, an end of its record."""
        if not is_open(unit):
            if not unit.is_watched:
                self.dropped.claim(unit_id, sign)
            return
        if unit.state is not UnitState.JUDGING:  # then the courts come back to it
            self.called.claim(unit_id, sign)
        if unit.is_refilling or (unit.state is UnitState.QUEUED and not unit.asleep_since):
            self.drawn.claim(unit_id, sign)

    def task(self, task_id: bytes, task: Task, sign: int) -> None:
        """A task needs a look to come, until its record is dropped; while courts have its cases, they come back.

        While they judge a fraud proof the beacon still says whether there is an audit.
        """
        awaits_chance = task.challenge is not None and not task.is_checked
        if not task.cases or awaits_chance:
            self.tended.claim(task_id, sign)

    def check(self, unit: bytes, check: LeafCheck, sign: int) -> None:
        """A check needs a look to come, but while a court has its case."""
        if check.case is None:
            self.checked.claim(unit, sign)

    def dispute(self, unit: bytes, dispute: LeafDispute, sign: int) -> None:
        """A dispute needs a look to come, but while a court has its leaf."""
        if dispute.stage is not DisputeStage.JUDGED or dispute.found is not None:
            self.compared.claim(unit, sign)

    def is_due(self, case_id: bytes, sign: int) -> None:
        """A case waits for a block with room to look at it."""
        self.judged.count(case_id, sign)

    def case(self, case_id: bytes, sign: int) -> None:
        """An open case needs a block that looks at it."""
        self.judged.claim(case_id, sign)
